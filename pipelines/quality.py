"""Samples as measured → scrapes: valid values only, one per device, metric and time.

What is dropped or merged is counted as a finding. The rules: `design.md`, "Samples", as told in docs/numbers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from exporter.catalog import BY_KEY
from pipelines.selectors import glob_matches
from pipelines.streams import merge_streams
from pipelines.tables import SAMPLE_LABELS, Finding

DEVICE_KEY: Final = ["cluster", "device", "instance", "profile"]
OWNER_KEY: Final = ["namespace", "pod", "pod_uid", "job"]
STREAM_KEY: Final = ["replica", "scrape_job", "node"]

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

RATIO_ROUNDING: Final = 1.02  # a ratio up to this is 1 with noise on it; above, it is no ratio


@dataclass(frozen=True)
class Scrapes:
    """What is left of the samples of some cards.

    Attributes:
        devices: ``dev`` (Int32), ``card`` (Int32, dev of the whole card), ``cluster``, ``device``, ``instance``,
            ``profile``, ``model``; the whole card always has a row.
        owners: ``owner`` (Int32), ``namespace``, ``pod``, ``pod_uid``, ``job``.
        timeline: one row per device and scrape: ``dev``, ``t`` (ms), ``node``, ``free_slices`` (slices that are seen and
            name no owner).
        claims: one row per device, scrape and owner named: ``dev``, ``t``, ``owner``, ``slices``, ``memory``, ``busy``
            (the last two only mean something where the exporter measures per owner).
        series: one row per device and time: ``dev``, ``t``, the metrics of STAMPED_METRICS, and ``busy_seen``, whether a
            busy metric was scraped at all, valid or not.
        board: one row per card and time: ``card``, ``t``, ``energy_joules_total``, ``power_watts``, ``power_seen``.
        findings: what was dropped.
    """

    devices: pl.DataFrame
    owners: pl.DataFrame
    timeline: pl.DataFrame
    claims: pl.DataFrame
    series: pl.DataFrame
    board: pl.DataFrame
    findings: list[Finding]


def clean(samples: pl.DataFrame, *, exporter_pods: Sequence[str], interval_ms: int | None) -> Scrapes:
    """Return the scrapes of `samples` (wide, SAMPLE_LABELS and metric columns; all rows of the cards in it).

    Args:
        exporter_pods: globs of pods that hold nothing.
        interval_ms: the configured scrape interval; None infers it per series and UTC day.
    """
    findings: list[Finding] = []
    rows = samples.with_columns(pl.col("time").dt.epoch("ms").alias("t"))
    rows = rows.with_columns(
        pl.lit(None, pl.Float64).alias(key) for key in STAMPED_METRICS if key not in rows.columns
    )
    seen = rows.select(
        (pl.col("engine_active_ratio").is_not_null() | pl.col("gpu_util_ratio").is_not_null()).alias("busy_seen"),
        pl.col("power_watts").is_not_null().alias("power_seen"),
    )
    labels = [c for c in SAMPLE_LABELS if c not in ("time", "index")]
    rows = pl.concat([rows.select(*labels, "t"), _valid(rows, findings), seen], how="horizontal")
    rows = _one_value_per_series(rows, findings)
    rows, devices = _number_devices(rows)
    rows, owners = _number_owners(rows, exporter_pods)
    rows = _streams_merged(rows, interval_ms)
    named = rows.filter(pl.col("owner").is_not_null())
    claims = named.group_by("dev", "grid_t", "owner").agg(
        pl.max_horizontal(pl.col("slice").drop_nulls().n_unique(), pl.col("container").n_unique(), pl.lit(1)).alias("slices"),
        pl.col("memory_used_bytes").min().alias("memory"),
        pl.min_horizontal("engine_active_ratio", "gpu_util_ratio").min().alias("busy"),
    )
    timeline = rows.group_by("dev", "grid_t").agg(
        pl.col("node").min(), free_slices=pl.col("slice").filter(pl.col("owner").is_null()).drop_nulls().n_unique()
    )
    return Scrapes(
        devices=devices,
        owners=owners,
        timeline=timeline.rename({"grid_t": "t"}).sort("dev", "t"),
        claims=claims.rename({"grid_t": "t"}).sort("dev", "t", "owner"),
        series=_series(rows),
        board=_board(rows),
        findings=findings,
    )


def _valid(rows: pl.DataFrame, findings: list[Finding]) -> pl.DataFrame:
    """Return the stamped metrics without values that can't be; count every catalogue metric's."""
    powered = pl.col("power_watts") > 0
    kept, counts = [], []
    for key in (c for c in rows.columns if c in BY_KEY):
        metric, value = BY_KEY[key], pl.col(key)
        bad = value.is_nan() | value.is_infinite()
        if metric.minimum is not None:
            bad |= value < metric.minimum
        if metric.maximum is not None:
            bad |= value > metric.maximum
        if metric.unit == "celsius":
            bad |= (value == 0) & powered.fill_null(value=False)
        counts.append(bad.sum().alias(key))
        if key in STAMPED_METRICS:
            good = value.clip(upper_bound=1.0) if metric.unit == "ratio" else value
            kept.append(pl.when(~bad).then(good).alias(key))
    dropped = rows.select(counts).row(0, named=True)
    findings.extend(Finding("invalid_sample", n, f"{key}: {n} dropped") for key, n in dropped.items() if n)
    return rows.select(kept)


def _one_value_per_series(rows: pl.DataFrame, findings: list[Finding]) -> pl.DataFrame:
    """Merge rows of one label set and time: of two values the smaller counts."""
    labels = [c for c in SAMPLE_LABELS if c not in ("time", "model", "index")]
    key = [*labels, "t"]
    if rows.select(pl.struct(key).n_unique()).item() == rows.height:
        return rows
    metrics = STAMPED_METRICS
    merged = rows.group_by(key, maintain_order=True).agg(
        pl.col("model").drop_nulls().min(),
        *(pl.col(m).min() for m in metrics),
        pl.col("busy_seen", "power_seen").any(),
        *(
            (pl.col(m).drop_nulls().n_unique().clip(lower_bound=1) - 1).alias(f"differing {m}")
            for m in metrics
        ),
    )
    differing = merged.select(pl.sum_horizontal(pl.col(f"differing {m}").sum() for m in metrics)).item()
    if differing:
        findings.append(Finding("duplicate_sample", differing, "two values of one series at one time; the smaller counts"))
    return merged


def _number_devices(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    known = (
        rows.group_by(DEVICE_KEY)
        .agg(pl.col("model").drop_nulls().sort_by(pl.col("t").filter(pl.col("model").is_not_null())).last())
        .with_columns(pl.col("instance").is_null().alias("whole"))
    )
    cards = (
        known.group_by("cluster", "device")
        .agg(pl.col("model").drop_nulls().max())
        .with_columns(pl.lit(None, pl.String).alias("instance"), pl.lit(None, pl.String).alias("profile"))
    )
    instances = known.filter(~pl.col("whole")).select(*DEVICE_KEY, "model")
    devices = (
        pl.concat([cards.select(*DEVICE_KEY, "model"), instances])
        .sort("cluster", "device", "instance", "profile", nulls_last=False)
        .with_row_index("dev")
        .with_columns(pl.col("dev").cast(pl.Int32))
    )
    card = devices.filter(pl.col("instance").is_null()).select("cluster", "device", pl.col("dev").alias("card"))
    devices = devices.join(card, on=["cluster", "device"]).sort("dev")
    # A profile label on the whole card is no other device.
    rows = rows.with_columns(pl.when(pl.col("instance").is_not_null()).then(pl.col("profile")).alias("profile"))
    numbered = rows.join(devices.select("dev", "card", *DEVICE_KEY), on=DEVICE_KEY, nulls_equal=True)
    return numbered, devices


def _number_owners(rows: pl.DataFrame, exporter_pods: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Name the owner of each row: a Slurm job before a pod; an exporter's own pod owns nothing."""
    pods = rows["pod"].unique().drop_nulls()
    exporters = [pod for pod in pods if any(glob_matches(pattern, pod) for pattern in exporter_pods)]
    pod_counts = pl.col("pod").is_not_null() & pl.col("job").is_null() & ~pl.col("pod").is_in(exporters)
    rows = rows.with_columns(
        *(pl.when(pod_counts).then(pl.col(c)).alias(c) for c in ("namespace", "pod", "pod_uid")),
    )
    # A pod that some of its samples name by UID and some by name alone is one pod, where there is one UID.
    uid = (
        rows.filter(pl.col("pod_uid").is_not_null())
        .group_by("dev", "namespace", "pod")
        .agg(pl.col("pod_uid").unique().alias("uids"))
        .filter(pl.col("uids").list.len() == 1)
        .select("dev", "namespace", "pod", pl.col("uids").list.first().alias("only_uid"))
    )
    if uid.height:
        rows = rows.join(uid, on=["dev", "namespace", "pod"], how="left", nulls_equal=True).with_columns(
            pl.coalesce("pod_uid", "only_uid").alias("pod_uid")
        )
    owners = (
        rows.filter(pl.col("pod").is_not_null() | pl.col("job").is_not_null())
        .select(OWNER_KEY)
        .unique()
        .sort(OWNER_KEY)
        .with_row_index("owner")
        .with_columns(pl.col("owner").cast(pl.Int32))
    )
    return rows.join(owners, on=OWNER_KEY, how="left", nulls_equal=True), owners


