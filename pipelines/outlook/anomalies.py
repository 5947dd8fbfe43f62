"""Hours in which a tenant held unusually much or little for the time of the week, and the workloads behind it.

The usual is the median of the same weekday-hour before; the score is Iglewicz and Hoaglin's modified z (1993): the
residual ÷ (1.4826 × the median absolute deviation of all residuals). Above 3.5, their limit, an hour is an outlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.instants import HOUR_MS

LIMIT: Final = 3.5
MAD_TO_SIGMA: Final = 1.4826
LEAST_WEEKS: Final = 3
LEAST_SIGMA: Final = 0.05  # of the median level: a flat series has no spread, and a GPU more is no anomaly in a hundred
LEAST_GPU_HOURS: Final = 0.5
USUAL_WEEKS: Final = 8
NAMED_WORKLOADS: Final = 5
HOURS_A_WEEK: Final = 168

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cause:
    """A workload, and how many GPU-hours more (or less) than usual it held meanwhile."""

    workload: str
    gpu_hours: float


@dataclass(frozen=True)
class Anomaly:
    """Hours on end, [start, end) in ms, all above or all below the usual.

    Attributes:
        score: the largest modified z among them; negative where less was held.
        causes: the workloads whose difference has the same sign, largest first.
    """

    tenant: str
    start: int
    end: int
    gpu_hours: float
    usual_gpu_hours: float
    score: float
    causes: tuple[Cause, ...]


def anomalies(hours: pl.DataFrame, start: int, end: int, *, since: int) -> list[Anomaly]:
    """Return the anomalies of every tenant.

    Args:
        hours: history.HOUR.
        start, end: whole hours of the data in ms; what isn't in `hours` is 0.
        since: the first hour that is judged; those before it are history alone.

    The hours of a week are counted in UTC: where clocks change, habits shift by an hour against them for a while.
    """
    first = -(-start // HOUR_MS)
    count = end // HOUR_MS - first
    if count < HOURS_A_WEEK * LEAST_WEEKS:
        return []
    found: list[Anomaly] = []
    for (tenant,), own in hours.partition_by("tenant", as_dict=True, maintain_order=True).items():
        found += _of_tenant(str(tenant), own, first, count, since)
    return sorted(found, key=lambda a: (a.start, a.tenant))


def _of_tenant(tenant: str, own: pl.DataFrame, first: int, count: int, since: int) -> Iterator[Anomaly]:
    series = _series(own, first, count)
    usual = _usual(series)
    residual = series - usual
    known = ~np.isnan(residual)
    if not known.any():
        return
    middle = float(np.median(residual[known]))
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(residual[known] - middle)))
    sigma = max(sigma, LEAST_SIGMA * float(np.median(series)), LEAST_GPU_HOURS / LIMIT)
    score = np.where(known, (residual - middle) / sigma, 0.0)
    judged = np.arange(count) + first >= since // HOUR_MS
    sign = np.where((np.abs(score) > LIMIT) & judged, np.sign(score), 0.0)
    for begin, stop in _runs(sign):
        yield Anomaly(
            tenant,
            (first + begin) * HOUR_MS,
            (first + stop) * HOUR_MS,
            float(series[begin:stop].sum()),
            float(usual[begin:stop].sum()),
            float(score[begin:stop][np.argmax(np.abs(score[begin:stop]))]),
            _causes(own, first, begin, stop, float(sign[begin])),
        )


def _series(own: pl.DataFrame, first: int, count: int) -> Floats:
    series = np.zeros(count)
    at = own["hour"].to_numpy() // HOUR_MS - first
    inside = (at >= 0) & (at < count)
    np.add.at(series, at[inside], own["gpu_hours"].to_numpy()[inside])
    return series


def _usual(series: Floats) -> Floats:
    """Return the median of the same hour of up to eight weeks before; NaN where fewer than LEAST_WEEKS − 1 are."""
    weeks = -(-len(series) // HOURS_A_WEEK)
    flat = np.full(weeks * HOURS_A_WEEK, np.nan)
    flat[: len(series)] = series
    table = flat.reshape(weeks, HOURS_A_WEEK)
    usual = np.full_like(table, np.nan)
    for week in range(LEAST_WEEKS - 1, weeks):
        usual[week] = np.median(table[max(0, week - USUAL_WEEKS) : week], axis=0)
    return usual.reshape(-1)[: len(series)]


def _runs(sign: Floats) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0.0], sign, [0.0]))))
    for begin, stop in pairwise(edges):
        if sign[begin]:
            yield int(begin), int(stop)


def _causes(own: pl.DataFrame, first: int, begin: int, stop: int, sign: float) -> tuple[Cause, ...]:
    """Compare each workload's hours with those of the same hours of the weeks before."""
    weeks = range(1, min(USUAL_WEEKS, begin // HOURS_A_WEEK) + 1)
    hours = {first + h for h in range(begin, stop)}
    before = {first + h - week * HOURS_A_WEEK: week for week in weeks for h in range(begin, stop)}
    at = pl.col("hour") // HOUR_MS
    close = own.filter(at.is_in([*hours, *before]))
    now: dict[str, float] = {}
    then: dict[str, dict[int, float]] = {}
    for workload, hour, amount in close.select("workload", "hour", "gpu_hours").iter_rows():
        index = hour // HOUR_MS
        if index in hours:
            now[workload] = now.get(workload, 0.0) + amount
        if index in before:
            sums = then.setdefault(workload, {})
            sums[before[index]] = sums.get(before[index], 0.0) + amount
    differences = []
    for workload in {*now, *then}:
        usual = float(np.median([then.get(workload, {}).get(week, 0.0) for week in weeks])) if weeks else 0.0
        differences.append(Cause(workload, now.get(workload, 0.0) - usual))
    own_sign = [c for c in differences if c.gpu_hours * sign > 0]
    return tuple(sorted(own_sign, key=lambda c: (-abs(c.gpu_hours), c.workload))[:NAMED_WORKLOADS])
