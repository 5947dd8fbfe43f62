"""How long a sample stands, and how a second recording fills the first one's holes. Times in seconds for reading."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pipelines.instants import DAY_MS
from pipelines.streams import Times, fill_holes, intervals_at, reach_of


def ms(seconds: Sequence[float]) -> Times:
    return np.array([round(s * 1000) for s in seconds], np.int64)


@pytest.mark.parametrize(
    ("times", "interval"),
    [
        ([0], 60),
        ([0, 15], 60),
        ([0, 15, 30], 15),
        ([0, 15, 30, 90, 105], 15),
        ([0, 10, 40], 20),
    ],
)
def test_the_interval_is_the_median_spacing_of_three_samples_or_more(times: list[float], interval: float) -> None:
    assert set(intervals_at(ms(times), None)) == {interval * 1000}


def test_each_utc_day_has_its_own_interval() -> None:
    day = DAY_MS // 1000
    times = ms([day - 45, day - 30, day - 15, day, day + 300, day + 600])
    assert intervals_at(times, None).tolist() == [15_000] * 3 + [300_000] * 3
    assert intervals_at(times, 5000).tolist() == [5000] * 6


@pytest.mark.parametrize(
    ("times", "reach"),
    [
        ([0, 60, 120], [60, 120, 180]),
        ([0, 90, 180], [90, 180, 240]),  # 1.5 intervals
        ([0, 90.001, 180], [60, 180, 240]),
        ([0, 30, 60], [30, 60, 120]),
        ([7], [67]),
    ],
)
def test_a_sample_stands_to_the_next_within_one_and_a_half_intervals(times: list[float], reach: list[float]) -> None:
    assert reach_of(ms(times), 60_000).tolist() == ms(reach).tolist()


def test_a_reach_over_midnight_goes_by_the_day_of_its_sample() -> None:
    day = DAY_MS // 1000
    times = ms([day - 45, day - 30, day - 15, day + 10, day + 310, day + 610])
    assert reach_of(times, None)[2] == ms([day])[0], "25 s are more than 1.5 × 15 s"


@pytest.mark.parametrize(
    ("base", "other", "placed", "fills"),
    [
        pytest.param([0, 60, 120], [10, 70, 130], [0, 60, 120], [False] * 3, id="nothing is missing"),
        pytest.param(
            [0, 240], [10, 70, 130, 190, 250], [0, 60, 120, 180, 240], [False, True, True, True, False], id="a hole"
        ),
        pytest.param(
            [0, 200], [10, 70, 130, 190], [0, 60, 120, 180], [False, True, True, True], id="its last slot is short"
        ),
        pytest.param([120, 180], [10, 70, 130], [0, 60, 120], [True, True, False], id="before the first"),
        pytest.param([0, 60], [70, 130, 190], [60, 120, 180], [False, True, True], id="after the last"),
        pytest.param([0, 300], [61, 70, 119, 121], [60, 60, 60, 120], [True, False, False, True], id="one to a slot"),
        pytest.param([], [7, 67], [7, 67], [True, True], id="nothing to fill"),
    ],
)
def test_a_later_stream_fills_holes_in_their_slots(
    base: list[float], other: list[float], placed: list[float], fills: list[bool]
) -> None:
    at, used = fill_holes(ms(base), ms(other), 60_000)
    assert at.tolist() == ms(placed).tolist()
    assert used.tolist() == fills


def test_what_is_filled_in_reaches_the_next_sample() -> None:
    base, other = ms([0, 60, 300, 360]), ms(range(10, 370, 60))
    at, used = fill_holes(base, other, 60_000)
    merged = np.union1d(base, at[used])
    assert reach_of(merged, 60_000).tolist() == [*merged[1:], 420_000]
