"""Samples as measured → scrapes: valid values only, one per device, metric and time.

What is dropped or merged is counted as a finding. The rules stand in docs/numbers.md, "Samples".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from exporter.catalog import BY_KEY
from pipelines.findings import counted, of_cards
from pipelines.series import STREAM_KEY, identify, series_of
from pipelines.streams import merge_streams

STAMPED_METRICS: Final = (
    "engine_active_ratio",
    "gpu_util_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_watts",
    "energy_joules_total",
)
"""Metrics that the roll-up integrates; the others stay in the lake for whoever reads it."""

KEY_SHIFT: Final = 44  # room for 500 years of ms below a number
KEY_OFFSET: Final = 1 << 43
CODES: Final = float(1 << 53)
"""Codes are whole numbers below it: what is beyond, or no number, is none."""


@dataclass(frozen=True)
class Scrapes:
    """What is left of the samples of some cards.

    Attributes:
        devices: ``dev`` (Int32), ``card`` (Int32, dev of the whole card), ``cluster``, ``device``, ``instance``,
            ``profile``, ``own_model``, ``any_model``; the whole card always has a row.
        labels: one row per label set: ``dev``, ``card``, ``replica``, ``scrape_job``, ``node``, ``namespace``, ``pod``,
            ``said_uid``, ``job``, ``first`` (ms).
        owners: ``owner`` (Int32), ``namespace``, ``pod``, ``pod_uid``, ``job``.
        timeline: one row per device and scrape: ``dev``, ``t`` (ms), ``node``, ``free_slices`` (slices that are seen
            and name no owner).
        claims: one row per device, scrape and owner named: ``dev``, ``t``, ``owner``, ``slices``, ``memory``, ``busy``
            (the last two only mean something where the exporter measures per owner).
        series: one row per device and time: ``dev``, ``t``, the metrics of STAMPED_METRICS, and ``busy_seen``,
            whether a busy metric was scraped at all, valid or not.
        board: one row per card and time: ``card``, ``t``, ``energy_joules_total``, ``power_watts``, ``power_seen``.
        xids: ``card``, ``t``, ``code``: where an XID gauge was read.
        findings: what was dropped: ``card`` and findings.FINDING.
    """

    devices: pl.DataFrame
    labels: pl.DataFrame
    owners: pl.DataFrame
    timeline: pl.DataFrame
    claims: pl.DataFrame
    series: pl.DataFrame
    board: pl.DataFrame
    xids: pl.DataFrame
    findings: list[pl.DataFrame]


def clean(samples: pl.DataFrame, *, exporter_pods: Sequence[str], interval_ms: int | None) -> Scrapes:
    """Return the scrapes of `samples` (wide, SAMPLE_LABELS and metric columns; all rows of the cards in it).

    Args:
        exporter_pods: globs of pods that hold nothing.
        interval_ms: the configured scrape interval; None infers it per series and UTC day.
    """
    findings: list[pl.DataFrame] = []
    samples = samples.with_columns(
        pl.lit(None, pl.Float64).alias(c) for c in STAMPED_METRICS if c not in samples.columns
    )
    series, number = series_of(samples)
    devices, owners, series = identify(series, exporter_pods)
    seen = samples.select(
        t=pl.col("time").dt.epoch("ms"),
        busy_seen=pl.col("engine_active_ratio").is_not_null() | pl.col("gpu_util_ratio").is_not_null(),
        power_seen=pl.col("power_watts").is_not_null(),
    )
    rows = pl.concat([pl.DataFrame({"series": number}), seen], how="horizontal")
    card = series["card"].gather(number)
    at = rows.select(_key("series"), card=card)
    rows = pl.concat([rows, _valid(samples, at, findings)], how="horizontal")
    xids = _xids(samples, rows.select("t", card=card))
    findings += _xid_events(xids, devices)
    rows = _one_value_per_series(rows, series["card"], findings)
    rows = rows.with_columns(series[c].gather(rows["series"]).alias(c) for c in ("dev", "card", "owner", "stream"))
    rows = _in_order(_streams_merged(rows, series, interval_ms), _key("dev", "grid_t"))
    return Scrapes(
        devices=devices,
        labels=series.select("dev", "card", *STREAM_KEY, "namespace", "pod", "said_uid", "job", "first"),
        owners=owners,
        timeline=_timeline(rows, series),
        claims=_claims(rows, series),
        series=_series(rows),
        board=_board(rows),
        xids=xids,
        findings=findings,
    )


def _valid(samples: pl.DataFrame, at: pl.DataFrame, findings: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the stamped metrics without values that can't be; count every catalogue metric's.

    Args:
        at: the series and time of each row (``key``: a sample that two imports hold is one), and its ``card``.
    """
    powered = pl.col("power_watts") > 0
    kept, dropped = [], {}
    for key in _doubtful(samples):
        metric, value = BY_KEY[key], pl.col(key)
        bad = ~value.is_finite() | (value < metric.minimum) | (value > metric.maximum)
        if metric.unit == "celsius" and metric.minimum == 0:  # not a distance, which may be nothing
            bad |= (value == 0) & powered.fill_null(value=False)
        dropped[key] = bad
        if key in STAMPED_METRICS:
            good = value.clip(upper_bound=1.0) if metric.unit == "ratio" else value
            kept.append(pl.when(~bad).then(good).alias(key))
    counts = samples.select(bad.sum().alias(key) for key, bad in dropped.items()).row(0, named=True) if dropped else {}
    for key in (key for key, count in counts.items() if count):
        found = samples.select(*at, key, t=pl.col("time").dt.epoch("ms"), bad=dropped[key]).filter("bad").unique()
        findings.append(counted(found, "invalid_sample", f"{key}: blank, no number or out of range"))
    return samples.select(STAMPED_METRICS).with_columns(kept)


