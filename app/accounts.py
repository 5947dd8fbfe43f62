"""Where every cent is: the fleet's cost by place, what tenants pay for it, and what stays unbilled.

All figures are parts of the months' own totals, split to the cent, so that each column adds up exactly: a month's cost
over places, and of a month that lies partly in the range each place's cost over its days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from app.scope import IN_DAYS, Month, Scope, Span
from pipelines.instants import HOUR_MS, to_ms
from pipelines.money import largest_remainder, round_money
from pipelines.periods import local_midnight
from pipelines.published_days import exact, split

ZERO: Final = Decimal(0)

BY_PLACE: Final = """
    -- grain: month × local day × place, of the months that the span touches
    SELECT period, day,
           CASE WHEN state = 'allocated' AND tenant IS NULL THEN 'unattributed' ELSE state END AS place,
           sum(gpu_hours) AS gpu_hours, sum(on_demand_weight) AS weight
    FROM device_day WHERE period BETWEEN $first_month AND $last_month GROUP BY ALL ORDER BY ALL
"""
BILLED: Final = """
    -- grain: month × line, of the months that the span touches
    SELECT period, line, sum(amount) AS month,
           coalesce(sum(amount) FILTER (day >= $first::DATE AND day < $after::DATE), 0) AS inside
    FROM line_day WHERE period BETWEEN $first_month AND $last_month GROUP BY ALL
"""
LABELS: Final = {
    "allocated": "Held by tenants",
    "unattributed": "Held, no tenant known",
    "idle": "Idle",
    "stranded": "Stranded by MIG layouts",
    "down": "Down",
    "unobserved": "Unobserved",
    "overhead": "Overheads and energy",
    "commitment": "Commitments not reached",
    "adjustment": "Corrections of closed months",
}
PLACE_OF: Final = {
    "usage": "allocated",
    "reserved": "allocated",
    "unused": "idle",
    "idle": "idle",
    "credit": "idle",
    "commitment": "commitment",
    "adjustment": "adjustment",
}
"""What a line is paid for; all others are for overheads. Nothing of the fleet costs what the last two are for."""


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
    """The fleet's cost and hours, as reported."""

    cost: Decimal
    billed: Decimal
    capacity_gpu_hours: float
    allocated_gpu_hours: float
    idle_gpu_hours: float
    devices: int

    @property
    def unbilled(self) -> Decimal:
        """Cost that nobody pays."""
        return self.cost - self.billed

    @property
    def held(self) -> float | None:
        """The share of capacity that was held."""
        return self.allocated_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else None

    @property
    def idle(self) -> float | None:
        """The share of capacity that nobody held."""
        return self.idle_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else None


def totals(scope: Scope, span: Span) -> Totals:
    """Return the fleet's totals of a span."""
    return scope.reader.once(("totals", span), lambda: _totals(scope, span))


def _totals(scope: Scope, span: Span) -> Totals:
    found = places(scope, span)
    hours = {p.key: p.gpu_hours or 0.0 for p in found}
    devices = scope.ask(f"SELECT count(DISTINCT (cluster, device)) FROM device_day WHERE {IN_DAYS}", span).item()
    return Totals(
        sum((p.cost for p in found), ZERO),
        sum((p.billed for p in found), ZERO),
        sum(hours.values()),
        hours.get("allocated", 0.0) + hours.get("unattributed", 0.0),
        hours.get("idle", 0.0),
        devices,
    )


def places(scope: Scope, span: Span) -> Sequence[Place]:
    """Return where the fleet's cost is; costs add up to the fleet's cost, billed to what tenants pay."""
    return scope.reader.once(("places", span), lambda: _places(scope, span))


def _places(scope: Scope, span: Span) -> Sequence[Place]:
    hours, weights = _by_place(scope, span)
    costs = scope.ask(
        "SELECT period, cost FROM fleet_period WHERE period BETWEEN $first_month AND $last_month ORDER BY period", span
    )
    whole = {m.name for m in span.whole}
    by_name = {m.name: m for m in span.months}
    billed: dict[str, Decimal] = defaultdict(Decimal)
    overheads: dict[str, tuple[Decimal, Decimal]] = defaultdict(lambda: (ZERO, ZERO))
    for month, line, *amounts in scope.ask(BILLED, span).iter_rows():
        of_month, inside = (round_money(a, scope.currency) for a in amounts)
        place = PLACE_OF.get(line, "overhead")
        billed[place] += inside
        if place == "overhead":
            overheads[month] = (overheads[month][0] + of_month, overheads[month][1] + inside)
    cost: dict[str, Decimal] = defaultdict(Decimal)
    for month, amount in costs.iter_rows():
        parts = _of_month(round_money(amount, scope.currency), weights[month], scope)
        if month not in whole:
            # What is billed of overheads has its days already; only the rest is spread.
            of_month, inside = overheads[month]
            cost["overhead"] += inside
            parts["overhead"] -= of_month
        for place, part in parts.items():
            if month in whole:
                cost[place] += part
                continue
            lengths = _lengths(by_name[month], scope)
            own = split(part, weights[month].get(place, {}), lengths, scope.currency)
            cost[place] += sum((a for day, a in own.items() if span.days.first <= day < span.days.after), ZERO)
    order = [place for place in LABELS if cost.get(place) or billed.get(place) or hours.get(place)]
    return [Place(place, hours.get(place), cost.get(place, ZERO), billed.get(place, ZERO)) for place in order]


_Weights = dict[str, dict[date, Fraction]]


def _by_place(scope: Scope, span: Span) -> tuple[dict[str, float], dict[str, _Weights]]:
    """Return the span's GPU-hours by place, and by month, place and day what they are worth on demand."""
    hours: dict[str, float] = defaultdict(float)
    weights: dict[str, _Weights] = defaultdict(lambda: defaultdict(dict))
    for month, day, place, gpu_hours, weight in scope.ask(BY_PLACE, span).iter_rows():
        weights[month][place][day] = exact(weight)
        if span.days.first <= day < span.days.after:
            hours[place] += gpu_hours
    return dict(hours), weights


def _of_month(whole: Decimal, weights: _Weights, scope: Scope) -> dict[str, Decimal]:
    """Split a month's cost over places; what isn't made of hours is overheads and energy."""
    sums = {place: sum(days.values(), Fraction(0)) for place, days in weights.items()}
    capacity = min(round_money(sum(sums.values(), Fraction(0)), scope.currency), whole)
    cost = largest_remainder(capacity, sums, scope.currency) if any(sums.values()) else dict.fromkeys(sums, ZERO)
    return {**cost, "overhead": whole - sum(cost.values(), ZERO)}


def _lengths(month: Month, scope: Scope) -> dict[date, Fraction]:
    """Return the hours of a month's local days."""
    found, day = {}, month.days.first
    while day < month.days.after:
        start, end = (to_ms(local_midnight(d, scope.zone)) for d in (day, day + timedelta(days=1)))
        found[day] = Fraction(end - start, HOUR_MS)
        day += timedelta(days=1)
    return found
