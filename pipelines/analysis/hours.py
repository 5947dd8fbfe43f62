"""Samples and usage of some hours → what is known of why: the whole analysis but what only a job as a whole shows."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from pipelines.analysis.classify import classify
from pipelines.analysis.features import SLOT_MS, features
from pipelines.analysis.readings import Readings, readings
from pipelines.analysis.tables import IDLE, PPB, WINDOW, Analysis
from pipelines.instants import HOUR_MS

MARGIN_MS = SLOT_MS
"""How far samples and usage have to reach beyond the hours, so that idle episodes are seen whole."""


def analyse(samples: pl.DataFrame, usage: pl.DataFrame, leases: pl.DataFrame, hours: Collection[int]) -> Analysis:
    """Return the windows of some UTC hours.

    The result of an hour depends on that hour and on MARGIN_MS around it, not on what else is asked for.

    Args:
        samples: wide (`tables.SAMPLE_LABELS` and metrics), of the hours and their margin.
        usage: rollup.USAGE.
        leases: metering.LEASE; what a guessed lease's devices show says nothing about it.
        hours: starts in ms.
    """
    if samples.is_empty():
        return Analysis()
    held = _held(usage, leases, hours)
    if held.is_empty():
        return Analysis()
    found = readings(samples)
    featured = features(found, held)
    wanted = pl.Series("hour", sorted(hours), pl.Int64)
    named = held.select("work", "workload", cluster="work_cluster").unique("work")
    windows = classify(featured.windows.filter(pl.col("hour").is_in(wanted.implode())))
    windows = windows.join(named, on="work").join(_keys(found), left_on="suspect", right_on="dev", how="left")
    windows = windows.with_columns(suspect=pl.when(pl.col("cause") == "straggler").then("key"))
    idle = (
        featured.rows.filter(pl.col("idle_ms") > 0).join(held, on="row").filter(pl.col("hour").is_in(wanted.implode()))
    )
    return Analysis(
        windows.select(pl.col(c).cast(t) for c, t in WINDOW.items()).sort("hour", "cluster", "workload"),
        _parts(idle, featured.rows, held),
    )


def _held(usage: pl.DataFrame, leases: pl.DataFrame, hours: Collection[int]) -> pl.DataFrame:
    near = {hour + step for hour in hours for step in (-HOUR_MS, 0, HOUR_MS)}
    reach = pl.Series(sorted(near), dtype=pl.Int64)
    there = (pl.col("start") < max(near) + HOUR_MS) & (pl.col("end") > min(near))
    known = leases.filter(~pl.col("guessed") & there).select("workload", lease="id", work_cluster="cluster")
    rows = (
        usage.filter(pl.col("state") == "allocated")
        .with_columns(hour=pl.col("start") // HOUR_MS * HOUR_MS)
        .filter(pl.col("hour").is_in(reach.implode()))
        .select(
            *("lease", "cluster", "device", "instance", "model", "profile", "start", "end", "hour"),
            part=pl.col("weight_num") / pl.col("weight_den"),
        )
        .join(known, on="lease")
        .sort("lease", "device", "instance", "start")
        .with_row_index("row")
    )
    works = rows.select("work_cluster", "workload").unique(maintain_order=True).with_row_index("work")
    return rows.join(works, on=["work_cluster", "workload"])


def _keys(found: Readings) -> pl.DataFrame:
    return found.devices.select("dev", key=pl.concat_str("device", "instance", separator="/", ignore_nulls=True))


def _parts(idle: pl.DataFrame, rows: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Sum rows of one lease, device and hour: edges may have cut the hour."""
    key = ["lease", "device", "instance", "hour"]
    sums = (
        rows.join(held.select("row", *key), on="row")
        .join(idle.select(key).unique(), on=key, how="semi", nulls_equal=True)
        .group_by(key)
        .agg(pl.col("ms", "loss", "idle_ms", "idle_loss").sum())
    )
    return (
        sums.select(
            *key,
            time_ppb=(pl.col("idle_ms") / pl.col("ms") * PPB).round(),
            loss_ppb=pl.when(pl.col("loss") > 0)
            .then(pl.col("idle_loss") / pl.col("loss") * PPB)
            .otherwise(0.0)
            .round(),
        )
        .select(pl.col(c).cast(t) for c, t in IDLE.items())
        .sort(key)
    )
