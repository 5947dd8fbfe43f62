from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from fractions import Fraction

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.catalog import BY_KEY
from exporter.endpoints import Endpoints
from exporter.exposition import Renderer
from exporter.families import OWN_METRICS, FamilyBuilder
from exporter.http1 import Request
from exporter.identity import Target
from exporter.owners.claims import Owner
from exporter.owners.shares import Conflict, Share
from exporter.snapshot import AdapterState, Snapshot
from exporter.xid import XidTally
from tests.exporter.conftest import Clock, MakeBackend, MakeSampler

H100 = {"model": "NVIDIA H100 80GB HBM3", "load": 0.8}


@pytest.fixture
def snapshot(fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock) -> Snapshot:
    """A node on which everything that can be exposed is."""
    backend, _ = fleet_backend(H100, {**H100, "mig": ["1g.10gb", "2g.20gb"]})
    sampler = make_sampler(backend)
    sampler.run_pass()
    clock.now += 15
    seen = sampler.run_pass()
    card, split = (state.device.uuid for state in seen.cards)
    return Snapshot(
        node="node1", backend="nvml", backend_up=True, driver_version="580", cards=seen.cards, expected=3,
        shares=[
            Share(Target(card), Owner("ns", "a"), Fraction(1, 3), "kubernetes", "0"),
            Share(Target(card), Owner("ns", "b"), Fraction(1, 3), "kubernetes", "1"),
            Share(Target(split, "1"), Owner(job="8812", user="ada"), Fraction(1), "slurm"),
        ],
        conflicts=[Conflict(Target(card), "kubernetes", "processes")],
        adapters=[AdapterState("kubernetes", up=True, unresolved=2), AdapterState("slurm", up=False)],
        xids={(card, None, 79): XidTally(2, 1.7e9), (split, "1", 31): XidTally(1, 1.7e9)},
        rejected={("power_watts", "above_range"): 4}, passes=7, failed_passes=1, stalled=1, pass_seconds=0.02,
        good=True, kernel_log_up=True,
    )  # fmt: skip


def samples(snapshot: Snapshot) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = Renderer().render(FamilyBuilder().build(snapshot)).body(openmetrics=False, gzipped=False).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name.removeprefix("gpuledger_"), []).append((sample.labels, sample.value))
    return found


def pick(rows: Iterable[tuple[dict[str, str], float]], *names: str) -> list[tuple[object, ...]]:
    return [(*(labels.get(name) for name in names), value) for labels, value in rows]


def test_shares_conflicts_and_the_unowned_rest(snapshot: Snapshot) -> None:
    found = samples(snapshot)
    assert pick(found["owner_share_ratio"], "gpu", "gpu_instance", "pod", "hpc_job", "vgpu", "source") == [
        ("0", None, "a", None, "0", "kubernetes", pytest.approx(1 / 3)),
        ("0", None, "b", None, "1", "kubernetes", pytest.approx(1 / 3)),
        ("1", "1", None, "8812", None, "slurm", 1),
    ]
    assert pick(found["unowned_share_ratio"], "gpu", "gpu_instance") == [
        ("0", None, pytest.approx(1 / 3)), ("1", "1", 0), ("1", "2", 1),
    ]  # fmt: skip
    assert pick(found["owner_conflicts"], "gpu", "believed", "overruled") == [("0", "kubernetes", "processes", 1)]
    assert pick(found["owner_adapter_up"], "adapter") == [("kubernetes", 1), ("slurm", 0)]
    assert pick(found["owner_unresolved_devices"], "adapter") == [("kubernetes", 2), ("slurm", 0)]


def test_counts_of_cards_passes_xids_and_rejections(snapshot: Snapshot) -> None:
    found = samples(snapshot)
    assert [found[name][0][1] for name in ("devices_expected", "devices_present", "passes_total")] == [3, 2, 7]
    assert pick(found["xid_errors_total"], "gpu", "gpu_instance", "xid", "class") == [
        ("0", None, "79", "restart_node", 2),
        ("1", "1", "31", "application", 1),
    ]
    assert pick(found["rejected_samples_total"], "metric", "reason") == [("power_watts", "above_range", 4)]


def test_every_own_metric_is_exposed_under_its_documented_type(snapshot: Snapshot) -> None:
    exposed = {family.name: family.kind for family in FamilyBuilder().build(snapshot) if family.samples}
    at_the_scrape = {"sample_age_seconds", "scrapes_total", "open_connections", "refused_connections_total"}
    for key in OWN_METRICS.keys() - at_the_scrape:
        assert exposed[f"gpuledger_{key}"] == OWN_METRICS[key][0], key


def test_no_series_stands_twice(snapshot: Snapshot) -> None:
    for family in FamilyBuilder(owner_labels=True).build(snapshot):
        where = [text for text, _ in family.samples]
        assert len(where) == len(set(where)), family.name


def whole_page(snapshot: Snapshot, clock: Clock) -> bytes:
    """What a scraper gets, the exporter's own process included."""
    endpoints = Endpoints([FamilyBuilder(owner_labels=True)], interval=15, clock=clock)
    endpoints.publish(snapshot)
    return endpoints.answer(Request("GET", "/metrics", {}, keep_alive=False)).body


def test_nothing_is_exposed_that_has_no_documented_name(snapshot: Snapshot, clock: Clock) -> None:
    exposed = set(re.findall(r"^# TYPE gpuledger_(\w+)", whole_page(snapshot, clock).decode(), re.MULTILINE))
    assert exposed <= OWN_METRICS.keys() | BY_KEY.keys()
    assert exposed >= OWN_METRICS.keys()


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool: apt-get install prometheus")
def test_promtool_finds_nothing_to_mend(snapshot: Snapshot, clock: Clock) -> None:
    page = whole_page(snapshot, clock)
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
