from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exporter.dcgm_names import DcgmFamilies, default_counters, load_counters
from exporter.devices import XidEvent
from exporter.errors import ConfigError
from exporter.exposition import Family
from exporter.identity import Target
from exporter.owners.claims import Owner
from exporter.owners.shares import Share
from exporter.snapshot import CardState, Snapshot
from exporter.xid import XidCounters
from tests.exporter.conftest import SHARED, MakeBackend, MakeSampler

H100 = {"model": "NVIDIA H100 80GB HBM3", "load": 0.8}
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the public captures in ../shared/data")


@pytest.fixture
def snapshot(fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Any) -> Snapshot:
    backend, _ = fleet_backend(H100, {**H100, "mig": ["1g.10gb", {"profile": "2g.20gb", "id": 5}]})
    sampler = make_sampler(backend)
    sampler.run_pass()
    clock.now += 15
    return sampler.run_pass()


def series(families: Any) -> dict[str, tuple[str, list[tuple[dict[str, str], float]]]]:
    """Kind and samples by name."""
    return {
        family.name: (family.kind, [(dict(re.findall(r'(\w+)="([^"]*)"', where)), v) for where, v in family.samples])
        for family in families
        if family.samples
    }


def test_units_are_dcgms(snapshot: Snapshot) -> None:
    found = series(DcgmFamilies(default_counters()).build(snapshot))
    card = snapshot.cards[0].values
    first = {name: samples[0][1] for name, (_, samples) in found.items()}
    assert first["DCGM_FI_DEV_GPU_UTIL"] == round(card["gpu_util_ratio"] * 100)
    assert first["DCGM_FI_DEV_FB_USED"] == card["memory_used_bytes"] // 1048576
    assert first["DCGM_FI_DEV_SM_CLOCK"] == 1980
    assert first["DCGM_FI_DEV_POWER_USAGE"] == pytest.approx(card["power_watts"])
    assert first["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == pytest.approx(card["energy_joules_total"] * 1000)
    assert first["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == pytest.approx(card["engine_active_ratio"])
    assert first["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] == pytest.approx(card["nvlink_bytes_per_second"] / 1e6)


def test_a_split_card_has_one_series_per_instance(snapshot: Snapshot) -> None:
    found = series(DcgmFamilies(default_counters()).build(snapshot))
    split = [labels for labels, _ in found["DCGM_FI_DEV_POWER_USAGE"][1] if labels["gpu"] == "1"]
    assert [(labels["GPU_I_ID"], labels["GPU_I_PROFILE"]) for labels in split] == [("1", "1g.10gb"), ("5", "2g.20gb")]
    used = {labels.get("GPU_I_ID"): value for labels, value in found["DCGM_FI_DEV_FB_USED"][1]}
    assert used.keys() == {None, "1", "5"}
    assert used["1"] < used["5"] < used[None]


def test_owners_are_labels_where_one_owner_holds_the_device(snapshot: Snapshot) -> None:
    card, split = (state.device for state in snapshot.cards)
    owner, other = Owner("ns", "pod-a", "main", "uid-a"), Owner("ns", "pod-b")
    half = (Target(split.uuid, "1"), 0.5)
    shares = [
        Share(Target(card.uuid), owner, 1, "kubernetes"),  # type: ignore[arg-type]
        Share(half[0], owner, half[1], "kubernetes"),  # type: ignore[arg-type]
        Share(half[0], other, half[1], "kubernetes"),
    ]  # type: ignore[arg-type]
    held = Snapshot("node1", "nvml", True, "580", snapshot.cards, 2, shares)
    found = series(DcgmFamilies(default_counters(), owner_labels=True).build(held))
    pods = {
        labels["gpu"] + labels.get("GPU_I_ID", ""): labels.get("pod") for labels, _ in found["DCGM_FI_DEV_FB_USED"][1]
    }
    assert pods == {"0": "pod-a", "11": None, "15": None}
    labels, _ = found["DCGM_FI_DEV_GPU_TEMP"][1][0]
    assert (labels["namespace"], labels["container"], labels["pod_uid"]) == ("ns", "main", "uid-a")
    bare = series(DcgmFamilies(default_counters()).build(held))
    assert "pod" not in bare["DCGM_FI_DEV_GPU_TEMP"][1][0][0]


COUNTERS = """\
# Format
DCGM_FI_DEV_GPU_TEMP, gauge, Temperature (in C).
DCGM_FI_DEV_BOARD_POWER_WATTS ,   gauge, Power, in watts.

DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, Retries.
DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, Not a GPU's.
DCGM_FI_DRIVER_VERSION, label, Driver Version
DCGM_FI_DEV_SERIAL, label, Serial
"""


def test_a_counters_file_chooses_names_kinds_help_and_labels(tmp_path: Path, snapshot: Snapshot) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(COUNTERS)
    counters = load_counters(path)
    assert counters.unknown == ("DCGM_FI_DEV_CPU_UTIL_TOTAL",)
    families = [family for family in DcgmFamilies(counters).build(snapshot) if family.samples]
    assert [(family.name, family.kind, family.help) for family in families] == [
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Temperature (in C)."),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "gauge", "Power, in watts."),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Retries."),
    ]
    assert 'DCGM_FI_DRIVER_VERSION="580.105.08"' in families[0].samples[0][0]
    assert "DCGM_FI_DEV_SERIAL=" in families[0].samples[0][0]


def test_dcgm_exporters_own_counts_of_xids(tmp_path: Path, snapshot: Snapshot) -> None:
    path = tmp_path / "counters.csv"
    path.write_text("DCGM_EXP_XID_ERRORS_COUNT, gauge, In the window.\nDCGM_EXP_XID_ERRORS_TOTAL, counter, Ever.\n")
    card, split = (state.device.uuid for state in snapshot.cards)
    xids = XidCounters()
    xids.record([XidEvent(card, 31), XidEvent(split, 13, "5")], 100.0)
    xids.record([XidEvent(card, 31), XidEvent(card, 79)], 500.0)
    seen = Snapshot("node1", "nvml", True, "580", snapshot.cards, 2, xids=xids.tallies(), at=600.0)
    found = series(DcgmFamilies(load_counters(path)).build(seen))

    def by_code(name: str) -> dict[tuple[str, str | None, str | None], float]:
        return {(w["gpu"], w.get("GPU_I_ID"), w.get("xid")): value for w, value in found[name][1]}

    assert by_code("DCGM_EXP_XID_ERRORS_TOTAL") == {("0", None, "31"): 2, ("0", None, "79"): 1, ("1", "5", "13"): 1}
    assert by_code("DCGM_EXP_XID_ERRORS_COUNT") == {
        ("0", None, "31"): 1, ("0", None, "79"): 1, ("1", "1", None): 0, ("1", "5", None): 0,
    }  # fmt: skip
    assert {labels["window_size_in_ms"] for labels, _ in found["DCGM_EXP_XID_ERRORS_COUNT"][1]} == {"300000"}
    assert found["DCGM_EXP_XID_ERRORS_TOTAL"][0] == "counter"


def test_every_label_of_an_owner_is_there_under_dcgm_exporters_name_if_it_has_one(snapshot: Snapshot) -> None:
    uuid = snapshot.cards[0].device.uuid
    owner = Owner(
        job="8812",
        user="ada",
        account="vision",
        qos="normal",
        pod_labels=(("label_team", "a"), ("label_UUID", "x"), ("label_5g", "b"), ("label_user", "eve")),
    )
    share = Share(Target(uuid), owner, 1, "slurm")  # type: ignore[arg-type]
    held = Snapshot("node1", "nvml", True, "580", snapshot.cards, 2, [share])
    labels = series(DcgmFamilies(default_counters(), owner_labels=True).build(held))["DCGM_FI_DEV_GPU_TEMP"][1][0][0]
    assert (labels["hpc_job"], labels["team"]) == ("8812", "a")
    assert (labels["user"], labels["account"], labels["qos"]) == ("ada", "vision", "normal")
    assert (labels["UUID"], labels["_5g"]) == (uuid, "b")  # a pod's label takes no other's place


def test_a_wrong_line_of_a_counters_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text("# fine\nDCGM_FI_DEV_GPU_TEMP, thermometer, Temperature\n")
    with pytest.raises(ConfigError, match=r"counters\.csv:2"):
        load_counters(path)


@needs_shared
def test_dcgm_exporters_own_counters_file_is_accepted() -> None:
    counters = load_counters(SHARED / "dcgm_exporter/default-counters.csv")
    assert len(counters.series) > 15
    assert counters.unknown == ()


def captured() -> dict[str, tuple[set[str], set[frozenset[str]]]]:
    """Types and label sets of every series in the captures, by name."""
    found: dict[str, tuple[set[str], set[frozenset[str]]]] = {}
    for path in (SHARED / "dcgm_exporter").rglob("*"):
        if path.suffix not in {".prom", ".ini"}:
            continue
        text = path.read_text()
        for name, kind in re.findall(r"^# TYPE (DCGM_FI_\w+) (\w+)$", text, re.MULTILINE):
            found.setdefault(name, (set(), set()))[0].add(kind)
        for name, where in re.findall(r"^(DCGM_FI_\w+)\{(.*)\} ", text, re.MULTILINE):
            found.setdefault(name, (set(), set()))[1].add(frozenset(re.findall(r'(\w+)="', where)))
    return found


@needs_shared
def test_names_types_and_labels_are_those_of_the_captures(snapshot: Snapshot) -> None:
    recorded = captured()
    card = snapshot.cards[0]
    owner = Owner("ns", "pod", "main", "uid")
    everything = card.values | {"vgpu_license_status": 0.0}
    cards = [CardState(card.device, "up", 0.0, everything), snapshot.cards[1]]
    held = Snapshot(
        "node1",
        "nvml",
        True,
        "580",
        cards,
        2,
        [Share(Target(card.device.uuid), owner, 1, "kubernetes")],
    )  # type: ignore[arg-type]
    ours: dict[str, list[Family]] = {}
    for with_owners in (False, True):
        for family in DcgmFamilies(default_counters(), owner_labels=with_owners).build(held):
            ours.setdefault(family.name, []).append(family)
    assert recorded.keys() <= ours.keys()
    label_sets = {labels for _, sets in recorded.values() for labels in sets}
    for name, families in ours.items():
        if name not in recorded:
            continue
        kinds, _ = recorded[name]
        assert not kinds or {family.kind for family in families} == kinds, name
        for family in families:
            for where, _ in family.samples:
                labels = frozenset(re.findall(r'(\w+)="', where))
                # Each capture has some of dcgm-exporter's optional labels; none may be of our own making.
                assert any(labels - {"pci_bus_id"} <= known | {"pci_bus_id", "pod_uid"} for known in label_sets), labels
                assert {"gpu", "UUID", "device", "modelName", "Hostname"} <= labels