def _streams_merged(rows: pl.DataFrame, interval_ms: int | None) -> pl.DataFrame:
    """Add ``grid_t``, the device's scrape that a row belongs to, and drop values that another stream measured.

    A stream is a replica, job and host name; of several for one device the first by name counts.
    """
    rows = rows.with_columns(pl.col("t").alias("grid_t"))
    stream = pl.struct(pl.col(c).fill_null("") for c in STREAM_KEY)
    several = rows.group_by("card").agg(stream.n_unique().alias("streams")).filter(pl.col("streams") > 1)
    if not several.height:
        return rows
    alone = rows.join(several, on="card", how="anti")
    together = rows.join(several, on="card", how="semi").with_columns(stream.rank("dense").alias("stream"))
    return pl.concat([alone, merge_streams(together, interval_ms).select(alone.columns)])


def _series(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per device and time; of the owners' copies of one device's value the smaller counts."""
    metrics = [key for key in STAMPED_METRICS if key != "energy_joules_total"]
    if rows.select(pl.struct("dev", "t").n_unique()).item() == rows.height:
        return rows.select("dev", "t", *metrics, "busy_seen").sort("dev", "t")
    return (
        rows.select("dev", "t", *metrics, "busy_seen")
        .group_by("dev", "t")
        .agg(pl.exclude("busy_seen").min(), pl.col("busy_seen").any())
        .sort("dev", "t")
    )


def _board(rows: pl.DataFrame) -> pl.DataFrame:
    """Energy and power belong to the board, on whichever of its series they stand."""
    return (
        rows.filter(pl.col("energy_joules_total").is_not_null() | pl.col("power_seen"))
        .group_by("card", "t")
        .agg(
            pl.col("energy_joules_total").min(),
            pl.col("power_watts").min(),
            pl.col("power_seen").any(),
        )
        .sort("card", "t")
    )
