from __future__ import annotations

import gc
import itertools
import math
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from exporter.devices import BackendError, Device, Reading, XidEvent
from exporter.endpoints import Endpoints
from exporter.families import FamilyBuilder
from exporter.fleet import FakeInstance
from exporter.http1 import Request
from exporter.identity import Identities, Target
from exporter.owners.claims import Claim, Claims, Owner
from exporter.pci import cards_of_the_driver
from exporter.snapshot import Snapshot
from tests.exporter.conftest import Clock, MakeBackend, MakeSampler

H100 = {"model": "NVIDIA H100 80GB HBM3", "load": 0.8}


class Adapter:
    """An owner adapter that does what a test tells it to."""

    name = "static"
    evidence = False

    def __init__(self) -> None:
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        del readings
        self.gate.wait()
        if self.fails:
            raise OSError("the kubelet is gone")
        target = identities.by_index("0")
        return Claims((Claim(target, Owner(workload="w")),) if target else ())


def test_a_lost_card_stays_visible_and_comes_back(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    faults = [{"kind": "xid", "code": 79, "at": 20}, {"kind": "lost", "at": 20, "for": 100}]
    backend, _ = fleet_backend(H100, {**H100, "faults": faults})
    sampler = make_sampler(backend)
    assert [card.state for card in sampler.run_pass().cards] == ["up", "up"]
    clock.now += 30
    snapshot = sampler.run_pass()
    lost = snapshot.cards[1]
    assert (lost.state, lost.up) == ("lost", False)
    assert "power_watts" not in lost.values
    assert lost.values["xid_last_code"] == 79
    assert snapshot.cards[0].values["power_watts"] > 0
    clock.now += 15
    snapshot = sampler.run_pass()
    assert snapshot.cards[1].state == "missing"
    assert (snapshot.expected, snapshot.present) == (2, 1)
    assert snapshot.xids[lost.device.uuid, None, 79].count == 1
    for _ in range(10):
        clock.now += 15
        snapshot = sampler.run_pass()
    assert [card.state for card in snapshot.cards] == ["up", "up"]
    assert snapshot.cards[1].values["xid_last_code"] == 79


def test_the_expected_count_can_be_given(fleet_backend: MakeBackend, make_sampler: MakeSampler) -> None:
    backend, _ = fleet_backend(H100)
    snapshot = make_sampler(backend, expected=8).run_pass()
    assert (snapshot.expected, snapshot.present) == (8, 1)


def test_a_card_that_the_driver_never_listed_is_expected_all_the_same(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, tmp_path: Path
) -> None:
    drivers = tmp_path / "bus/pci/drivers"
    for name in ("nvidia/0000:18:00.0", "nvidia/0000:3e:00.0", "nvidia/module", "nvidia/bind", "vfio-pci/0000:9a:00.0"):
        (drivers / name).mkdir(parents=True)
    (drivers / "nvidia/0000:3e:00.4/physfn").mkdir(parents=True)  # a virtual function of the second card
    assert cards_of_the_driver(tmp_path) == {"0000:18:00.0", "0000:3e:00.0"}
    assert not cards_of_the_driver(tmp_path / "nowhere")
    backend, _ = fleet_backend(H100)
    snapshot = make_sampler(backend, bound=lambda: cards_of_the_driver(tmp_path)).run_pass()
    assert (snapshot.expected, snapshot.present) == (2, 1)


def test_a_hanging_call_leaves_the_last_values_for_three_intervals(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    backend, driver = fleet_backend({**H100, "faults": [{"kind": "hang", "at": 10, "for": 60}]}, H100)
    sampler = make_sampler(backend, deadline=0.1)
    fresh = sampler.run_pass()
    clock.now += 15
    hung = sampler.run_pass()
    assert [card.state for card in hung.cards] == ["stalled", "up"]
    assert hung.cards[0].values["power_watts"] == fresh.cards[0].values["power_watts"]
    assert hung.cards[0].sampled_at == fresh.cards[0].sampled_at
    clock.now += 31
    old = sampler.run_pass()
    assert old.cards[0].state == "stalled"
    assert "power_watts" not in old.cards[0].values
    clock.now += 60
    driver.release()
    sampler._readers[old.cards[0].device.uuid].wait(5)
    assert [card.state for card in sampler.run_pass().cards] == ["up", "up"]


def test_a_dead_adapter_costs_its_owners_and_nothing_else(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    adapter = Adapter()
    sampler = make_sampler(fleet_backend(H100)[0], [adapter])
    snapshot = sampler.run_pass()
    assert [share.owner.workload for share in snapshot.shares] == ["w"]
    adapter.fails = True
    clock.now += 15
    snapshot = sampler.run_pass()
    assert (snapshot.shares, snapshot.adapters[0].up, snapshot.good) == ([], False, True)
    adapter.fails = False
    clock.now += 15
    assert sampler.run_pass().adapters[0].up is True


def test_a_hanging_adapter_keeps_its_claims_for_three_intervals(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    adapter = Adapter()
    sampler = make_sampler(fleet_backend(H100)[0], [adapter], deadline=0.1)
    sampler.run_pass()
    adapter.gate.clear()
    clock.now += 15
    snapshot = sampler.run_pass()
    assert [share.owner.workload for share in snapshot.shares] == ["w"]
    assert snapshot.cards[0].up
    clock.now += 45
    snapshot = sampler.run_pass()
    assert (snapshot.shares, snapshot.adapters[0].up) == ([], False)
    adapter.gate.set()


def test_a_hanging_adapter_is_waited_for_once(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Adapter()
    adapter.gate.clear()
    sampler = make_sampler(fleet_backend(H100)[0], [adapter], deadline=0.05)
    sampler.run_pass()
    waited: list[float] = []
    monkeypatch.setattr(sampler._finders["static"], "wait", waited.append)
    sampler.run_pass()
    assert waited == []
    adapter.gate.set()


class DeadDriver:
    """A backend whose driver is gone, until it is back."""

    name = "nvml"
    driver_version = "1"
    up = True

    def __init__(self) -> None:
        self.dead = True
        self.replaced = False

    def discover(self) -> list[Device]:
        if self.dead:
            raise BackendError("NVML: driver not loaded", restart=self.replaced)
        return [Device("GPU-1", 0, 0, "00000000:01:00.0", "T4")]

    def read(self, device: Device) -> Reading:
        return Reading(device, {"power_watts": 30.0})

    def wait_for_xids(self, timeout_seconds: float) -> list[XidEvent]:
        del timeout_seconds
        return []

    def hears_xids(self, uuid: str) -> bool:
        del uuid
        return False

    def reopen(self) -> None:
        pass

    def close(self) -> None:
        pass


def request(path: str) -> Request:
    return Request("GET", path, {}, keep_alive=False)


def test_ready_after_the_first_good_pass_until_samples_are_old(make_sampler: MakeSampler, clock: Clock) -> None:
    driver = DeadDriver()
    sampler = make_sampler(driver)
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    assert endpoints.answer(request("/readyz")).status == 503
    endpoints.publish(sampler.run_pass())
    assert endpoints.answer(request("/readyz")).status == 503
    assert b"gpuledger_backend_up" in endpoints.answer(request("/metrics")).body
    driver.dead = False
    clock.now += 15
    endpoints.publish(sampler.run_pass())
    assert endpoints.answer(request("/readyz")).status == 200
    driver.dead = True
    sampler._listed.clear()
    for _ in range(4):
        clock.now += 15
        endpoints.publish(sampler.run_pass())
    assert endpoints.answer(request("/readyz")).status == 503
    assert endpoints.answer(request("/livez")).status == 200


def test_after_a_failure_the_next_pass_has_data_again(make_sampler: MakeSampler) -> None:
    driver = DeadDriver()
    sampler = make_sampler(driver)
    endpoints = Endpoints([FamilyBuilder()], interval=15)
    pages = []
    for dead in (True, False):
        driver.dead = dead
        endpoints.publish(sampler.run_pass())
        pages.append(endpoints.answer(request("/metrics")))
    assert [page.status for page in pages] == [200, 200]
    assert [b'gpuledger_backend_up{node="node1"} 0\n' in page.body for page in pages] == [True, False]
    assert [b'gpuledger_backend_up{node="node1"} 1\n' in page.body for page in pages] == [False, True]
    assert [b"gpuledger_power_watts{" in page.body for page in pages] == [False, True]


class OddCard(DeadDriver):
    """Two cards, of which the second answers with what no reader expects."""

    def __init__(self, odd: Callable[[Device], Reading]) -> None:
        super().__init__()
        self.dead, self._odd = False, odd

    def discover(self) -> list[Device]:
        return [*super().discover(), Device("GPU-2", 1, 1, "00000000:02:00.0", "Tesla P100")]

    def read(self, device: Device) -> Reading:
        return super().read(device) if device.index == 0 else self._odd(device)


def _no_profiling(device: Device) -> Reading:
    return Reading(device, {"power_watts": 25.0, "sm_active_ratio": None})  # type: ignore[dict-item]


def _garbage(device: Device) -> Reading:
    return Reading(device, {"power_watts": math.nan})


def _raises(_device: Device) -> Reading:
    raise TypeError("unsupported operand")


@pytest.mark.parametrize("odd", [_no_profiling, _garbage, _raises])
def test_one_odd_card_costs_its_own_values_alone(odd: Callable[[Device], Reading], make_sampler: MakeSampler) -> None:
    endpoints = Endpoints([FamilyBuilder()], interval=15)
    endpoints.publish(make_sampler(OddCard(odd)).run_pass())
    page = endpoints.answer(request("/metrics"))
    assert page.status == 200
    assert b'gpuledger_device_up{node="node1",gpu="0",uuid="GPU-1",model="T4"} 1\n' in page.body
    assert b'gpuledger_power_watts{node="node1",gpu="0",uuid="GPU-1",model="T4"} 30.0\n' in page.body
    assert b"gpuledger_sm_active_ratio{" not in page.body


def test_a_card_that_stays_away_is_looked_for_less_and_less_often(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, _ = fleet_backend(H100, {**H100, "faults": [{"kind": "lost", "at": 20, "for": 7000}]})
    reopened: list[float] = []
    reopen = backend.reopen
    monkeypatch.setattr(backend, "reopen", lambda: (reopened.append(clock.now), reopen()))
    sampler = make_sampler(backend)
    for _ in range(240):
        sampler.run_pass()
        clock.now += 15
    waits = [later - earlier for earlier, later in itertools.pairwise(reopened)]
    assert waits == [60, 120, 240, 480, 600, 600, 600, 600]
    clock.now += 4000
    for _ in range(50):
        snapshot = sampler.run_pass()
        clock.now += 15
    assert [card.state for card in snapshot.cards] == ["up", "up"]


def test_a_driver_that_is_gone_is_asked_in_every_pass(
    make_sampler: MakeSampler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = DeadDriver()
    asked: list[float] = []
    monkeypatch.setattr(driver, "reopen", lambda: asked.append(clock.now))
    sampler = make_sampler(driver)
    for _ in range(4):
        sampler.run_pass()
        clock.now += 15
    assert len(asked) == 3
    driver.dead = False
    assert sampler.run_pass().cards[0].up


def test_a_fault_in_one_pass_does_not_end_the_passes(make_sampler: MakeSampler, clock: Clock) -> None:
    driver = DeadDriver()
    driver.dead = False
    sampler = make_sampler(driver, interval=0.01)
    stop, published = threading.Event(), list[Snapshot]()

    def publish(snapshot: Snapshot) -> None:
        published.append(snapshot)
        clock.now += 0.01
        if len(published) == 1:
            raise ValueError("a fault of our own")
        stop.set()

    sampler.run(publish, stop)
    assert [snapshot.failed_passes for snapshot in published] == [0, 1]


def test_a_page_is_not_served_once_passes_have_stopped(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    endpoints.publish(make_sampler(fleet_backend(H100)[0]).run_pass())
    clock.now += 45
    assert b"gpuledger_power_watts" in endpoints.answer(request("/metrics")).body
    clock.now += 1
    stopped = endpoints.answer(request("/metrics"))
    assert (stopped.status, b"gpuledger_power_watts" in stopped.body) == (200, False)
    assert b"gpuledger_sample_age_seconds" in stopped.body


def test_alive_while_passes_end(make_sampler: MakeSampler, clock: Clock) -> None:
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    endpoints.publish(make_sampler(DeadDriver()).run_pass())
    clock.now += 149
    assert endpoints.answer(request("/livez")).status == 200
    clock.now += 2
    assert endpoints.answer(request("/livez")).status == 503


def test_a_driver_replaced_under_the_library_asks_for_a_restart(make_sampler: MakeSampler, clock: Clock) -> None:
    driver = DeadDriver()
    sampler = make_sampler(driver)
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    endpoints.publish(sampler.run_pass())
    assert endpoints.answer(request("/livez")).status == 200
    driver.replaced = True
    clock.now += 15
    endpoints.publish(sampler.run_pass())
    assert endpoints.answer(request("/livez")).status == 503


def test_samples_tell_their_age_at_the_scrape(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    endpoints.publish(make_sampler(fleet_backend(H100)[0]).run_pass())
    clock.now += 7.5
    lines = endpoints.answer(request("/metrics")).body.decode().splitlines()
    (age,) = [line for line in lines if line.startswith("gpuledger_sample_age_seconds{")]
    assert age.endswith(" 7.5")


def test_instances_are_owned_apart(fleet_backend: MakeBackend, make_sampler: MakeSampler) -> None:
    backend, _ = fleet_backend({**H100, "mig": ["3g.40gb", "3g.40gb"]})
    sampler = make_sampler(backend)
    snapshot = sampler.run_pass()
    assert set(snapshot.cards[0].instance_values) == {"1", "2"}
    text = "".join(f"{f.name}{w} {v}\n" for f in FamilyBuilder().build(snapshot) for w, v in f.samples)
    assert text.count("gpuledger_power_watts{") == 1
    assert text.count('gpuledger_memory_used_bytes{node="node1",gpu="0"') == 3
    assert text.count("gpuledger_unowned_share_ratio{") == 2
    assert Target(snapshot.cards[0].device.uuid, "1") is not None


def test_a_new_mig_layout_is_exposed_in_the_next_pass(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    backend, driver = fleet_backend({**H100, "mig": ["3g.40gb", "3g.40gb"]})
    sampler = make_sampler(backend)
    sampler.run_pass()
    driver.fleet.cards[0].instances = [FakeInstance(7, "7g.80gb", "MIG-new")]
    clock.now += 15
    (card,) = sampler.run_pass().cards
    assert [instance.id for instance in card.device.instances] == ["7"]
    assert set(card.instance_values) == {"7"}


def test_a_day_of_passes_holds_no_more_memory_than_its_first_hours(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    """24 h at 15 s on a clock that a test moves; owners change every pass."""

    class Churn(Adapter):
        def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
            del readings
            target = identities.by_index("0")
            return Claims((Claim(target, Owner(job=str(clock.now))),) if target else ())

    faults = [{"kind": "xid", "code": 31, "at": 40000}]
    few = {"model": "Tesla T4", "values": {"power_watts": 50}, "only_values": True, "faults": faults}
    backend, driver = fleet_backend(few)
    sampler = make_sampler(backend, [Churn()])
    endpoints = Endpoints([FamilyBuilder(owner_labels=True)], interval=15, clock=clock)
    scrapers = [{"accept-encoding": "gzip"}, {"accept": "application/openmetrics-text"}]
    threads = before = 0
    passes = 24 * 60 * 4
    for number in range(passes):
        clock.now += 15
        if number % 100 == 0:  # a new layout now and then, under new names
            driver.fleet.cards[0].instances = [FakeInstance(number % 7, "1g.5gb", f"MIG-{number}")]
        endpoints.publish(sampler.run_pass())
        if number % 100 == 50:
            for headers in scrapers:
                assert endpoints.answer(Request("GET", "/metrics", headers, keep_alive=False)).status == 200
        if number == passes // 6:
            threads = threading.active_count()
            gc.collect()
            before = sys.getallocatedblocks()
    assert threading.active_count() == threads
    gc.collect()
    assert sys.getallocatedblocks() - before < 2000
