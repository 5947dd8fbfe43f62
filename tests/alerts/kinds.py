"""Which kinds of history a case is, told from its samples; the first occurrence from its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.alerts.promtool import Case

KINDS: Final = ("fires", "doesn't fire", "resolves", "first occurrence", "missing data", "hand-over")

_PART: Final = re.compile(r"(?P<value>stale|_|-?[0-9.]+)(?:(?P<step>[+-][0-9.]+)?x(?P<times>[0-9]+))?")
_HOLDER: Final = re.compile(r',?\b(namespace|pod|exported_pod|hpc_job|tenant|believed|overruled)="[^"]*"')


def kinds_of(case: Case) -> set[str]:
    """The kinds that a case shows."""
    instances = list(case.firing.values())
    fires = any(instances)
    found = {"fires"} if fires else {"doesn't fire"}
    if fires and not instances[-1]:
        found.add("resolves")
    if fires and "first occurrence" in case.what:
        found.add("first occurrence")
    if _is_missing(case):
        found.add("missing data")
    if _is_handed_over(case):
        found.add("hand-over")
    return found


def samples(notation: str) -> list[str]:
    """Promtool's notation as a text per minute; "" where there is no sample."""
    minutes: list[str] = []
    for part in notation.split():
        found = _PART.fullmatch(part)
        assert found, notation
        # "1x3" is four samples; "_x3" three holes.
        count = int(found["times"] or 0) + (found["value"] != "_" or found["times"] is None)
        minutes += ["" if found["value"] in {"_", "stale"} else part] * count
    return minutes


def _is_missing(case: Case) -> bool:
    """Whether a moment that is looked at lies in, or after, a hole of some series that isn't its beginning."""
    last = max(case.firing)
    for seen in map(samples, case.series.values()):
        begun = next((minute for minute, sample in enumerate(seen) if sample), 0)
        hole = next((minute for minute, sample in enumerate(seen) if not sample and minute >= begun), len(seen))
        if hole <= last:
            return True
    return False


def _is_handed_over(case: Case) -> bool:
    """Whether two series of one thing differ in their holder alone, and one begins after the other."""
    begins: dict[str, set[int]] = {}
    for name, minutes in _begins(case.series):
        begins.setdefault(_HOLDER.sub("", name).replace("{,", "{"), set()).add(minutes)
    return any(len(minutes) > 1 for minutes in begins.values())


def _begins(series: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for name, notation in series.items():
        yield name, next((minute for minute, sample in enumerate(samples(notation)) if sample), 0)


_NO_HOLDER: Final = "what it reads has no holder: it is of a node, a scrape target or the pipeline"
_SUMS: Final = "it reads what a tenant holds or costs in all, and no card"

EXCUSED: Final[dict[tuple[str, str], str]] = {
    **{
        (alert, "hand-over"): _NO_HOLDER
        for alert in (
            "GpuXidUnlistedCard", "GpuExporterDown", "GpuDriverUnavailable", "GpuMetricsStale", "GpuOwnersUnresolved",
            "GpuOwnerSourceDown", "GpuKernelLogUnread", "PipelineLate", "PipelineFailing",
        )
    },
    **{
        (alert, "hand-over"): _SUMS
        for alert in (
            "ReservationUnused", "ReservationEnds", "TenantBudgetBurnFast", "TenantBudgetBurnSlow", "TenantBudgetSpent",
        )
    },
    ("FleetGpusFree", "hand-over"): "a free card has no holder",
    ("GpusRunningOut", "hand-over"): "it reads free cards; that a hand-over frees none, GpusExhausted shows",
    ("MetricUnitDrift", "hand-over"): "it compares sums over a whole cluster",
}  # fmt: skip
"""Why an alert has no history of a kind."""
