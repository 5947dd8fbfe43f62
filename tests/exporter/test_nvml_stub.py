"""The real ctypes path, against a C library with NVML's ABI."""

from __future__ import annotations

import ctypes
import threading

import pytest

from exporter.devices import DeviceLost, Reading
from exporter.endpoints import Endpoints
from exporter.families import FamilyBuilder
from exporter.http1 import Request
from exporter.nvml import NvmlBackend
from exporter.pcie_follower import PcieFollower
from tests.exporter.conftest import Clock, MakeSampler, SetState

MIB = 1048576


@pytest.fixture
def backend(stub: SetState, clock: Clock) -> NvmlBackend:  # noqa: ARG001  the stub must be in place
    return NvmlBackend(clock=clock)


def read(backend: NvmlBackend, gpu: int = 0) -> Reading:
    return backend.read(backend.discover()[gpu])


def test_devices_are_described(backend: NvmlBackend) -> None:
    first, second = backend.discover()
    assert first.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert (first.index, first.minor, first.pci_bus_id) == (0, 1, "00000000:A0:00.0")
    assert (second.index, second.minor, second.model) == (1, 0, "NVIDIA H100 80GB HBM3")
    assert backend.driver_version == "580.0-stub"


def test_values_are_in_base_units(backend: NvmlBackend) -> None:
    values = read(backend).values
    assert values["power_watts"] == pytest.approx(699.123)
    assert values["power_instant_watts"] == pytest.approx(701)
    assert values["energy_joules_total"] == pytest.approx(3600)
    assert values["gpu_util_ratio"] == pytest.approx(0.97)
    assert values["sm_clock_hertz"] == 1.98e9
    assert values["temperature_celsius"] == 61
    assert values["memory_temperature_celsius"] == 72  # this field's type is unset, as some drivers leave it
    assert values["nvlink_transmit_bytes_total"] == 2048  # asked for all links at once
    parts = [values[f"memory_{part}_bytes"] for part in ("used", "free", "reserved")]
    assert sum(parts) == values["memory_total_bytes"] == 81559 * MIB


def test_what_a_card_lacks_is_absent_and_said(backend: NvmlBackend) -> None:
    reading = read(backend)
    assert "fan_speed_ratio" not in reading.values
    assert reading.capabilities["fan"] is False
    assert reading.capabilities["energy"] is True
    assert reading.capabilities["profiling"] is True


def test_field_values_may_all_be_unsupported(backend: NvmlBackend, stub: SetState) -> None:
    stub(0, "no_fields", 1)
    reading = read(backend)
    assert "energy_joules_total" not in reading.values
    assert reading.values["power_watts"] == pytest.approx(699.123)
    assert reading.capabilities["energy"] is False


def test_profiling_is_the_mean_between_two_passes(backend: NvmlBackend, clock: Clock) -> None:
    assert "sm_active_ratio" not in read(backend).values
    clock.now += 15
    values = read(backend).values
    assert values["sm_active_ratio"] == pytest.approx(0.8)
    assert values["pcie_transmit_bytes_per_second"] == 2048 * MIB


def test_a_wrapping_byte_counter_goes_on(backend: NvmlBackend, stub: SetState, clock: Clock) -> None:
    stub(0, "pcie_bytes", 4_000_000_000)
    read(backend)
    clock.now += 1
    # The first pass knows no rate: one wrap is assumed.
    stub(0, "pcie_bytes", 100)
    assert read(backend).values["pcie_transmit_bytes_total"] > 4_000_000_000
    before = read(backend).values["pcie_transmit_bytes_total"]
    clock.now += 10
    stub(0, "pcie_bytes", 200)
    grown = read(backend).values["pcie_transmit_bytes_total"] - before
    # 2 GiB/s for 10 s wraps 32 bits about five times.
    assert grown == pytest.approx(2048 * MIB * 10, abs=1 << 31)
    assert grown % (1 << 32) == 100


