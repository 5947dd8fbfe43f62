from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from exporter.dcgm import DcgmBackend
from exporter.dcgm_bindings import BINDINGS, load_bindings
from exporter.devices import BackendError, DeviceLost, XidEvent
from exporter.fake_nvml import FakeNvml
from exporter.fleet import FakeFleet, FakeInstance
from exporter.fleet_file import parse_fleet
from exporter.main import main
from exporter.nvml import NvmlBackend
from tests.exporter.conftest import Clock, MakeSampler
from tests.exporter.fake_dcgm import Dcgm

FLEET = {
    "gpus": [
        {"model": "NVIDIA H100 80GB HBM3", "load": 0.7},
        {"model": "NVIDIA H100 80GB HBM3", "load": 0.4, "minor": 5, "mig": ["1g.10gb", "3g.40gb"]},
        {"model": "NVIDIA A100-SXM4-80GB", "load": 0.2},
    ]
}


@pytest.fixture
def fleet() -> FakeFleet:
    made = parse_fleet(FLEET)
    made.advance(0)
    return made


def test_both_backends_give_the_same_names_and_units(fleet: FakeFleet, clock: Clock) -> None:
    nvml = NvmlBackend(FakeNvml(fleet, clock), clock=clock)
    devices = nvml.discover()
    for device in devices:
        nvml.read(device)
    clock.now += 15
    by_nvml = {device.uuid: nvml.read(device) for device in devices}
    for card in fleet.cards:
        card.advance(15)
    dcgm = DcgmBackend(Dcgm(fleet, clock).bindings(), wall_clock=clock)
    found = dcgm.discover()
    assert [device.uuid for device in found] == [device.uuid for device in devices]
    shared = 0
    for device in found:
        ours, theirs = by_nvml[device.uuid], dcgm.read(device)
        for key in ours.values.keys() & theirs.values.keys():
            assert theirs.values[key] == pytest.approx(ours.values[key], rel=1e-3, abs=1e-6), key
            shared += 1
        assert ours.instance_values.keys() == theirs.instance_values.keys()
        for instance, values in ours.instance_values.items():
            for key in values.keys() & theirs.instance_values[instance].keys():
                assert theirs.instance_values[instance][key] == pytest.approx(values[key], rel=1e-3), key
                shared += 1
    assert shared > 150


def test_identities_come_from_the_host_engine_alone(fleet: FakeFleet, clock: Clock) -> None:
    backend = DcgmBackend(Dcgm(fleet, clock).bindings(), wall_clock=clock)
    first, split, _ = backend.discover()
    assert (first.index, first.minor, split.minor) == (0, 0, 5)
    assert [(instance.id, instance.profile) for instance in split.instances] == [("1", "1g.10gb"), ("2", "3g.40gb")]
    assert backend.driver_version == "580.105.08"


def test_nvml_beside_adds_mig_uuids_and_processes(clock: Clock) -> None:
    fleet = parse_fleet({"gpus": [{"mig": ["1g.10gb"], "processes": [{"pid": 7}]}]})
    nvml = NvmlBackend(FakeNvml(fleet, clock), clock=clock)
    backend = DcgmBackend(Dcgm(fleet, clock).bindings(), nvml=nvml, wall_clock=clock)
    (device,) = backend.discover()
    assert device.instances[0].mig_devices[0].uuid.startswith("MIG-")
    reading = backend.read(device)
    assert [process.pid for process in reading.processes] == [7]
    assert reading.values["recovery_action"] == 0  # this host engine has no such field, NVML has


