"""A scrape that fails now and then leaves holes: an alert whose condition holds fires all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from alerts.build import every_alert
from pipelines.promql.recorded import BUDGET_PACE, BUDGET_USED, QUOTA, RESERVATION_END, RESERVED
from tests.alerts.cases import CASES
from tests.alerts.kinds import samples
from tests.alerts.promtool import Case, example, failing, rule_of

pytestmark = pytest.mark.needs_program("promtool")

EVERY: Final = 5
NOT_SCRAPED: Final = frozenset(map(str, (QUOTA, RESERVED, RESERVATION_END, BUDGET_PACE, BUDGET_USED)))
"""Series that rules make of the configuration, or of what they recorded before."""
EXCUSED: Final = {
    **dict.fromkeys(("GpuNodeDown", "GpuExporterDown"), "what it looks for is that scrapes fail"),
    **dict.fromkeys(("GpuXidUnlistedCard", "GpuXidApplication", "PipelineFailing"), "it counts, and needs no `for`"),
    **dict.fromkeys(("GpuEccUncorrected", "GpuNvlinkErrors"), "it speaks of a change, for a while after it"),
    "GpusRunningOut": "it reads a trend of six hours, and what is free as GpusExhausted does",
}


def with_holes(case: Case) -> Case:
    """The same history where every fifth scrape failed, looked at in the last minute that is to fire."""
    last = max(minute for minute, instances in case.firing.items() if instances)
    series = {
        name: notation if name.partition("{")[0] in NOT_SCRAPED else " ".join(_holes(samples(notation), last - 2))
        for name, notation in case.series.items()
    }
    return replace(case, series=series, firing={last: case.firing[last]})


def _holes(minutes: list[str], failed: int) -> Iterator[str]:
    for minute, sample in enumerate(minutes):
        yield "stale" if (minute - failed) % EVERY == 0 or not sample else sample.partition("x")[0]


def constant(case: Case) -> bool:
    """Whether each series only ever stands still: what grows can't be cut into samples by their notation alone."""
    return all(
        part.count("x") <= 1 and "+" not in part for notation in case.series.values() for part in notation.split()
    )


ALERTS: Final = sorted({a.name for alerts in every_alert(example()).values() for a in alerts} - EXCUSED.keys())


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_outlives_failed_scrapes(name: str, tmp_path: Path) -> None:
    firing = (c for c in CASES if c.alert == name and any(c.firing.values()) and constant(c))
    case = with_holes(next(firing))
    assert failing([case], {name: rule_of(name)}, tmp_path) == {}
