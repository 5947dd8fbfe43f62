"""Costs that nobody caused alone: who shares idle capacity and overheads, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal
from zoneinfo import ZoneInfo

from pipelines.config import Overhead
from pipelines.money import largest_remainder, round_money
from pipelines.periods import Period, local_months

UNATTRIBUTED: Final = "\uffff unattributed"  # sorts after every tenant id, and is none


@dataclass(frozen=True)
class Keys:
    """What shares go by.

    Attributes:
        present: tenants with usage or a reservation.
        weight: (allocated + reserved unused) × on-demand rate by tenant; UNATTRIBUTED weighs as one.
    """

    present: list[str]
    weight: Mapping[str, Fraction]

    def share(self, amount: Fraction, split: Literal["even", "proportional"], currency: str) -> dict[str, Decimal]:
        """Split an amount among the tenants; the part of what nobody owns stays out, as all does with nobody there."""
        total = round_money(amount, currency)
        if split == "even":
            weights = dict.fromkeys(self.present, Fraction(1))
        else:
            weights = {tenant: w for tenant, w in self.weight.items() if w}
        if not total or not weights:
            return {}
        parts = largest_remainder(total, weights, currency)
        return {tenant: part for tenant, part in parts.items() if tenant != UNATTRIBUTED}


def overhead_amount(overhead: Overhead, period: Period, zone: ZoneInfo) -> Fraction:
    """Return what an overhead costs in a period: of each local month its monthly amount × overlap ÷ length."""
    amount = Fraction(0)
    for month in local_months(period.start, period.end, zone):
        overlap = Period(max(month.start, period.start), min(month.end, period.end))
        amount += Fraction(overhead.monthly) * overlap.hours / month.hours
    return amount


def beyond_unused(
    idle: Mapping[str | None, Fraction], unused: list[tuple[Fraction, list[str | None]]]
) -> dict[str | None, Fraction]:
    """Return the idle hours of each model beyond the unused hours of reservations.

    Args:
        idle: hours by model.
        unused: of each reservation, its unused hours and the models that it takes.
    """
    left = dict(idle)
    for hours, models in unused:
        open_hours = hours
        for model in sorted((m for m in models if m in left), key=str):
            take = min(open_hours, left[model])
            left[model] -= take
            open_hours -= take
    return left
