from __future__ import annotations

import math
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.fleet_file import load_fleet, parse_fleet
from tests.exporter.conftest import Clock, MakeBackend, MakeSampler

HUGE = "9" * 400


def load(folder: Path, text: str | bytes) -> None:
    path = folder / "fleet.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    load_fleet(path)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("{count: many}", "gpus[0].count: 'many' was found, a whole number from 1 to 256 was expected"),
        ("{count: -1}", "gpus[0].count: -1 was found, a whole number from 1 to 256 was expected"),
        ("{count: 0}", "gpus[0].count: 0 was found"),
        ("{count: 2.0}", "gpus[0].count: 2.0 was found"),
        ("{count: true}", "gpus[0].count: True was found"),
        (f"{{count: {HUGE}}}", "gpus[0].count: "),
        ("{count: 257}", "gpus[0].count: 257 was found"),
        ("{count: }", "gpus[0].count: None was found"),
        ("{mig: [9z.1gb]}", "gpus[0].mig[0]: '9z.1gb' was found, a MIG profile such as 1g.10gb was expected"),
        ("{mig: [5g.40gb]}", "gpus[0].mig[0]: '5g.40gb' was found"),
        ("{mig: 1g.10gb}", "gpus[0].mig: '1g.10gb' was found, a list was expected"),
        ("{mig: [3]}", "gpus[0].mig[0]: 3 was found, a mapping or a MIG profile"),
        ("{mig: [{profil: 1g.10gb}]}", "gpus[0].mig[0]: unknown key 'profil'; did you mean 'profile'?"),
        ("{mig: [{id: -1}]}", "gpus[0].mig[0].id: -1 was found, a whole number from 0 to 14"),
        ("{mig: [{id: 1}, {id: 1}]}", "gpus[0].mig.id: 1/0 stands twice"),
        ("{mig: [4g.40gb, 4g.40gb]}", "gpus[0].mig: 8 slices were found, at most 7"),
        ("{faults: [lost]}", "gpus[0].faults[0]: 'lost' was found, a mapping was expected"),
        ("{faults: {kind: lost}}", "gpus[0].faults: {'kind': 'lost'} was found, a list was expected"),
        ("{faults: [{att: 4}]}", "gpus[0].faults[0]: unknown key 'att'; did you mean 'at'?"),
        ("{faults: [{at: 4}]}", "gpus[0].faults[0].kind: is missing"),
        ("{faults: [{kind: losd}]}", "gpus[0].faults[0].kind: unknown kind 'losd'; did you mean 'lost'?"),
        ("{faults: [{kind: [lost]}]}", "gpus[0].faults[0].kind: ['lost'] was found, one of lost, hang"),
        ("{faults: [{kind: lost, for: 0}]}", "gpus[0].faults[0].for: 0 was found, a number above 0"),
        ("{faults: [{kind: lost, at: -5}]}", "gpus[0].faults[0].at: -5 was found, a number from 0 on"),
        ("{faults: [{kind: lost, at: .nan}]}", "gpus[0].faults[0].at: nan was found"),
        ("{faults: [{kind: lost, for: .inf}]}", "gpus[0].faults[0].for: inf was found"),
        ("{faults: [{kind: xid, code: 4294967295}]}", "gpus[0].faults[0].code: 4294967295 was found"),
        ("{faults: [{kind: lost, code: 79}]}", "gpus[0].faults[0].code: says nothing of the kind lost"),
        ("{values: {temperature_celsius: hot}}", "gpus[0].values.temperature_celsius: 'hot' was found"),
        ("{values: {temperature_celsius: 999}}", "temperature_celsius: 999 was found, a number from 0 to 200"),
        ("{values: {temprature_celsius: 40}}", "unknown metric 'temprature_celsius'; did you mean 'temperature_cel"),
        ("{values: [temperature_celsius]}", "gpus[0].values: ['temperature_celsius'] was found, a mapping"),
        ("{processes: [4711]}", "gpus[0].processes[0]: 4711 was found, a mapping was expected"),
        ("{processes: [{pid: 0}]}", "gpus[0].processes[0].pid: 0 was found, a whole number from 1 on"),
        ("{processes: [{memory_bytes: 5}]}", "gpus[0].processes[0].pid: is missing"),
        ("{load: 2}", "gpus[0].load: 2 was found, a number from 0 to 1 was expected"),
        ("{load: waves}", "gpus[0].load: unknown load 'waves'; did you mean 'wave'?"),
        ("{load: [1]}", "gpus[0].load: [1] was found, a number from 0 to 1 or one of wave was expected"),
        ("{only_values: 'yes'}", "gpus[0].only_values: 'yes' was found, true or false was expected"),
        ("{model: 7}", "gpus[0].model: 7 was found, text was expected"),
        ("{model: ''}", "gpus[0].model: '' was found"),
        ("{pci_bus_id: 9b}", "gpus[0].pci_bus_id: '9b' was found, an address such as"),
        ("{uuid: GPU-a, count: 2}", "gpus[0].uuid: GPU-a stands twice"),
        ("{uuid: GPU-a}, {mig: [{uuid: GPU-a}]}", "gpus[1].mig[0].uuid: GPU-a stands twice"),
        ("{index: 0}, {index: 0}", "gpus[1].index: 0 stands twice"),
        ("{index: 5}", "gpus[0].index: 5 was found, the place in the driver's list, 0 to 0, was expected"),
        ("{minor: 1}, {minor: 1}", "gpus[1].minor: 1 stands twice"),
        ("{pci_bus_id: '0000:9B:00.0'}, {pci_bus_id: '0000:9b:00.0'}", "gpus[1].pci_bus_id: 0000:9b:00.0 stands twice"),
        ("{modle: T4}", "gpus[0]: unknown key 'modle'; did you mean 'model'?"),
        ("{count: 200}, {count: 200}", "gpus: 400 cards, at most 256"),
        ("3", "gpus[0]: 3 was found, a mapping was expected"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_fleet_is_one_line_with_its_place(tmp_path: Path, gpu: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"gpus: [{gpu}]")
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'fleet.yaml'}: ")
    assert expected in line
    assert "\n" not in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drivr_version: '580'\ngpus: []", "unknown key 'drivr_version'; did you mean 'driver_version'?"),
        ("driver_version: 580.1\ngpus: []", "driver_version: 580.1 was found, text in quotes was expected"),
        ("{}", "gpus: is missing; write a list"),
        ("", "None was found, a mapping was expected"),
        ("[gpus]", "['gpus'] was found, a mapping was expected"),
        ("gpus: [{count: 1, count: 2}]", "'count' stands twice"),
        ("gpus: [", "not YAML"),
        ("gpus: !!python/object:os.system x", "not YAML"),
        ("gpus: " + "[" * 5000, "nested too deeply"),
        (b"gpus: \xff", "byte 0xff is not UTF-8"),
        (b"gpus: \x00", "not YAML"),
        ("a: &a [x,x,x,x,x,x,x,x]\n" + "".join(f"{n}: &{n} [{','.join('*' + p for _ in range(9))}]\n" for p, n in
         zip("abcdefgh", "bcdefghi", strict=True)) + "gpus: *i", "unknown key 'a'"),
        ("gpus: &a [*a]", "gpus[0]: [[[[[[[...]]]]]]] was found"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_file_that_cant_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "loop", tmp_path / "nowhere", Path("a\0b")):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_fleet(path)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load_fleet(Path("/dev/zero"))


