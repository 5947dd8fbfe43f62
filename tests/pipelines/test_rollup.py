"""Usage against a count second by second, and where it is cut."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import lake, rollup
from pipelines.instants import HOUR_MS, to_ms
from tests.pipelines.folders import after_a_run, usage
from tests.pipelines.scene import START, Allocation, Minutes, Scene, at, seen
from tests.pipelines.stages import run

SECONDS = 90 * 60
BEGIN = int(START.timestamp())
PPB = 10**9


@st.composite
def holds(draw: st.DrawFn) -> list[Minutes]:
    """Allocations of one device, one after the other."""
    edges = sorted(draw(st.sets(st.integers(0, SECONDS), min_size=2, max_size=6)))
    return [(start / 60, end / 60) for start, end in zip(edges[::2], edges[1::2], strict=False)]


def second_by_second(held: list[Minutes], scraped: dict[int, int]) -> dict[tuple[int, str], list[int]]:
    """By hour and holder: seconds held, seconds observed, and the sum of percentages over those."""
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for second in range(SECONDS + 60):
        holder = next((f"w{n}" for n, (a, b) in enumerate(held) if round(a * 60) <= second < round(b * 60)), None)
        if holder is None:
            continue
        row = found[(BEGIN + second) // 3600, holder]
        row[0] += 1
        reading = scraped.get(second // 60)  # a sample stands for its minute: its next comes then, or in 60 s nothing
        if reading is not None:
            row[1] += 1
            row[2] += reading
    return {key: row for key, row in found.items() if row[0]}


@settings(max_examples=25)
@given(holds(), st.dictionaries(st.integers(0, 89), st.integers(0, 100), min_size=1, max_size=90))
def test_usage_is_what_a_count_second_by_second_finds(held: list[Minutes], scraped: dict[int, int]) -> None:
    scene = Scene(
        [seen("GPU-a", (minute, minute + 1), util=reading) for minute, reading in sorted(scraped.items())],
        allocations=[Allocation(span, device="GPU-a", tenant="astro", workload=f"w{n}") for n, span in enumerate(held)],
        config={"scrape_interval": "60s", "window": {"from": at(0), "to": at(91)}},
    )
    first, last = min(scraped), max(scraped) + 1  # the device exists from its first sample to its last one's reach
    inside = [(max(a, first), min(b, last)) for a, b in held]
    with TemporaryDirectory() as folder:
        metered = run(scene.write(Path(folder))).metered
    names = dict(metered.leases.select("id", "workload").iter_rows())
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    columns = ("lease", "start", "end", "busy_observed_ms", "busy_ppb_ms")
    for lease, start, end, observed, busy in metered.usage.filter(state="allocated").select(columns).iter_rows():
        row = found[start // HOUR_MS, names[lease]]
        row[0] += (end - start) // 1000
        row[1] += observed // 1000
        row[2] += busy // (PPB // 100) // 1000
    assert dict(found) == second_by_second(inside, scraped)


@pytest.mark.parametrize(
    ("config", "cut"),
    [
        ({"timezone": "Asia/Kolkata"}, datetime(2026, 3, 2, 18, 30, tzinfo=UTC)),  # a local midnight within a UTC hour
        ({"window": {"from": at(7), "to": at(900)}}, datetime(2026, 3, 2, 9, 7, tzinfo=UTC)),
        (
            {
                "rates": [
                    {"model": "*", "to": at(95), "on_demand": "1"},
                    {"model": "*", "from": at(95), "on_demand": "2"},
                ]
            },
            datetime(2026, 3, 2, 10, 35, tzinfo=UTC),
        ),
        (
            {"reservations": [{"id": "r", "tenant": "astro", "gpus": 1, "from": at(5), "to": at(11), "rate": "1"}]},
            datetime(2026, 3, 2, 9, 11, tzinfo=UTC),
        ),
        (
            {"tenants": [{"id": "astro", "match": [{"namespace": "astro", "from": at(33)}]}]},
            datetime(2026, 3, 2, 9, 33, tzinfo=UTC),
        ),
        (
            {
                "tenants": [{"id": "astro", "match": [{"namespace": "astro"}], "retired": "2026-03-03"}],
                "timezone": "Asia/Kolkata",
            },
            datetime(2026, 3, 2, 18, 30, tzinfo=UTC),
        ),
    ],
)
def test_usage_is_cut_where_the_configuration_changes(config: dict[str, object], cut: datetime, tmp_path: Path) -> None:
    scene = Scene([seen("GPU-a", (0, 900), "astro/fit", every=10)], config=config)
    usage = run(scene.write(tmp_path)).metered.usage
    assert to_ms(cut) in usage["end"].to_list()
    assert to_ms(cut) in usage["start"].to_list()


def test_usage_is_cut_at_utc_hours_and_nowhere_without_a_reason(tmp_path: Path) -> None:
    scene = Scene([seen("GPU-a", (-30, 90), "astro/fit")])
    usage = run(scene.write(tmp_path)).metered.usage
    starts = [datetime.fromtimestamp(start / 1000, UTC).strftime("%H:%M") for start in usage["start"]]
    assert starts == ["08:30", "09:00", "10:00"]


def test_shares_are_exact_fractions(tmp_path: Path) -> None:
    scene = Scene([seen("GPU-a", (0, 60), f"astro/p{n}") for n in range(7)])
    usage = run(scene.write(tmp_path)).metered.usage
    assert usage.select("weight_num", "weight_den").unique().rows() == [(1, 7)]


def test_a_fleet_whose_observations_wait_on_disk_is_rolled_up_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene([seen(f"GPU-{name}", (0, 90), f"astro/fit-{name}", util=40) for name in "abc"])
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 90)  # a group for each card
    in_memory = usage(after_a_run(scene, tmp_path / "memory"))
    monkeypatch.setattr(rollup, "ROWS_IN_MEMORY", 100)
    assert usage(after_a_run(scene, tmp_path / "disk")) == in_memory
    assert len(in_memory) == 6