def test_a_wide_byte_counter_is_taken_as_it_is_and_tells_its_rate(
    backend: NvmlBackend, stub: SetState, clock: Clock
) -> None:
    stub(0, "no_profiling", 1)
    stub(0, "wide_pcie", 1)
    stub(0, "pcie_bytes", 5 << 32)
    assert read(backend).values["pcie_transmit_bytes_total"] == 5 << 32
    clock.now += 15
    stub(0, "pcie_bytes", 9 << 32)
    values = read(backend).values
    assert values["pcie_transmit_bytes_total"] == 9 << 32
    assert values["pcie_transmit_bytes_per_second"] == pytest.approx((4 << 32) / 15)


def test_a_counter_that_wraps_unseen_is_absent_and_said(backend: NvmlBackend, stub: SetState, clock: Clock) -> None:
    stub(0, "no_profiling", 1)
    for total in (100, 200, 300):
        stub(0, "pcie_bytes", total)
        reading = read(backend)
        assert "pcie_transmit_bytes_total" not in reading.values
        assert reading.capabilities["pcie_counters"] is False
        clock.now += 15


def test_a_link_too_slow_for_a_second_wrap_is_counted_exactly(
    backend: NvmlBackend, stub: SetState, clock: Clock
) -> None:
    stub(0, "no_profiling", 1)
    stub(0, "link", 1)  # 250 MB/s
    stub(0, "pcie_bytes", (1 << 32) - 100)
    read(backend)
    clock.now += 15
    stub(0, "pcie_bytes", 50)
    reading = read(backend)
    assert reading.values["pcie_transmit_bytes_total"] == (1 << 32) + 50
    assert reading.capabilities["pcie_counters"] is True


def test_a_followed_counter_is_exact_whatever_the_interval(stub: SetState, clock: Clock) -> None:
    stub(0, "no_profiling", 1)
    stub(0, "pcie_bytes", 0)
    backend = NvmlBackend(clock=clock, follow_pcie=True)
    device = backend.discover()[0]
    backend.read(device)
    fields = backend._probes[device.uuid][1].fields
    moved = 0
    for _ in range(30):  # 15 s at 63 GB/s
        moved += 3 << 30
        clock.now += fields.follow_seconds
        stub(0, "pcie_bytes", moved)
        fields.follow()
    assert backend.read(device).values["pcie_transmit_bytes_total"] == moved
    clock.now += 60
    fields.follow()  # a call hung for a minute: what moved meanwhile is unknown, and counting goes on
    stub(0, "pcie_bytes", moved + 7)
    assert backend.read(device).values["pcie_transmit_bytes_total"] == moved + 7
    assert fields.follow_seconds < 0.1
    backend.close()


def test_following_ends_with_its_card_and_when_told() -> None:
    followed = threading.Event()

    class Fields:
        follow_seconds = 0.001
        lost = False

        def follow(self) -> None:
            if self.lost:
                raise DeviceLost("gone")
            followed.set()

    fields = Fields()
    follower = PcieFollower("GPU-1", fields)  # type: ignore[arg-type]
    assert followed.wait(5)
    assert follower.alive
    assert follower.stop()
    lost = Fields()
    lost.lost = True
    follower = PcieFollower("GPU-1", lost)  # type: ignore[arg-type]
    follower._thread.join(5)
    assert not follower.alive


def test_totals_go_on_when_the_library_is_started_afresh(backend: NvmlBackend, stub: SetState, clock: Clock) -> None:
    stub(0, "pcie_bytes", 4_000_000_000)
    read(backend)
    clock.now += 15
    before = read(backend).values["pcie_transmit_bytes_total"]
    backend.reopen()
    clock.now += 15
    assert "pcie_transmit_bytes_total" not in read(backend).values  # its rate isn't known in this pass
    clock.now += 15
    assert read(backend).values["pcie_transmit_bytes_total"] > before


