"""The demo fleet's story has in it what the ledger must get right."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from itertools import accumulate, pairwise

import pytest

from pipelines.simulate.scenario import Scenario
from pipelines.simulate.segments import held_parts, segments
from pipelines.simulate.story import build_scenario


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("gpus", "days", "interval"), [(8, 1, 60), (24, 3, 15), (64, 30, 60)])
def test_no_unit_is_held_twice_and_every_edge_is_a_scrape(gpus: int, days: int, interval: int, seed: int) -> None:
    scenario = build_scenario(gpus=gpus, days=days, seed=seed, start=date(2026, 10, 30), interval=interval)
    by_unit = defaultdict(list)
    for lease in scenario.leases:
        assert lease.start < lease.end
        assert {lease.start % interval, lease.end % interval, lease.label_start % interval} == {0}
        by_unit[lease.unit].append((lease.start, lease.end))
    for spans in by_unit.values():
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(sorted(spans)))


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_lease_neither_begins_nor_ends_unseen(seed: int) -> None:
    scenario = build_scenario(gpus=64, days=7, seed=seed, start=date(2026, 11, 1), interval=60)
    (outage,) = scenario.of_kind("outage")
    fleet = scenario.fleet
    on_node = [lease for lease in scenario.leases if fleet.devices[fleet.units[lease.unit].device].node == outage.node]
    assert any(lease.start < outage.start and outage.end < lease.end for lease in on_node)
    for lease in on_node:
        assert not outage.start <= lease.start < outage.end
        assert lease.start >= outage.end or not outage.start < lease.end <= outage.end


def test_it_is_a_fleet_of_three_models_shared_in_every_way(demo: Scenario) -> None:
    devices, units = demo.fleet.devices, demo.fleet.units
    assert Counter(device.card.model for device in devices) == {
        "NVIDIA H100 80GB HBM3": 32,
        "NVIDIA A100-SXM4-80GB": 24,
        "Tesla T4": 8,
    }
    assert len({unit.device for unit in units if unit.instance}) == 8
    assert len({unit.device for unit in units if unit.slot is not None}) == 8
    assert any(node.joined for node in demo.fleet.nodes)


def test_tenants_come_from_kubernetes_and_slurm(demo: Scenario) -> None:
    pods = {lease.tenant for lease in demo.leases if lease.pod}
    jobs = {lease.tenant for lease in demo.leases if not lease.pod}
    assert {"vision", "speech", "serving", "teaching", None} <= pods
    assert {"nlp", "bio"} <= jobs
    assert "sandbox" in pods & jobs


def test_what_can_go_wrong_does(demo: Scenario) -> None:
    assert {incident.kind for incident in demo.incidents} >= {
        "outage", "repair", "driver_reload", "flicker", "throttle", "xid", "layout_change", "node_joined",
        "straggler", "data_starved", "multi_node", "requeue", "without_labels",
    }  # fmt: skip
    assert {repair.tenant for repair in demo.of_kind("repair")} == {None, "nlp"}
    assert any(lease.cut for lease in demo.leases)
    assert all(0 < flicker.end - flicker.start <= 300 for flicker in demo.of_kind("flicker"))


def test_accounting_has_what_it_has_in_life(demo: Scenario) -> None:
    states = Counter(job.state for job in demo.jobs)
    runs = Counter(job.id for job in demo.jobs)
    requeued = [job.id for job in demo.jobs if job.state == "REQUEUED"]
    assert requeued
    assert all(runs[job] == 2 for job in requeued)
    assert states["NODE_FAIL"]
    assert any(len(job.nodes) == 2 for job in demo.jobs)
    assert any(job.end > demo.window.last for job in demo.jobs)
    in_the_hour_set_back = [j for j in demo.jobs if _utc(2026, 11, 1, 5) <= j.end < _utc(2026, 11, 1, 7)]
    assert in_the_hour_set_back


def test_labels_come_late_linger_or_are_not_there(demo: Scenario) -> None:
    jobs = [lease for lease in demo.leases if not lease.pod]
    assert any(lease.label_start > lease.start for lease in jobs)
    assert any(lease.label_end > lease.end for lease in jobs)
    assert any(lease.label_start == lease.label_end for lease in jobs)


def test_the_month_ends_late_and_leases_straddle_its_end(demo: Scenario) -> None:
    window = demo.window
    assert window.end == _utc(2026, 12, 1, 5)
    assert window.end - window.start == 721 * 3600
    assert sum(lease.start < window.end < lease.end for lease in demo.leases) > 10
    assert sum(_utc(2026, 12, 1, 0) < lease.start < window.end for lease in demo.leases) > 5


def test_some_forty_gpus_are_idle_at_times(demo: Scenario) -> None:
    changes: dict[int, int] = defaultdict(int)
    for state in segments(demo, held_parts(demo)):
        changes[state.start] += state.idle
        changes[state.end] -= state.idle
    idle = [level / demo.fleet.quanta for level in accumulate(changes[time] for time in sorted(changes))]
    assert 40 <= max(idle) < 60
    assert min(idle[:-1]) < 10


def _utc(year: int, month: int, day: int, hour: int) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())
