"""What tenants held and spent, by local day and by hour: the series that the rest looks at.

Who held nothing held 0: holding is known from intervals. Nothing follows here from samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from pipelines.instants import HOUR_MS, from_ms
from pipelines.intervals import Interval
from pipelines.periods import local_midnights

DAY: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "day": pl.Date(),  # local
    "gpu_hours": pl.Float64(),
    "spend": pl.Float64(),  # usage outside reservations, before rounding
}
"""grain: tenant × local day, whole days of the data only; days without use are 0."""

HOUR: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "workload": pl.String(),
    "hour": pl.Int64(),  # its start in ms
    "gpu_hours": pl.Float64(),
}
"""grain: tenant × workload × UTC hour with any use."""


def whole_days(span: Interval, zone: ZoneInfo) -> list[date]:
    """Return the local days that lie whole within the data, ascending."""
    start, end = from_ms(span[0]), from_ms(span[1])
    # A midnight at the very edge is one too.
    edges = local_midnights(start - timedelta(microseconds=1), end + timedelta(microseconds=1), zone)
    return [edge.astimezone(zone).date() for edge in edges[:-1]]


def by_day(charges: pl.DataFrame, tenants: Iterable[str], days: list[date]) -> pl.DataFrame:
    """Return DAY.

    Args:
        charges: publish.CHARGE.
    """
    price = pl.col("rate").cast(pl.Float64).fill_null(0.0)
    sums = (
        charges.filter(pl.col("tenant").is_not_null())
        .with_columns(spend=pl.when(pl.col("reservation").is_null()).then(pl.col("gpu_hours") * price).otherwise(0.0))
        .group_by("tenant", "day")
        .agg(pl.col("gpu_hours", "spend").sum())
    )
    grid = pl.DataFrame({"tenant": sorted(tenants)}, schema={"tenant": pl.String}).join(
        pl.DataFrame({"day": days}, schema={"day": pl.Date}), how="cross"
    )
    return (
        grid.join(sums, on=["tenant", "day"], how="left")
        .with_columns(pl.col("gpu_hours", "spend").fill_null(0.0))
        .select(pl.col(c).cast(t) for c, t in DAY.items())
        .sort("tenant", "day")
    )


def by_hour(charges: pl.DataFrame) -> pl.DataFrame:
    """Return HOUR.

    Args:
        charges: publish.CHARGE; one is never longer than a local day.
    """
    held = charges.filter(pl.col("tenant").is_not_null()).select(
        "tenant", "workload", pl.col("start", "end").dt.epoch("ms"), "gpus"
    )
    hours = held.with_columns(
        hour=pl.int_ranges(pl.col("start") // HOUR_MS, (pl.col("end") - 1) // HOUR_MS + 1)
    ).explode("hour")
    inside = pl.min_horizontal("end", (pl.col("hour") + 1) * HOUR_MS) - pl.max_horizontal(
        "start", pl.col("hour") * HOUR_MS
    )
    return (
        hours.with_columns(gpu_hours=pl.col("gpus") * inside / HOUR_MS, hour=pl.col("hour") * HOUR_MS)
        .group_by("tenant", "workload", "hour")
        .agg(pl.col("gpu_hours").sum())
        .sort("tenant", "hour", "workload")
        .select(pl.col(c).cast(t) for c, t in HOUR.items())
    )


def reached(as_of: datetime, span: Interval | None) -> datetime:
    """Return how far the data goes: the future that schedulers promise is none."""
    return as_of if span is None else min(as_of, from_ms(span[1]))
