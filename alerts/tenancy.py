"""Alerts on what a tenant agreed to: budget, quota, reservations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.rule import Alert
from pipelines.promql.expressions import lasting
from pipelines.promql.recorded import BUDGET_PACE, BUDGET_USED, BY_CLASS, QUOTA, RESERVATION_END, TENANT_HELD

FAST_PACE: Final = 6
"""At six times the pace of the budget a month's money is gone in five days."""
SLOW_PACE: Final = 1.25
"""At one and a quarter, six days before the month ends."""
QUOTA_PART: Final = 0.9
ENDS_WITHIN_SECONDS: Final = 7 * 86_400


def tenancy() -> Iterator[Alert]:
    """Alerts by tenant."""
    yield _burn("TenantBudgetBurnFast", FAST_PACE, "1h", "6h", "warning")
    yield _burn("TenantBudgetBurnSlow", SLOW_PACE, "6h", "3d", "info")
    yield Alert(
        name="TenantBudgetSpent",
        expr=f"{BUDGET_USED} >= 1",
        severity="warning",
        audience="tenant",
        summary="{{ $labels.tenant }} has used {{ $value | humanizePercentage }} of this month's budget",
        description="The budget is gone before the month is. Agree on more, or end what can wait.",
        dashboard="gpuledger-cost",
        labels=("tenant",),
    )
    overflow = lasting(f'{BY_CLASS}{{class="overflow"}}')
    yield Alert(
        name="TenantOverflow",
        expr=f"sum by (tenant, model) ({overflow}) > 0",
        for_="15m",
        severity="info",
        audience="tenant",
        summary="{{ $labels.tenant }} holds {{ $value }} GPUs of {{ $labels.model }} beyond quota or reservation",
        description="They cost the overflow rate. Reserve more, raise the quota, or end what can wait.",
        dashboard="gpuledger-tenant",
        labels=("tenant", "model"),
    )
    held = f"sum by (tenant) ({lasting(TENANT_HELD.name)})"
    yield Alert(
        name="TenantQuotaNearlyFull",
        expr=f"{held} / on (tenant) {QUOTA} >= {QUOTA_PART}",
        for_="30m",
        severity="info",
        audience="tenant",
        summary="{{ $labels.tenant }} holds {{ $value | humanizePercentage }} of its quota",
        description="What goes beyond the quota costs the overflow rate. Ask for a larger one before it is needed.",
        dashboard="gpuledger-tenant",
        labels=("tenant",),
    )
    yield Alert(
        name="ReservationEnds",
        expr=f"{RESERVATION_END} - time() < {ENDS_WITHIN_SECONDS}",
        severity="info",
        audience="tenant",
        summary="Reservation {{ $labels.reservation }} ends in {{ $value | humanizeDuration }}",
        description="From then on {{ $labels.tenant }} pays on demand for what it holds. Renew it, or plan for less.",
        dashboard="gpuledger-capacity",
        labels=("tenant", "reservation"),
    )


def _burn(name: str, pace: float, short: str, long: str, severity: str) -> Alert:
    """Both windows must burn: the long one shows that it matters, the short one that it still goes on."""
    lasting, still = (f"avg_over_time({BUDGET_PACE}[{window}])" for window in (long, short))
    return Alert(
        name=name,
        expr=f"{lasting} > {pace} and {still} > {pace}",
        severity="warning" if severity == "warning" else "info",
        audience="tenant",
        summary="{{ $labels.tenant }} uses its budget at {{ $value | printf `%.1f` }} times the planned pace",
        description=f"It did so over {long} and still did over the last {short}. Look at which model and class it is.",
        dashboard="gpuledger-cost",
        labels=("tenant",),
    )