def _doubtful(samples: pl.DataFrame) -> list[str]:
    """Return the metrics of which a value may be bad or too high: most have none, which their extremes tell."""
    metrics = [key for key in samples.columns if key in BY_KEY]
    if not metrics or samples.is_empty():
        return []
    extremes = samples.select(
        *(pl.col(key).min().alias(f"{key} least") for key in metrics),
        *(pl.col(key).max().alias(f"{key} most") for key in metrics),
        *(pl.col(key).sum().alias(f"{key} all") for key in metrics),
    ).row(0, named=True)

    def doubtful(key: str) -> bool:
        metric, least, most = BY_KEY[key], extremes[f"{key} least"], extremes[f"{key} most"]
        if least is None:
            return False
        highest = min(metric.maximum, 1.0) if metric.unit == "ratio" else metric.maximum
        lowest = sys.float_info.min if metric.unit == "celsius" and metric.minimum == 0 else metric.minimum
        no_number = not math.isfinite(extremes[f"{key} all"])  # extremes pass over those that are none
        return no_number or least < lowest or most > highest

    return [key for key in metrics if doubtful(key)]


def _xids(samples: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    code = pl.lit(None, pl.Float64) if "xid_last_code" not in samples.columns else samples["xid_last_code"]
    codes = rows.select("card", "t", code=code).filter(pl.col("code").is_finite() & (pl.col("code").abs() < CODES))
    return _in_order(codes, _key("card"))


def _xid_events(codes: pl.DataFrame, devices: pl.DataFrame) -> list[pl.DataFrame]:
    """Count XIDs: the gauge holds the last code for ever, so an event is a change to another code than 0.

    Args:
        codes: sorted by card and time.
    """
    another = pl.col("card").ne_missing(pl.col("card").shift(1))
    events = (
        codes.filter((pl.col("code") > 0) & (another | pl.col("code").ne_missing(pl.col("code").shift(1))))
        .join(devices.filter(pl.col("instance").is_null()).select("card", "device"), on="card")
        .with_columns(start="t", end=pl.col("t") + 1)
    )
    return [of_cards(events, "xid_event", pl.format("XID {} on {}", pl.col("code").cast(pl.Int64), "device"))]


def _key(number: str, time: str = "t") -> pl.Expr:
    """Return a number (of a series or device) and a time as one integer: grouping by it is many times faster."""
    return (pl.col(number).cast(pl.Int64) * (1 << KEY_SHIFT) + pl.col(time) + KEY_OFFSET).alias("key")


def rises(keys: pl.Series) -> bool:
    """Return whether each is greater than the one before."""
    values = keys.to_numpy()
    return bool((values[1:] > values[:-1]).all())


def distinct(keys: pl.Series) -> bool:
    """Return whether none comes twice: what rises needs no hashing to know."""
    return rises(keys) or keys.n_unique() == len(keys)


def _in_order(rows: pl.DataFrame, key: pl.Expr) -> pl.DataFrame:
    """Sort by a whole number; samples come sorted by label set, and where that is by time too nothing moves."""
    keys = rows.select(key.alias("key")).to_series()
    # What isn't sorted is mostly two sorted parts, which a merge sort puts together in one pass.
    return rows if rises(keys) else rows[np.argsort(keys.to_numpy(), kind="stable")]


def _one_value_per_series(rows: pl.DataFrame, card: pl.Series, findings: list[pl.DataFrame]) -> pl.DataFrame:
    """Merge rows of one label set and time: of two values the smaller counts.

    Args:
        card: of each series.
    """
    keys = rows.select(_key("series"))["key"]
    if distinct(keys):
        return rows
    several = keys.is_duplicated()
    merged = (
        rows.filter(several)
        .group_by("series", "t", maintain_order=True)
        .agg(
            *(pl.col(m).min() for m in STAMPED_METRICS),
            pl.col("busy_seen", "power_seen").any(),
            differing=pl.sum_horizontal(
                pl.col(m).drop_nulls().n_unique().clip(lower_bound=1) - 1 for m in STAMPED_METRICS
            ),
        )
    )
    times = merged.select(pl.col("t").repeat_by("differing"), card=card.gather(merged["series"])).explode(
        "t", empty_as_null=False
    )
    findings.append(counted(times, "duplicate_sample", "two values of one series at one time; the smaller counts"))
    return pl.concat([rows.filter(~several), merged.select(rows.columns)])


def _streams_merged(rows: pl.DataFrame, series: pl.DataFrame, interval_ms: int | None) -> pl.DataFrame:
    """Add ``grid_t``, the device's scrape that a row belongs to, and drop values that another stream measured.

    A stream is a replica, job and host name; of several for one device the first by name counts.
    """
    rows = rows.with_columns(grid_t="t")
    several = series.group_by("card").agg(pl.col("stream").n_unique()).filter(pl.col("stream") > 1)["card"]
    if not len(several):
        return rows
    together = rows["card"].is_in(several.implode())
    merged = merge_streams(rows.filter(together), interval_ms)
    return pl.concat([rows.filter(~together), merged.select(rows.columns)])


def _timeline(rows: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    labelled = rows.select(
        _key("dev", "grid_t"),
        "dev",
        t="grid_t",
        node=series["node_rank"].gather(rows["series"]).fill_null(0),
        slice=series["slice_code"].gather(rows["series"]),
        free=pl.col("owner").is_null(),
    )
    once, several = _once(labelled)
    alone = once.with_columns(free_slices=(pl.col("free") & pl.col("slice").is_not_null()).cast(pl.UInt32))
    merged = several.group_by("key").agg(
        pl.first("dev", "t"),
        pl.col("node").replace(0, None).min().fill_null(0),
        free_slices=pl.col("slice").filter("free").drop_nulls().n_unique(),
    )
    lines = _in_order(_both(alone, merged), pl.col("key"))
    names = series.select("node_rank", "node").unique("node_rank").sort("node_rank").drop_nulls()["node"]
    by_rank = pl.concat([pl.Series([None], dtype=pl.String), names])
    return lines.select("dev", "t", "free_slices", node=by_rank.gather(lines["node"]))


def _claims(rows: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    """One row per device, scrape and owner named."""
    measured = ("memory_used_bytes", "engine_active_ratio", "gpu_util_ratio")
    named = rows.select("series", "dev", "owner", "grid_t", *measured).filter(pl.col("owner").is_not_null())
    labelled = named.select(
        _key("dev", "grid_t"),
        "dev",
        "owner",
        t="grid_t",
        slice=series["slice_code"].gather(named["series"]),
        container=series["container_code"].gather(named["series"]),
        memory="memory_used_bytes",
        busy=pl.min_horizontal("engine_active_ratio", "gpu_util_ratio"),
    )
    once, several = _once(labelled)
    merged = several.group_by("key", "owner").agg(
        pl.first("dev", "t"),
        pl.max_horizontal(
            pl.col("slice").drop_nulls().n_unique(), pl.col("container").n_unique(), pl.lit(1, pl.UInt32)
        ).alias("slices"),
        pl.col("memory", "busy").min(),
    )
    ordered = _in_order(_both(once.with_columns(slices=pl.lit(1, pl.UInt32)), merged.sort("owner")), pl.col("key"))
    return ordered.select("dev", "t", "owner", pl.col("slices").cast(pl.UInt32), "memory", "busy")


def _series(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per device and time; of the owners' copies of one device's value the smaller counts."""
    metrics = [key for key in STAMPED_METRICS if key != "energy_joules_total"]
    keyed = rows.select(_key("dev"), "dev", "t", *metrics, "busy_seen")
    once, several = _once(keyed)
    merged = several.group_by("key").agg(pl.first("dev", "t"), pl.col(metrics).min(), pl.col("busy_seen").any())
    return _in_order(_both(once, merged), pl.col("key")).drop("key")


def _board(rows: pl.DataFrame) -> pl.DataFrame:
    """Energy and power belong to the board, on whichever of its series they stand."""
    metered = rows.filter(pl.col("energy_joules_total").is_not_null() | pl.col("power_seen"))
    keyed = metered.select(_key("card"), "card", "t", "energy_joules_total", "power_watts", "power_seen")
    once, several = _once(keyed)
    merged = several.group_by("key").agg(
        pl.first("card", "t"), pl.col("energy_joules_total", "power_watts").min(), pl.col("power_seen").any()
    )
    return _in_order(_both(once, merged), pl.col("key")).drop("key")


def _once(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows whose ``key`` comes once, and the others: mostly few, and only they have to be grouped."""
    if distinct(rows["key"]):
        return rows, rows.clear()
    keys = rows["key"].to_numpy()
    again = keys[1:] == keys[:-1]
    if (keys[1:] >= keys[:-1]).all():
        several = pl.Series(np.append(False, again) | np.append(again, False))
    else:
        several = rows["key"].is_duplicated()
    return rows.filter(~several), rows.filter(several)


def _both(once: pl.DataFrame, merged: pl.DataFrame) -> pl.DataFrame:
    """Return rows that came once and those that were merged from several, with the columns of the latter."""
    return pl.concat([once.select(merged.columns), merged]) if merged.height else once
