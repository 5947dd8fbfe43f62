"""How fast budgets go, and how much of this month's is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from alerts.rule import RecordingRule
from pipelines.config import Config
from pipelines.promql.recorded import (
    BUDGET,
    BUDGET_HOURS,
    BUDGET_PACE,
    BUDGET_USED,
    MONTH_START,
    TENANT_COST,
    TENANT_HELD,
)

MONTH_HOURS: Final = 730
"""A month of mean length, by which a monthly amount becomes one an hour."""


def pace(config: Config) -> Iterator[RecordingRule]:
    """The pace now; of a budget in money and one in GPU-hours the faster counts."""
    if any(tenant.budget for tenant in config.tenants):
        money = f"{TENANT_COST} * {MONTH_HOURS} / on (tenant) {BUDGET}"
        held = f"(sum by (tenant) ({TENANT_HELD}) or on (tenant) 0 * {BUDGET_HOURS})"
        hours = f"{held} * {MONTH_HOURS} / on (tenant) {BUDGET_HOURS}"
        both = f'label_replace({money}, "of", "money", "", "") or label_replace({hours}, "of", "hours", "", "")'
        yield RecordingRule(BUDGET_PACE, f"max by (tenant) ({both})")


def used(config: Config) -> Iterator[RecordingRule]:
    """The part used since the month began: the pace, added up by the hour."""
    if any(tenant.budget for tenant in config.tenants):
        yield RecordingRule(MONTH_START, _month_start(config.timezone))
        # `@ end()` is the time of evaluation: each hour is compared with the month that is now.
        this_month = f"on () (vector(time()) > on () {MONTH_START} @ end())"
        by_hour = f"(avg_over_time({BUDGET_PACE}[1h]) and {this_month})[31d:1h]"
        yield RecordingRule(BUDGET_USED, f"sum_over_time({by_hour}) / {MONTH_HOURS}")


def _month_start(zone: ZoneInfo) -> str:
    """Local midnight of the month's first day.

    No zone changes its clocks on the first of a month before that midnight in one year and after it in another, so
    the offset is a function of the month.
    """
    months: dict[int, list[int]] = {}
    for month in range(1, 13):
        first = datetime(2026, month, 1, tzinfo=zone)
        ahead = first.replace(tzinfo=UTC) - first
        months.setdefault(int(ahead.total_seconds()), []).append(month)
    branches = []
    for offset, of in months.items():
        local = f"vector(time() + {offset})" if offset >= 0 else f"vector(time() - {-offset})"
        start = f"({local} - (day_of_month({local}) - 1) * 86400 - ({local} % 86400) - {offset})"
        if len(months) > 1:
            tests = " or ".join(f"month({local}) == {month}" for month in of)
            start = f"({start} and on () ({tests}))"
        branches.append(start)
    return " or ".join(branches)
