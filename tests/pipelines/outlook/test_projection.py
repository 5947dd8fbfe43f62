"""Where a month is going, by hand-computed values and against a series whose end is known."""

from __future__ import annotations

from datetime import date, timedelta
from math import sqrt

import numpy as np
import pytest

from pipelines.outlook.burn import exhausted_on
from pipelines.outlook.projection import Projection, run_rate, seasonal, still_to_come

FIRST = date(2026, 9, 7)  # a Monday


def test_a_steady_month_goes_on_and_its_interval_is_nothing() -> None:
    assert run_rate(100.0, [10.0] * 10, 20.0) == Projection("run_rate", 300.0, 300.0, 300.0, 10)


def test_the_interval_is_that_of_the_days_to_come_and_of_their_mean() -> None:
    found = run_rate(60.0, [5.0, 10.0, 15.0, 10.0, 5.0, 15.0], 24.0)
    assert found is not None
    spread = sqrt(100 / 6)  # of 5, 10, 15, 10, 5, 15 around 10
    assert found.expected == 60.0 + 240.0
    assert found.high - found.expected == pytest.approx(1.2816 * spread * sqrt(24 + 24 * 24 / 6))


def test_what_is_spent_is_spent() -> None:
    found = run_rate(60.0, [0.0, 0.0, 60.0], 2.0)
    assert found is not None
    assert found.low == 60.0


@pytest.mark.parametrize("days", [0, 2])
def test_few_days_tell_nothing(days: int) -> None:
    assert run_rate(5.0, [1.0] * days, 20.0) is None


def weekly(days: int, *, noise: float = 0.0, seed: int = 1) -> dict[date, float]:
    rng = np.random.default_rng(seed)
    history = {}
    for n in range(days):
        day = FIRST + timedelta(days=n)
        history[day] = max(0.0, (100.0 if day.weekday() < 5 else 20.0) + rng.normal(0, noise or 1e-12))
    return history


def test_weekdays_are_told_apart() -> None:
    history = weekly(28)
    saturday, sunday = FIRST + timedelta(days=33), FIRST + timedelta(days=34)
    found = seasonal(0.0, history, {saturday: 1.0, sunday: 1.0})
    assert found is not None
    assert found.expected == pytest.approx(40.0, abs=1e-6)
    naive = run_rate(0.0, list(history.values()), 2.0)
    assert naive is not None
    assert naive.expected == pytest.approx(2 * (5 * 100 + 2 * 20) / 7)


def test_three_weeks_are_the_least() -> None:
    assert seasonal(0.0, weekly(20), {FIRST: 1.0}) is None


def test_the_interval_holds_four_in_five_months() -> None:
    inside = 0
    for seed in range(200):
        series = weekly(56 + 15, noise=10.0, seed=seed)
        days = sorted(series)
        history = {d: series[d] for d in days[:56]}
        truth = sum(series[d] for d in days[56:])
        found = seasonal(0.0, history, dict.fromkeys(days[56:], 1.0))
        assert found is not None
        inside += found.low <= truth <= found.high
    assert 140 <= inside <= 190  # 80 % of 200, give or take what 200 draws vary


def test_a_day_that_has_begun_is_to_come_in_part() -> None:
    assert still_to_come(FIRST, 0.25, FIRST + timedelta(days=2)) == {FIRST: 0.25, FIRST + timedelta(days=1): 1.0}


@pytest.mark.parametrize(
    ("budget", "spent", "day"),
    [
        (250.0, 100.0, FIRST + timedelta(days=15)),  # 10 a day
        (300.0, 100.0, FIRST + timedelta(days=20)),
        (301.0, 100.0, None),
        (100.0, 100.0, FIRST),
    ],
)
def test_a_budget_is_gone_when_the_run_rate_reaches_it(budget: float, spent: float, day: date | None) -> None:
    projected = Projection("run_rate", 300.0, 300.0, 300.0, 10)
    assert exhausted_on(budget, spent, projected, FIRST, 20.0) == day
