"""What a period is: months, days and windows, in a zone whose clock changes, aligned to nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tests.pipelines.cases import Case, fleet, tenant
from tests.pipelines.scene import Scene, at, seen


def month(zone: str, period: str, start: datetime, hours: int, bounds: tuple[str, str]) -> Case:
    """One device held for longer than a period, reported on that period alone."""
    scene = Scene(
        [seen("GPU-a", (-120, hours * 60 + 120), "astro/fit", every=30)],
        config={"timezone": zone, "period": period},
        start=start,
    )
    expected: dict[str, Any] = {
        "period": {"from": bounds[0], "to": bounds[1], "timezone": zone},
        "fleet": fleet(capacity=hours),
        "tenants": [tenant("astro", allocated=hours, usage=f"{hours * 3}.00")],
    }
    return Case(f"{period} in {zone} has {hours} hours", scene, expected)


CASES: Final = [
    month(
        "America/New_York",
        "2026-11",
        datetime(2026, 11, 1, 4, tzinfo=UTC),
        721,
        ("2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"),
    ),
    month(
        "Europe/Berlin",
        "2026-03-29",
        datetime(2026, 3, 28, 23, tzinfo=UTC),
        23,
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
    ),
    month(
        "Europe/Berlin",
        "2026-03-10",
        datetime(2026, 3, 9, 23, tzinfo=UTC),
        24,
        ("2026-03-09T23:00:00Z", "2026-03-10T23:00:00Z"),
    ),
    month(
        "America/New_York",
        "2026-03-10",
        datetime(2026, 3, 10, 4, tzinfo=UTC),
        24,
        ("2026-03-10T04:00:00Z", "2026-03-11T04:00:00Z"),
    ),
    month(
        "Asia/Kolkata",
        "2026-02",
        datetime(2026, 1, 31, 18, 30, tzinfo=UTC),
        672,
        ("2026-01-31T18:30:00Z", "2026-02-28T18:30:00Z"),
    ),
    Case(
        "a window aligned to nothing is as long as it is",
        Scene([seen("GPU-a", (0, 60), "astro/fit", util=40)], config={"window": {"from": at(7.5), "to": at(22.5)}}),
        {"tenants": [tenant("astro", allocated=0.25, utilization=0.4, coverage=1, usage="0.75")]},
    ),
    Case(
        "a window of dates ends where its last date begins",
        Scene(
            [seen("GPU-a", (0, 30 * 1440), "astro/fit", every=60)],
            config={"window": {"from": "2026-04-01", "to": "2026-04-30"}},
            start=datetime(2026, 4, 1, tzinfo=UTC),
        ),
        {"tenants": [tenant("astro", allocated=696)]},
    ),
    Case(
        "a window that ends before the first sample holds nothing, and nothing negative",
        Scene([seen("GPU-a", (0, 60), "astro/fit")], config={"window": {"from": at(-90), "to": at(-30)}}),
        {"fleet": fleet(capacity=0, allocated=0, cost="0.00"), "tenants": []},
    ),
    Case(
        "without a period it is the span of the data",
        Scene([seen("GPU-a", (3, 63), "astro/fit")]),
        {"period": {"from": at(3), "to": at(63), "timezone": "UTC"}},
    ),
    Case(
        "a window decides what is counted and not who is bridged",
        Scene(
            [seen("GPU-a", (0, 10), "astro/fit"), seen("GPU-a", (30, 40), "astro/fit")],
            config={"window": {"from": at(15), "to": at(25)}},
        ),
        {
            "fleet": fleet(capacity=0.166667, allocated=0.166667),
            "tenants": [tenant("astro", coverage=0, utilization=None)],
        },
    ),
]