def test_only_profiling_fields_that_the_card_supports_are_watched(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    devices = DcgmBackend(engine.bindings(), wall_clock=clock).discover()
    assert len(devices) == 3
    hopper, ampere = (set(engine.watched[number]) for number in (0, 2))
    assert {1001, 1002, 1005} <= hopper
    assert 1016 not in hopper
    assert not {1001, 1002, 1005} & ampere
    assert 1523 not in hopper  # unknown to this host engine
    assert 155 in ampere
    assert not {200, 201} & (hopper | ampere)  # KB/s or bytes, by the host engine's age


def test_a_card_whose_fields_are_blank_is_lost(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(engine.bindings(), wall_clock=clock)
    devices = backend.discover()
    engine.lost.add(0)
    with pytest.raises(DeviceLost, match="blank"):
        backend.read(devices[0])
    assert backend.read(devices[2]).values["power_watts"] > 0


def test_values_of_a_host_engine_that_stands_still_are_not_served(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(engine.bindings(), wall_clock=clock)
    device = backend.discover()[0]
    engine.stopped_at = clock.now
    clock.now += 44
    backend.read(device)
    clock.now += 2
    with pytest.raises(DeviceLost, match="stopped updating"):
        backend.read(device)


def test_a_host_engine_that_went_away_is_found_again(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(engine.bindings(), wall_clock=clock, reach=engine.reach)
    device = backend.discover()[0]
    engine.dead = True
    with pytest.raises(DeviceLost):
        backend.read(device)
    with pytest.raises(BackendError, match="nv-hostengine"):
        backend.reopen()
    engine.dead = False
    backend.reopen()
    assert backend.read(backend.discover()[0]).values["power_watts"] > 0


def test_nvml_stands_in_for_a_host_engine_that_is_down(clock: Clock, make_sampler: MakeSampler) -> None:
    fleet = parse_fleet({"gpus": [{"model": "NVIDIA H100 80GB HBM3", "load": 0.5}]})
    engine = Dcgm(fleet, clock)
    nvml = NvmlBackend(FakeNvml(fleet, clock), clock=clock)
    backend = DcgmBackend(engine.bindings(), nvml=nvml, reach=engine.reach, wall_clock=clock)
    sampler = make_sampler(backend)

    def seen() -> tuple[bool, str, bool]:
        clock.now += 15
        snapshot = sampler.run_pass()
        return snapshot.backend_up, snapshot.cards[0].state, "power_watts" in snapshot.cards[0].values

    assert seen() == (True, "up", True)
    engine.dead = True
    assert [seen(), seen()] == [(False, "up", True)] * 2
    engine.dead = False
    assert seen() == (True, "up", True)
    engine.stopped_at = clock.now - 60
    assert seen() == (False, "up", True)


def test_a_lost_card_is_lost_with_nvml_beside_too(clock: Clock) -> None:
    faults = [{"kind": "lost", "at": 5}]
    fleet = parse_fleet({"gpus": [{"model": "NVIDIA H100 80GB HBM3", "faults": faults}]})
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(
        engine.bindings(), nvml=NvmlBackend(FakeNvml(fleet, clock), clock=clock), reach=engine.reach, wall_clock=clock
    )
    device = backend.discover()[0]
    clock.now += 10
    engine.lost.add(0)
    with pytest.raises(DeviceLost):
        backend.read(device)


def test_a_host_engine_elsewhere_is_not_mixed_with_the_cards_here(fleet: FakeFleet, clock: Clock) -> None:
    here = parse_fleet({"gpus": [{"uuid": "GPU-here", "processes": [{"pid": 7}]}]})
    nvml = NvmlBackend(FakeNvml(here, clock), clock=clock)
    backend = DcgmBackend(Dcgm(fleet, clock).bindings(), nvml=nvml, wall_clock=clock)
    devices = backend.discover()
    assert [device.uuid for device in devices] == [card.uuid for card in fleet.cards]
    assert backend.read(devices[0]).processes == ()


def test_a_new_layout_is_watched_under_names_that_the_host_engine_takes(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(engine.bindings(), wall_clock=clock)
    backend.discover()
    before = len(engine.names)
    for number in range(3):
        fleet.cards[1].instances = [FakeInstance(number + 3, "1g.10gb", f"MIG-{number}")]
        fleet.cards[1].advance(number)
        split = backend.discover()[1]
        assert set(backend.read(split).instance_values) == {str(number + 3)}
    assert len(engine.names) == before


def test_a_latched_xid_counts_once(fleet: FakeFleet, clock: Clock) -> None:
    engine = Dcgm(fleet, clock)
    backend = DcgmBackend(engine.bindings(), wall_clock=clock)
    device = backend.discover()[0]

    def events() -> list[XidEvent]:
        backend.read(device)
        return backend.wait_for_xids(0)

    assert events() == []
    engine.xid[0] = (31, clock.now)
    assert [event.code for event in events()] == [31]
    assert events() == []
    engine.xid[0] = (31, clock.now + 5)
    assert [event.code for event in events()] == [31]


def test_bindings_are_found_where_nvidias_packages_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BINDINGS == (
        "/usr/share/datacenter-gpu-manager-4/bindings/python3", "/usr/local/dcgm/bindings/python3",
    )  # fmt: skip
    for name in ("pydcgm", "dcgm_structs", "dcgm_agent", "dcgm_fields"):
        (tmp_path / f"{name}.py").write_text(f"here = {name!r}\n")
        monkeypatch.setitem(sys.modules, name, None)  # so that it is gone again after the test
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", list(sys.path))
    bindings = load_bindings([str(tmp_path / "nowhere"), str(tmp_path)])
    assert (bindings.pydcgm.here, bindings.fields.here) == ("pydcgm", "dcgm_fields")


def test_missing_bindings_say_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="datacenter-gpu-manager"):
        load_bindings([str(tmp_path)])


def test_no_host_engine_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert main(["--backend", "dcgm", "--dcgm-address", f"127.0.0.1:{port}", "--once"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "nv-hostengine" in line
