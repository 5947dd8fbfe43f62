"""Budgets: how much is spent, and when they will be at this month's run rate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from math import floor
from typing import Literal

from pipelines.outlook.projection import Projection


@dataclass(frozen=True)
class Burn:
    """A budget of a month.

    Attributes:
        spent: fees and shares of the whole month, and what was used so far.
        elapsed_ratio: how much of the month is over.
        exhausted_on: the day on which nothing is left of it; None: not in this month, as far as is known.
    """

    tenant: str
    kind: Literal["money", "gpu_hours"]
    budget: float
    spent: float
    elapsed_ratio: float
    exhausted_on: date | None

    @property
    def spent_ratio(self) -> float | None:
        """How much of it is spent."""
        return self.spent / self.budget if self.budget else None


def exhausted_on(budget: float, spent: float, projected: Projection | None, today: date, left: float) -> date | None:
    """Return the day on which a budget is used up; today where it is already.

    Args:
        projected: by run rate.
        left: days of the month that are still to come, with their fractions.
    """
    if spent >= budget:
        return today
    if projected is None or left <= 0 or projected.expected < budget:
        return None
    a_day = (projected.expected - spent) / left
    return today + timedelta(days=floor((budget - spent) / a_day))