def test_nvlink_5_has_counters_of_its_own(backend: NvmlBackend, stub: SetState) -> None:
    stub(0, "nvlink5", 1)
    values = read(backend).values
    assert values["nvlink_transmit_bytes_total"] == 5202  # bytes, where earlier links count KiB
    assert values["nvlink_recoveries_total"] == 5215
    assert values["nvlink_malformed_packets_total"] == 5206
    assert values["nvlink_recoveries_failed_total"] == 5214
    assert values["nvlink_symbol_errors_total"] == 5221
    old = read(backend, 1)
    assert old.values["nvlink_recoveries_total"] == 1
    assert "nvlink_malformed_packets_total" not in old.values
    assert old.capabilities["nvlink"] is True


def test_what_a_card_refused_is_asked_for_again_after_an_hour(
    backend: NvmlBackend, stub: SetState, clock: Clock
) -> None:
    assert "fan_speed_ratio" not in read(backend).values
    stub(0, "fan", 1)
    clock.now += 15
    assert "fan_speed_ratio" not in read(backend).values
    clock.now += 3600
    reading = read(backend)
    assert reading.values["fan_speed_ratio"] == pytest.approx(0.4)
    assert reading.capabilities["fan"] is True


def test_processes_that_cant_be_told_are_not_none(backend: NvmlBackend, stub: SetState) -> None:
    stub(0, "process_error", 999)
    reading = read(backend)
    assert "compute_processes" not in reading.values
    assert reading.capabilities["processes"] is True
    stub(0, "process_error", 0)
    assert read(backend).values["compute_processes"] == 0


def test_events_are_asked_for_once_a_card(backend: NvmlBackend, stub: SetState, stub_library: ctypes.CDLL) -> None:
    registered = ctypes.c_int.in_dll(stub_library, "stub_registrations")
    registered.value = 0
    stub(1, "no_events", 1)
    first, second = backend.discover()
    stub(0, "lost", 1)
    backend.discover()
    stub(0, "lost", 0)
    backend.discover()
    assert registered.value == 1
    assert [backend.read(device).capabilities["xid_events"] for device in (first, second)] == [True, False]
    backend.reopen()
    backend.discover()
    assert registered.value == 2


def test_mig_instances_have_values_of_their_own(backend: NvmlBackend, stub: SetState, clock: Clock) -> None:
    stub(0, "mig", 2)
    device = backend.discover()[0]
    assert [(instance.id, instance.profile) for instance in device.instances] == [("7", "1g.10gb"), ("8", "1g.10gb")]
    backend.read(device)
    clock.now += 15
    reading = backend.read(device)
    assert reading.instance_values["7"]["memory_total_bytes"] == 9856 * MIB
    assert reading.instance_values["8"]["sm_active_ratio"] == pytest.approx(0.18)
    assert "sm_active_ratio" not in reading.values
    assert "gpu_util_ratio" not in reading.values
    assert reading.values["power_watts"] == pytest.approx(699.123)


def test_a_new_mig_layout_is_seen(backend: NvmlBackend, stub: SetState) -> None:
    stub(0, "mig", 1)
    assert len(read(backend).instance_values) == 1
    stub(0, "mig", 3)
    assert len(read(backend).instance_values) == 3
    stub(0, "mig", 0)
    reading = read(backend)
    assert reading.instance_values == {}
    assert reading.values["gpu_util_ratio"] == pytest.approx(0.97)


def test_a_lost_card_is_an_error_of_its_own(backend: NvmlBackend, stub: SetState) -> None:
    devices = backend.discover()
    stub(1, "lost", 1)
    assert backend.read(devices[0]).values["power_watts"] == pytest.approx(699.123)
    with pytest.raises(DeviceLost, match="GPU-00000000-0000-0000-0000-000000000001"):
        backend.read(devices[1])
    assert [device.index for device in backend.discover()] == [0]
    stub(1, "lost", 0)
    backend.reopen()
    assert [device.index for device in backend.discover()] == [0, 1]