def test_an_index_is_the_place_in_the_drivers_list_and_the_rest_take_what_is_free(fleet_backend: MakeBackend) -> None:
    backend, _ = fleet_backend({"uuid": "GPU-c", "index": 2, "minor": 0}, {"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    assert [(card.uuid, card.index, card.minor) for card in backend.discover()] == [
        ("GPU-a", 0, 1), ("GPU-b", 1, 2), ("GPU-c", 2, 0),
    ]  # fmt: skip


def test_absent_keys_have_their_defaults() -> None:
    fleet = parse_fleet({"gpus": [{"values": None, "mig": None, "faults": [{"kind": "xid", "at": 3}]}]})
    (card,) = fleet.cards
    assert (card.model, card.load, card.faults[0].lasts, card.faults[0].code) == (
        "NVIDIA H100 80GB HBM3", "wave", math.inf, 79,
    )  # fmt: skip


def test_as_many_cards_as_there_may_be_have_addresses_of_their_own() -> None:
    cards = parse_fleet({"gpus": [{"count": 256}]}).cards
    assert len({card.pci_bus_id for card in cards}) == 256
    assert cards[224].pci_bus_id == "00000001:10:00.0"


def test_a_hanging_call_ends_with_its_fault(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    backend, _ = fleet_backend({"model": "Tesla T4", "faults": [{"kind": "hang", "at": 10, "for": 60}]})
    sampler = make_sampler(backend, deadline=0.1)
    assert [card.state for card in sampler.run_pass().cards] == ["up"]
    clock.now += 15
    assert [card.state for card in sampler.run_pass().cards] == ["stalled"]
    clock.now += 60
    (reader,) = sampler._readers.values()
    assert reader.wait(5)  # the call came back by itself
    assert [card.state for card in sampler.run_pass().cards] == ["up"]


def test_a_card_that_hangs_from_the_start_hides_no_other(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.nvml._PATIENCE_SECONDS", 0.1)
    hanging = {"uuid": "GPU-b", "faults": [{"kind": "hang", "for": 60}]}
    backend, driver = fleet_backend({"uuid": "GPU-a"}, hanging)
    sampler = make_sampler(backend)
    snapshot = sampler.run_pass()
    assert [(card.device.uuid, card.state) for card in snapshot.cards] == [("GPU-a", "up")]
    assert snapshot.good
    clock.now += 120
    for worker in backend._describers.values():
        assert worker.wait(5)
    assert driver.fleet.cards[1].seconds > 60
    assert [(card.device.uuid, card.state) for card in sampler.run_pass().cards] == [("GPU-a", "up"), ("GPU-b", "up")]


def test_a_node_of_which_nothing_is_known_is_not_ready(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, driver = fleet_backend({})
    monkeypatch.setattr(driver, "nvmlDeviceGetCount", driver._released.wait)
    snapshot = make_sampler(backend, deadline=0.05).run_pass()
    driver.release()
    assert (snapshot.good, snapshot.backend_up, snapshot.failed_passes) == (False, False, 1)
