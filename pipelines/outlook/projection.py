"""Where a month is going, from daily history: by its own run rate, and by weekdays; with an interval.

Both take days as independent around their mean. Intervals hold 80 % under a normal spread (z = 1.2816); what is spent
already is certain, so no bound lies below it. They are estimates, and floats: nothing is billed by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import sqrt
from statistics import mean, median, pstdev
from typing import Final, Literal

Z_80: Final = 1.2816  # two-sided 80 % of the normal distribution
MAD_TO_SIGMA: Final = 1.4826  # consistency of the median absolute deviation with a normal standard deviation
SEASON_DAYS: Final = 56
LEVEL_DAYS: Final = 28
LEAST_SEASON_DAYS: Final = 21  # each weekday three times
LEAST_RUN_DAYS: Final = 3


@dataclass(frozen=True)
class Projection:
    """What a month comes to.

    Attributes:
        low, high: the bounds that hold 80 % of outcomes.
        days: of history that it rests on.
    """

    method: Literal["run_rate", "seasonal"]
    expected: float
    low: float
    high: float
    days: int


def run_rate(so_far: float, daily: Sequence[float], left: float) -> Projection | None:
    """Project by the mean of the month's whole days.

    Args:
        so_far: what the month has come to.
        daily: of its whole days.
        left: days that are still to come, with their fractions.

    Returns:
        None: fewer than LEAST_RUN_DAYS whole days.
    """
    if len(daily) < LEAST_RUN_DAYS:
        return None
    return _around("run_rate", so_far, mean(daily) * left, pstdev(daily), left, len(daily))


def seasonal(so_far: float, history: Mapping[date, float], to_come: Mapping[date, float]) -> Projection | None:
    """Project by weekday: the level of the last four weeks × the weekday's share of a week.

    Args:
        history: by whole day.
        to_come: the part of each local day that is still to come.

    Returns:
        None: fewer than LEAST_SEASON_DAYS whole days on end.
    """
    days = sorted(history)[-SEASON_DAYS:]
    if len(days) < LEAST_SEASON_DAYS:
        return None
    level = mean(history[day] for day in days[-LEVEL_DAYS:])
    whole = mean(history[day] for day in days)
    factors = {
        weekday: mean(history[d] for d in days if d.weekday() == weekday) / whole if whole else 0.0
        for weekday in range(7)
    }
    residuals = [history[d] - level * factors[d.weekday()] for d in days]
    middle = median(residuals)
    spread = MAD_TO_SIGMA * median(abs(r - middle) for r in residuals)
    rest = sum(part * level * factors[day.weekday()] for day, part in to_come.items())
    return _around("seasonal", so_far, rest, spread, sum(to_come.values()), len(days))


def still_to_come(since: date, first_part: float, until: date) -> dict[date, float]:
    """Return the days from one, of which a part is left, up to and without another."""
    found: dict[date, float] = {}
    day = since
    while day < until:
        found[day] = first_part if day == since else 1.0
        day += timedelta(days=1)
    return found


def _around(
    method: Literal["run_rate", "seasonal"], so_far: float, rest: float, spread: float, left: float, days: int
) -> Projection:
    # The spread of a sum of days, and that of the mean that they are taken from.
    half = Z_80 * spread * sqrt(left + left * left / days)
    expected = so_far + rest
    return Projection(method, expected, max(so_far, expected - half), expected + half, days)
