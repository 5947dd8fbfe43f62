"""Shapes over time: when devices are low, whether a kernel waits meanwhile, and whether all are low at once."""

from __future__ import annotations

from typing import Final

import polars as pl

from pipelines.analysis.signatures import THRESHOLDS

WINDOW_KEY: Final = ("work", "hour")


def patterns(readings: pl.DataFrame) -> pl.DataFrame:
    """Return per window (``work``, ``hour``) what its devices' activity does over time.

    Args:
        readings: ``work``, ``hour``, ``dev``, ``t``, ``ms``, ``interval``, ``activity``, ``engine``, ``transmit``.

    Returns:
        ``low``, ``low_engine``, ``stalls``, ``stalled``, ``written``, ``together``: as FEATURES says.
    """
    usual = pl.col("activity").quantile(THRESHOLDS["usual"].value).over(*WINDOW_KEY, "dev")
    marked = readings.filter(pl.col("activity").is_not_null()).with_columns(
        low=pl.col("activity") < THRESHOLDS["far_below"].value * usual,
        bucket=pl.col("t") // pl.col("interval").max().over(WINDOW_KEY),
    )
    lows = marked.group_by(WINDOW_KEY).agg(
        low=pl.col("ms").filter("low").sum() / pl.col("ms").sum(),
        low_engine=(pl.col("engine") * pl.col("ms")).filter("low").sum()
        / pl.when(pl.col("low") & pl.col("engine").is_not_null()).then("ms").sum(),
    )
    buckets = _buckets(marked)
    return (
        lows.join(_stalls(buckets), on=WINDOW_KEY, how="left")
        .join(_together(marked, buckets), on=WINDOW_KEY, how="left")
        .with_columns(pl.col("low_engine").fill_nan(None))
    )


def _buckets(marked: pl.DataFrame) -> pl.DataFrame:
    """grain: window × sampling interval; means over the devices."""
    return (
        marked.group_by(*WINDOW_KEY, "bucket")
        .agg(pl.col("activity", "transmit").mean(), pl.col("low").all(), pl.col("ms").mean(), devices=pl.len())
        .sort(*WINDOW_KEY, "bucket")
    )


def _stalls(buckets: pl.DataFrame) -> pl.DataFrame:
    same = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in WINDOW_KEY).fill_null(value=False)
    begins = pl.col("low") & ~(same & pl.col("low").shift(1).fill_null(value=False))
    # The copy may fall into the interval in which the stall begins, or into the one before.
    around = pl.max_horizontal("transmit", pl.when(same).then(pl.col("transmit").shift(1)))
    usual = pl.col("transmit").median().over(WINDOW_KEY)
    burst = pl.max_horizontal(usual * THRESHOLDS["burst"].value, pl.lit(THRESHOLDS["checkpoint_copy"].value))
    stalls = (
        buckets.with_columns(stall=begins.cum_sum(), copied=around >= burst)
        .filter("low")
        .group_by(*WINDOW_KEY, "stall")
        .agg(pl.col("ms").sum(), pl.col("copied").first())
    )
    seen = buckets.group_by(WINDOW_KEY).agg(seen=pl.col("ms").sum())
    return (
        seen.join(
            stalls.group_by(WINDOW_KEY).agg(
                pl.len().cast(pl.Float64).alias("stalls"),
                pl.col("ms").sum(),
                written=(pl.col("copied") * pl.col("ms")).sum()
                / pl.when(pl.col("copied").is_not_null()).then("ms").sum(),
            ),
            on=WINDOW_KEY,
            how="left",
        )
        .with_columns(pl.col("stalls").fill_null(0.0), stalled=pl.col("ms").fill_null(0) / pl.col("seen"))
        .select(*WINDOW_KEY, "stalls", "stalled", pl.col("written").fill_nan(None))
    )


def _together(marked: pl.DataFrame, buckets: pl.DataFrame) -> pl.DataFrame:
    """Return the variance of the devices' mean, of the mean of their variances."""
    apart = marked.group_by(*WINDOW_KEY, "dev").agg(pl.col("activity").var()).group_by(WINDOW_KEY)
    common = buckets.filter(pl.col("devices") == pl.col("devices").max().over(WINDOW_KEY)).group_by(WINDOW_KEY)
    return (
        apart.agg(pl.col("activity").mean(), ranks=pl.len())
        .join(common.agg(common=pl.col("activity").var()), on=WINDOW_KEY)
        .select(
            *WINDOW_KEY,
            together=pl.when((pl.col("ranks") > 1) & (pl.col("activity") > 0)).then(
                (pl.col("common") / pl.col("activity")).clip(0.0, 1.0)
            ),
        )
    )
