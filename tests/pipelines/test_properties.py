"""What must always be true, over random fleets, leases, rates, reservations, quotas, outages and gaps."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.instants import HOUR_MS, to_ms
from tests.pipelines.expected import imbalances
from tests.pipelines.random_scenes import LENGTH, labelled_scenes, minutes, scenes, with_values
from tests.pipelines.scene import Scene, at, seen
from tests.pipelines.stages import Stages, run

MINUTE_MS = 60_000


def staged(scene: Scene) -> Stages:
    with TemporaryDirectory() as folder:
        return run(scene.write(Path(folder)))


def spans_of_cards(usage: pl.DataFrame) -> dict[tuple[str, str], list[tuple[int, int, Fraction]]]:
    spans = defaultdict(list)
    columns = ("cluster", "device", "start", "end", "weight_num", "weight_den")
    for cluster, device, start, end, numerator, denominator in usage.select(columns).iter_rows():
        spans[cluster, device].append((start, end, Fraction(numerator, denominator)))
    return spans


@settings(max_examples=30)
@given(scenes())
def test_every_device_second_is_in_exactly_one_place(scene: Scene) -> None:
    usage = staged(scene).metered.usage
    assert (usage["start"] < usage["end"]).all()
    assert (usage["start"] // HOUR_MS == (usage["end"] - 1) // HOUR_MS).all(), "a row lies in one UTC hour"
    for card, rows in spans_of_cards(usage).items():
        edges = sorted({edge for start, end, _ in rows for edge in (start, end)})
        for start in edges[:-1]:
            parts = sum((weight for first, last, weight in rows if first <= start < last), Fraction(0))
            assert parts in (0, 1), f"{card}: {parts} of it at {start}"


@settings(max_examples=25)
@given(st.sets(st.integers(0, 179), min_size=1, max_size=40))
def test_a_device_exists_from_its_first_sample_to_its_last_ones_reach(scraped: set[int]) -> None:
    series = [seen("GPU-a", (minute, minute + 1)) for minute in scraped]
    hours = staged(Scene(series, config={"scrape_interval": "60s"})).rated().fleet.hours
    assert sum(hours.values()) == Fraction(max(scraped) + 1 - min(scraped), 60)
    assert hours["idle"] == Fraction(len(scraped), 60)


@settings(max_examples=30)
@given(scenes())
def test_every_cent_is_in_exactly_one_place(scene: Scene) -> None:
    assert list(imbalances(staged(scene).report())) == []


@settings(max_examples=20)
@given(scenes())
def test_what_is_held_is_exactly_what_is_classed_and_what_workloads_held(scene: Scene) -> None:
    rated = staged(scene).rated()
    held = Fraction(0)
    for tenant, use in rated.tenants.items():
        allocated = use.held.allocated / HOUR_MS
        assert sum(use.hours.values()) == allocated, tenant
        assert sum((w.held.allocated for w in use.workloads.values()), Fraction(0)) / HOUR_MS == allocated
        assert sum((w.usage for w in use.workloads.values()), Fraction(0)) == use.usage
        held += allocated
    assert held == rated.fleet.hours.get("allocated", 0)


@settings(max_examples=20)
@given(scenes())
def test_what_was_reserved_is_used_unused_or_credited(scene: Scene) -> None:
    stages = staged(scene)
    rated = stages.rated()
    for tenant in ("astro", "bio"):
        own = [r for r in stages.config.reservations if r.tenant == tenant]
        assume(len({r.rate for r in own}) <= 1)
        reserved = Fraction(0)
        for r in own:
            start, end = max(to_ms(r.from_), stages.within[0]), min(to_ms(r.to), stages.within[1])
            reserved += r.gpus * Fraction(max(end - start, 0), HOUR_MS)
        if not reserved:
            continue
        use, price = rated.tenants[tenant], Fraction(own[0].rate or 0)
        assert use.reservation == reserved * price
        if price:
            assert use.hours["reserved"] + sum(use.unused.values()) + use.credit / price == reserved


@settings(max_examples=20)
@given(scenes(), minutes())
def test_hours_of_two_periods_are_those_of_both_together(scene: Scene, middle: tuple[int, int]) -> None:
    stages = staged(scene)
    start, end = stages.within
    between = start + (end - start) * middle[0] // LENGTH
    assume(start < between < end)
    whole, first, second = (stages.rated(w) for w in ((start, end), (start, between), (between, end)))
    for state, hours in whole.fleet.hours.items():
        assert hours == first.fleet.hours.get(state, 0) + second.fleet.hours.get(state, 0)
    for tenant, use in whole.tenants.items():
        parts = [r.tenants[tenant] for r in (first, second) if tenant in r.tenants]
        assert use.held.allocated == sum(p.held.allocated for p in parts)
        assert use.usage == sum(p.usage for p in parts)
        assert use.hours == {c: sum(p.hours[c] for p in parts) for c in use.hours}


@settings(max_examples=20)
@given(st.integers(0, 100), st.sets(st.integers(1, 58), max_size=50), st.booleans())
def test_a_missing_sample_lowers_the_coverage_and_nothing_else(util: int, lost: set[int], blank: bool) -> None:
    def reading(minute: float) -> Any:
        return 4294967295 if minute in lost else util

    if blank:
        series = [seen("GPU-a", (0, 60), "astro/a", uid="u1", util=reading)]
    else:
        kept = [m for m in range(60) if m not in lost]
        series = [seen("GPU-a", (m, m + 1), "astro/a", uid="u1", util=util) for m in kept]
    scene = Scene(series, config={"scrape_interval": "60s"})
    (tenant,) = staged(scene).report()["tenants"]
    assert tenant["gpu_hours"]["allocated"] == 1
    assert tenant["charges"]["usage"] == "3.00"
    assert tenant["utilization"] == util / 100
    assert tenant["coverage"] == round((60 - len(lost)) / 60, 6)


@settings(max_examples=15)
@given(scenes(), st.sampled_from((0, 100, "NaN")))
def test_how_busy_a_device_was_changes_no_bill(scene: Scene, reading: Any) -> None:
    scene = with_values(scene, {"util": reading, "engine": reading if reading != 100 else 1})
    before = {"energy": {"charge": False}}  # energy alone is split by activity
    one = Scene(scene.series, scene.jobs, scene.allocations, scene.inventory, {**scene.config, **before})
    two = with_values(one, {"util": 37, "engine": 0.37})
    bills = [{t["tenant"]: t["charges"] for t in staged(s).report()["tenants"]} for s in (one, two)]
    assert bills[0] == bills[1]


@settings(max_examples=12)
@given(labelled_scenes())
def test_one_more_idle_device_changes_no_usage(scene: Scene) -> None:
    more = [*scene.series, seen("GPU-zz", (0, LENGTH), every=5, node="rack7", util=0)]
    bigger = Scene(more, config={**scene.config, "window": {"from": at(0), "to": at(LENGTH)}})
    smaller = Scene(scene.series, config=bigger.config)
    one, two = (staged(s).rated() for s in (smaller, bigger))
    for tenant, use in one.tenants.items():
        other = two.tenants[tenant]
        assert (use.usage, use.hours, use.held.active) == (other.usage, other.hours, other.held.active)
    assert two.fleet.hours["idle"] == one.fleet.hours.get("idle", 0) + Fraction(LENGTH, 60)
