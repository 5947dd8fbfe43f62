"""Where every cent is: the fleet's cost by place, what tenants pay for it, and what stays unbilled.

All figures are parts of the report's own totals, split to the cent, so that each column adds up exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from app.scope import Month, Scope
from pipelines.money import largest_remainder, round_money

ZERO: Final = Decimal(0)

BY_PLACE: Final = """
    -- grain: place
    SELECT CASE WHEN state = 'allocated' AND tenant IS NULL THEN 'unattributed' ELSE state END AS place,
           sum(gpu_hours) AS gpu_hours, sum(on_demand_weight) AS weight
    FROM device_day WHERE period = $period GROUP BY place ORDER BY place
"""
LABELS: Final = {
    "allocated": "Held by tenants",
    "unattributed": "Held, no tenant known",
    "idle": "Idle",
    "stranded": "Stranded by MIG layouts",
    "down": "Down",
    "unobserved": "Unobserved",
    "overhead": "Overheads and energy",
}


@dataclass(frozen=True)
class Place:
    """Where a part of the fleet's cost is.

    Attributes:
        gpu_hours: None where it isn't made of hours.
        cost: at the on-demand price; billed: what tenants pay for it.
    """

    key: str
    gpu_hours: float | None
    cost: Decimal
    billed: Decimal

    @property
    def label(self) -> str:
        """For people."""
        return LABELS[self.key]

    @property
    def unbilled(self) -> Decimal:
        """Cost that nobody pays; negative where tenants pay more than the on-demand price."""
        return self.cost - self.billed


@dataclass(frozen=True)
class Totals:
    """The fleet's month, as reported."""

    cost: Decimal
    billed: Decimal
    unbilled: Decimal
    capacity_gpu_hours: float
    allocated_gpu_hours: float
    idle_gpu_hours: float
    devices: int

    @property
    def held(self) -> float | None:
        """The share of capacity that was held."""
        return self.allocated_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else None

    @property
    def idle(self) -> float | None:
        """The share of capacity that nobody held."""
        return self.idle_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else None


def totals(scope: Scope, month: Month) -> Totals:
    """Return the fleet's totals of a month."""
    row = scope.reader.ask(
        """SELECT cost, billed, unbilled, capacity_gpu_hours, allocated_gpu_hours, idle_gpu_hours, devices
        FROM fleet_period WHERE period = $period""",
        {"period": month.name},
    ).row(0)
    cost, billed, unbilled = (round_money(m, scope.currency) for m in row[:3])
    return Totals(cost, billed, unbilled, *row[3:])


def places(scope: Scope, month: Month) -> list[Place]:
    """Return where the fleet's cost is; costs add up to the fleet's cost, billed to what tenants pay."""
    whole = totals(scope, month)
    rows = scope.reader.ask(BY_PLACE, {"period": month.name})
    weights = {place: exact(weight) for place, _, weight in rows.iter_rows()}
    hours = {place: h for place, h, _ in rows.iter_rows()}
    capacity = min(round_money(sum(weights.values(), Fraction(0)), scope.currency), whole.cost)
    priced = any(weights.values())
    cost = largest_remainder(capacity, weights, scope.currency) if priced else dict.fromkeys(weights, ZERO)
    cost["overhead"] = whole.cost - sum(cost.values(), ZERO)
    billed = _billed(scope, month)
    order = [place for place in LABELS if cost.get(place) or billed.get(place) or hours.get(place)]
    return [Place(place, hours.get(place), cost.get(place, ZERO), billed.get(place, ZERO)) for place in order]


def exact(weight: float | None) -> Fraction:
    """Return a weight without the noise of its floating-point sum, so that equal parts tie."""
    return Fraction(0) if weight is None else Fraction(f"{weight:.9f}")


def _billed(scope: Scope, month: Month) -> dict[str, Decimal]:
    """Return what tenants pay, by the place that it is for.

    A reservation is paid for what was held of it, and for the rest, which is idle; a credit gives some of that back.
    """
    row = scope.reader.ask(
        """SELECT coalesce(sum(usage), 0) AS usage, coalesce(sum(reservation + credit + idle), 0) AS reserved,
                  coalesce(sum(overhead + energy + commitment + adjustment), 0) AS overhead
        FROM tenant_period WHERE period = $period""",
        {"period": month.name},
    ).row(0, named=True)
    workloads = scope.reader.ask(
        "SELECT coalesce(sum(cost), 0) AS cost FROM workload_period WHERE period = $period", {"period": month.name}
    ).item()
    held = Decimal(workloads)
    return {"allocated": held, "idle": row["usage"] + row["reserved"] - held, "overhead": Decimal(row["overhead"])}