def test_xids_come_as_events(backend: NvmlBackend, stub: SetState) -> None:
    devices = backend.discover()
    assert backend.wait_for_xids(0) == []
    stub(1, "xid", 79)
    stub(0, "xid", 31)
    events = backend.wait_for_xids(0)
    assert {(event.uuid, event.code, event.instance) for event in events} == {
        (devices[0].uuid, 31, None),
        (devices[1].uuid, 79, None),
    }


def test_processes_are_listed(backend: NvmlBackend, stub: SetState) -> None:
    assert read(backend).processes == ()
    stub(0, "processes", 4711)
    (process,) = read(backend).processes
    assert (process.pid, process.memory_bytes, process.instance) == (4711, MIB, None)


def test_ecc_and_throttling_count(backend: NvmlBackend, stub: SetState) -> None:
    stub(0, "ecc", 3)
    stub(0, "throttle_ns", 2_500_000_000)
    values = read(backend).values
    assert values["ecc_uncorrected_volatile_total"] == 3
    assert values["throttle_power_seconds_total"] == pytest.approx(2.5)
    assert values["throttle_reasons_bitmask"] == 4


def test_one_hanging_card_delays_no_other(backend: NvmlBackend, stub: SetState, make_sampler: MakeSampler) -> None:
    sampler = make_sampler(backend, deadline=0.3)
    sampler.run_pass()
    stub(0, "hang", 1)
    hung = sampler.run_pass()
    assert [card.state for card in hung.cards] == ["stalled", "up"]
    assert hung.stalled == 1
    stub(0, "hang", 0)
    sampler._readers[hung.cards[0].device.uuid].wait(5)
    assert [card.state for card in sampler.run_pass().cards] == ["up", "up"]


def test_a_driver_that_hangs_for_a_minute_fails_no_scrape(
    backend: NvmlBackend, stub: SetState, clock: Clock, make_sampler: MakeSampler
) -> None:
    sampler = make_sampler(backend, deadline=0.1)
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)

    def scrape() -> dict[str, list[str]]:
        """The values of both cards, from the last pass."""
        endpoints.publish(sampler.run_pass())
        response = endpoints.answer(Request("GET", "/metrics", {}, keep_alive=False))
        assert response.status == 200
        lines = response.body.decode().splitlines()
        return {
            name: [line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"gpuledger_{name}{{")]
            for name in ("device_up", "power_watts", "sample_age_seconds")
        }

    assert scrape() == {"device_up": ["1", "1"], "power_watts": ["699.123"] * 2, "sample_age_seconds": ["0.0"] * 2}
    stub(0, "hang", 1)
    for age in (15, 30, 45):
        clock.now += 15
        assert scrape() == {
            "device_up": ["0", "1"], "power_watts": ["699.123"] * 2, "sample_age_seconds": [f"{age}.0", "0.0"],
        }  # fmt: skip
    clock.now += 15
    assert scrape()["power_watts"] == ["699.123"]
    stub(0, "hang", 0)
    assert sampler._readers[sampler._sorted()[0].uuid].wait(5)
    clock.now += 15
    assert scrape() == {"device_up": ["1", "1"], "power_watts": ["699.123"] * 2, "sample_age_seconds": ["0.0"] * 2}


def test_garbage_is_dropped_and_counted(backend: NvmlBackend, stub: SetState, make_sampler: MakeSampler) -> None:
    stub(0, "garbage", 1)
    snapshot = make_sampler(backend).run_pass()
    values = snapshot.cards[0].values
    assert not {"gpu_util_ratio", "power_watts", "temperature_celsius"} & values.keys()
    assert snapshot.rejected == {
        ("gpu_util_ratio", "above_range"): 1,
        ("power_watts", "above_range"): 1,
        ("temperature_celsius", "above_range"): 1,
    }
    assert snapshot.cards[1].values["power_watts"] == pytest.approx(699.123)


def test_a_ratio_just_above_one_counts_as_one(backend: NvmlBackend, clock: Clock, make_sampler: MakeSampler) -> None:
    sampler = make_sampler(backend)
    sampler.run_pass()
    clock.now += 15
    assert sampler.run_pass().cards[0].values["engine_active_ratio"] == 1.0
