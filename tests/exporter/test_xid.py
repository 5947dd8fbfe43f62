from __future__ import annotations

import pytest

from exporter.devices import XidEvent
from exporter.families import FamilyBuilder
from exporter.xid import XidCounters, xid_class
from tests.exporter.conftest import Clock, MakeBackend, MakeSampler


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (79, "restart_node"),
        (119, "reset_gpu"),
        (48, "workflow"),
        (31, "application"),
        (63, "informational"),
        (1, "other"),
    ],
)
def test_codes_have_the_class_of_nvidias_catalogue(code: int, expected: str) -> None:
    assert xid_class(code) == expected


def test_events_count_by_device_instance_and_code() -> None:
    counters = XidCounters()
    counters.record([XidEvent("GPU-1", 31), XidEvent("GPU-1", 31), XidEvent("GPU-1", 31, "7")], 100.0)
    counters.record([XidEvent("GPU-1", 79)], 160.0)
    tallies = {key: (tally.count, tally.last_time) for key, tally in counters.tallies().items()}
    assert tallies == {
        ("GPU-1", None, 31): (2, 100.0),
        ("GPU-1", "7", 31): (1, 100.0),
        ("GPU-1", None, 79): (1, 160.0),
    }
    assert [counters.last_code(uuid) for uuid in ("GPU-1", "GPU-2")] == [79, 0]


def test_what_was_counted_before_stays_as_it_was() -> None:
    counters = XidCounters()
    counters.record([XidEvent("GPU-1", 31)], 100.0)
    before = counters.tallies()["GPU-1", None, 31]
    counters.record([XidEvent("GPU-1", 31)], 200.0)
    assert (before.count, before.last_time, before.count_since(0)) == (1, 100.0, 1)
    assert counters.tallies()["GPU-1", None, 31].count_since(150) == 1


def test_xids_are_exposed_with_class_and_time(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock
) -> None:
    faults = [{"kind": "xid", "code": 79, "at": 0}, {"kind": "xid", "code": 94, "at": 100}]
    backend, _ = fleet_backend({"model": "Tesla T4", "faults": faults})
    sampler = make_sampler(backend, wall_clock=lambda: clock.now + 1e9)

    def exposed() -> dict[str, float]:
        families = FamilyBuilder().build(sampler.run_pass())
        return {
            where.split("model=")[1].partition(",")[2]: value
            for family in families
            if family.name == "gpuledger_xid_errors_total"
            for where, value in family.samples
        }

    assert exposed() == {'xid="79",class="restart_node"}': 1}
    clock.now += 15
    assert exposed() == {'xid="79",class="restart_node"}': 1}
    clock.now += 100
    assert exposed() == {'xid="79",class="restart_node"}': 1, 'xid="94",class="application"}': 1}
