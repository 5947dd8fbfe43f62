"""Unusual hours, and who made them so."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipelines.instants import HOUR_MS
from pipelines.outlook.anomalies import LIMIT, Anomaly, anomalies
from pipelines.outlook.history import HOUR

WEEK = 168
Rows = list[tuple[str, str, int, float]]


def office(weeks: int, *, seed: int = 3) -> Rows:
    """A tenant that holds about 20 GPUs in the daytime of weekdays, and 4 else."""
    rng = np.random.default_rng(seed)
    rows = []
    for hour in range(weeks * WEEK):
        busy = hour % 24 in range(8, 18) and hour // 24 % 7 < 5
        rows.append(("astro", "usual", hour * HOUR_MS, float((20 if busy else 4) + rng.normal(0, 0.4))))
    return rows


def found(rows: Rows, weeks: int, since_week: int = 3) -> list[Anomaly]:
    table = pl.DataFrame(rows, schema=HOUR, orient="row")
    return anomalies(table, 0, weeks * WEEK * HOUR_MS, since=since_week * WEEK * HOUR_MS)


def test_an_ordinary_week_raises_nothing_but_chance() -> None:
    assert len(found(office(6), 6)) <= 3 * WEEK * 0.01


def test_a_burst_at_night_is_one_anomaly_and_names_its_workload() -> None:
    at = 5 * WEEK + 2
    burst = [("astro", "sweep", (at + n) * HOUR_MS, 16.0) for n in range(3)]
    night = [a for a in found([*office(6), *burst], 6) if a.start == at * HOUR_MS]
    assert len(night) == 1
    anomaly = night[0]
    assert (anomaly.end - anomaly.start) // HOUR_MS == 3
    assert anomaly.score > LIMIT
    assert anomaly.causes[0].workload == "sweep"
    assert anomaly.causes[0].gpu_hours == 48.0
    assert 11 < anomaly.usual_gpu_hours < 13


def test_the_same_hours_in_the_daytime_of_a_weekday_are_no_anomaly() -> None:
    assert not any(a.start % (24 * HOUR_MS) == 9 * HOUR_MS and a.gpu_hours > 100 for a in found(office(6), 6))


def test_a_morning_without_work_is_too_little_and_names_who_is_missing() -> None:
    quiet = range(5 * WEEK + 9, 5 * WEEK + 12)
    rows = [row for row in office(6) if row[2] // HOUR_MS not in quiet]
    low = [a for a in found(rows, 6) if a.score < -LIMIT]
    assert (low[0].start // HOUR_MS, low[0].end // HOUR_MS) == (quiet.start, quiet.stop)
    assert low[0].causes[0].workload == "usual"
    assert low[0].causes[0].gpu_hours < -50


def test_a_flat_series_has_no_anomaly_for_a_whim() -> None:
    rows = [("astro", "flat", hour * HOUR_MS, 100.0) for hour in range(5 * WEEK)]
    rows[4 * WEEK + 50] = ("astro", "flat", (4 * WEEK + 50) * HOUR_MS, 101.0)
    assert found(rows, 5) == []


def test_what_is_before_the_judged_hours_is_history_alone() -> None:
    burst = [("astro", "sweep", (4 * WEEK + 2) * HOUR_MS, 16.0)]
    assert not any(a.start < 5 * WEEK * HOUR_MS for a in found([*office(6), *burst], 6, since_week=5))


def test_two_weeks_tell_nothing() -> None:
    assert found(office(2), 2, since_week=0) == []
