"""Readings × usage → what is known of each workload's hour, and which of its time was idle.

Means are over time, weighted by how long each reading stands, and leave idle episodes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from pipelines.analysis.models import NVLINK, SM_CLOCK, SMALLER
from pipelines.analysis.patterns import patterns
from pipelines.analysis.readings import DEVICE, Readings
from pipelines.analysis.signatures import THRESHOLDS
from pipelines.analysis.tables import FEATURES
from pipelines.instants import HOUR_MS

SLOT_MS: Final = 300_000
"""Idleness is decided over slots of five minutes; an episode is two or more in a row."""

_DIGITS: Final = 6  # sums of floats differ in their last digits with the order in which they were added

_MEANS: Final = (
    "engine", "sm", "tensor", "dram", "fp64", "fp32", "copy", "receive", "transmit", "nvlink", "power_part",
)  # fmt: skip
_WHILE_BUSY: Final = ("clock_part", "power_throttle", "thermal_throttle")
_PEAKS: Final = ("memory_part", "temperature")


@dataclass(frozen=True)
class Featured:
    """What is known of what was held.

    Attributes:
        windows: ``work``, ``hour``, ``model``, ``devices``, ``observed_ms``, ``idle_ms``, ``interval_ms``, ``suspect``
            (dev) and the FEATURES of WINDOW.
        rows: ``row``, ``ms`` and ``loss`` (ms × millionths not busy) of what was sampled of it; ``idle_ms`` and
            ``idle_loss`` of that in idle episodes.
    """

    windows: pl.DataFrame
    rows: pl.DataFrame


def features(found: Readings, held: pl.DataFrame) -> Featured:
    """Return the features of what was held.

    Args:
        held: allocated usage: ``row``, ``work`` (number of the workload), DEVICE, ``model``, ``profile``, ``part`` (of
            the card), ``start``, ``end``, ``hour`` (ms). It may reach a slot beyond the hours wanted, so that
            episodes are seen whole.
    """
    timed = _timed(found, held)
    slots = _with_idle(_slots(timed))
    working = slots.filter(~pl.col("idle"))
    devices = _device_windows(working)
    windows = _windows(devices).join(_models(held), on=["work", "hour"], how="left")
    everything = slots.group_by("work", "hour").agg(
        pl.col("dev").n_unique().cast(pl.Int64).alias("devices"),
        observed_ms=pl.col("ms").sum(),
        idle_ms=pl.col("ms").filter("idle").sum(),
        idle_activity=pl.col("engine").filter("idle").sum() / pl.col("engine_ms").filter("idle").sum(),
        interval_ms=pl.col("interval").max(),
    )
    shapes = patterns(_restless(timed, working, devices))
    joined = everything.join(windows, on=["work", "hour"], how="left").join(shapes, on=["work", "hour"], how="left")
    return Featured(_completed(joined), _idle_parts(slots))


def _timed(found: Readings, held: pl.DataFrame) -> pl.DataFrame:
    """Readings with the usage row that they fall in: several on a shared device."""
    rows = held.join(found.devices, on=DEVICE, nulls_equal=True).select(
        "row", "work", "dev", "hour", "start", "end", clock_peak=SM_CLOCK.of(pl.col("model"))
    )
    timed = found.rows.with_columns(key=_key(pl.col("t"))).join(
        rows.with_columns(key=_key(pl.col("hour"))).drop("dev"), on="key", how="inner"
    )
    inside = (pl.col("t") >= pl.col("start")) & (pl.col("t") < pl.col("end"))
    return timed.filter(inside).with_columns(
        # What speaks for a second only, as GPU_UTIL does, has a mean over the hour and no shape.
        activity=pl.coalesce("sm", "engine"),
        engine=pl.coalesce("engine", "util"),
        clock_part=pl.coalesce("clock_part", pl.col("clock") / pl.col("clock_peak")),
        slot=pl.col("t") // SLOT_MS,
        ms=pl.min_horizontal("ms", pl.col("end") - pl.col("t")),
    )


def _key(time: pl.Expr) -> pl.Expr:
    """Return a device and an hour as one integer: joining on it is many times faster."""
    return pl.col("dev").cast(pl.Int64) * (1 << 24) + time // HOUR_MS


def _slots(timed: pl.DataFrame) -> pl.DataFrame:
    """grain: usage row × slot; sums of value × ms (`x`) and of the ms in which it is known (`x_ms`)."""
    busy = pl.col("engine") > THRESHOLDS["busy"].value
    in_hour = HOUR_MS // SLOT_MS
    keyed = timed.with_columns(key=pl.col("row").cast(pl.Int64) * in_hour + pl.col("slot") % in_hour)
    always = [name for name in _MEANS if not timed[name].null_count()]
    never = [n for n in (*_MEANS, *_WHILE_BUSY) if n not in always and timed[n].null_count() == timed.height]
    sometimes = [name for name in _MEANS if name not in always and name not in never]
    while_busy = [name for name in _WHILE_BUSY if name not in never]

    def weight(name: str) -> pl.Expr:
        known = pl.col(name).is_not_null()
        return pl.when(known & busy if name in _WHILE_BUSY else known).then(pl.col("ms"))

    return (
        keyed.group_by("key")
        .agg(
            pl.first("work", "dev", "row", "hour", "slot"),
            *((pl.col(name) * pl.col("ms")).sum() for name in always),
            *((pl.col(name) * weight(name)).sum() for name in (*sometimes, *while_busy)),
            *(weight(name).sum().alias(f"{name}_ms") for name in (*sometimes, *while_busy)),
            *(pl.col(name).max() for name in _PEAKS),
            pl.col("ms").sum(),
            pl.col("interval").max(),
            (pl.col("activity") * pl.col("ms")).sum(),
            activity_squares=(pl.col("activity") ** 2 * pl.col("ms")).sum(),
            activity_ms=pl.when(pl.col("activity").is_not_null()).then("ms").sum(),
            # Whole millionths: the sum is the same in any order.
            loss=(((1 - pl.col("engine")) * 1e6).round().cast(pl.Int64) * pl.col("ms")).sum(),
        )
        .with_columns(
            *(pl.col("ms").alias(f"{name}_ms") for name in always),
            *(pl.lit(0.0).alias(name) for name in never),
            *(pl.lit(0, pl.Int64).alias(f"{name}_ms") for name in never),
        )
    )


def _with_idle(slots: pl.DataFrame) -> pl.DataFrame:
    """Mark slots in idle episodes: nothing ran and nothing was copied, as far as is known, for two slots or more."""
    quiet = pl.lit(value=True)
    for name in ("engine", "sm", "tensor", "dram", "receive", "transmit", "nvlink"):
        limit = THRESHOLDS["idle_activity" if name in ("engine", "sm", "tensor", "dram") else "idle_copies"].value
        mean = pl.col(name) / pl.col(f"{name}_ms")
        quiet &= (pl.col(f"{name}_ms") == 0) | (mean < limit)
    slots = slots.with_columns(quiet=(pl.col("engine_ms") > 0) & quiet).sort("work", "dev", "slot", "row")

    def beside(step: int) -> pl.Expr:
        same = (pl.col("work").shift(step) == pl.col("work")) & (pl.col("dev").shift(step) == pl.col("dev"))
        next_to = (pl.col("slot").shift(step) - pl.col("slot")).abs() == 1
        return (same & next_to & pl.col("quiet").shift(step)).fill_null(value=False)

    return slots.with_columns(idle=pl.col("quiet") & (beside(1) | beside(-1)))


def _idle_parts(slots: pl.DataFrame) -> pl.DataFrame:
    idle = pl.col("idle")
    return slots.group_by("row").agg(
        pl.col("ms", "loss").sum(),
        idle_ms=pl.col("ms").filter(idle).sum(),
        idle_loss=pl.col("loss").filter(idle).sum(),
    )


def _device_windows(working: pl.DataFrame) -> pl.DataFrame:
    """grain: workload × hour × device, outside idle episodes; means, null where nothing is known."""

    def mean(name: str) -> pl.Expr:
        weight = pl.col(f"{name}_ms").sum()
        return pl.when(weight > 0).then(pl.col(name).sum() / weight).alias(name)

    level = pl.col("activity").sum() / pl.col("activity_ms").sum()
    variance = pl.col("activity_squares").sum() / pl.col("activity_ms").sum() - level**2
    return working.group_by("work", "hour", "dev").agg(
        *(mean(name) for name in (*_MEANS, *_WHILE_BUSY)),
        *(pl.col(name).max() for name in _PEAKS),
        pl.col("ms").sum(),
        swing=pl.when(pl.col("activity_ms").sum() > 0).then(variance.clip(lower_bound=0.0).sqrt()),
        sm_peak=pl.when(pl.col("sm_ms") > 0).then(pl.col("sm") / pl.col("sm_ms")).max(),
    )


def _windows(devices: pl.DataFrame) -> pl.DataFrame:
    """grain: workload × hour."""
    key = ["work", "hour"]

    def mean(name: str) -> pl.Expr:
        weight = pl.when(pl.col(name).is_not_null()).then("ms").sum()
        return pl.when(weight > 0).then((pl.col(name) * pl.col("ms")).sum() / weight).alias(name)

    together = devices.group_by(key).agg(
        *(mean(name) for name in (*_MEANS, "swing")),
        pl.col("clock_part").min(),
        pl.col("power_throttle", "thermal_throttle", "sm_peak").max(),
        memory_peak=pl.col("memory_part").max(),
        temperature_peak=pl.col("temperature").max(),
        ranks=pl.len(),
    )
    return together.join(_outliers(devices), on=key, how="left")


def _outliers(devices: pl.DataFrame) -> pl.DataFrame:
    """Return per window the device that differs most from its peers, by SM or engine activity."""
    key = ["work", "hour"]
    found = []
    for name in ("sm", "engine"):
        off = pl.col(name) - pl.col(name).median().over(key)
        scale = (1.4826 * off.abs().median().over(key)).clip(lower_bound=THRESHOLDS["rank_noise"].value)
        found.append(
            devices.filter(pl.len().over(key) >= THRESHOLDS["peers"].value)
            .select(*key, "dev", gap=off, behind=(off.abs() / scale))
            .drop_nulls()
        )
    worst = pl.concat(found).sort("behind", descending=True).unique(key, keep="first", maintain_order=True)
    return worst.rename({"dev": "suspect"})


def _models(held: pl.DataFrame) -> pl.DataFrame:
    """Return the model of each window, what its links can do, and whether a smaller part of a card could be had."""
    whole = (pl.col("part") == 1) | pl.col("instance").is_not_null()
    smallest = pl.col("profile").str.starts_with("1g").fill_null(value=False)
    smaller = SMALLER.of(pl.col("model")).fill_null(0.0) * whole * ~smallest
    return (
        held.group_by("work", "hour")
        .agg(pl.col("model").drop_nulls().first(), smaller=smaller.min())
        .with_columns(link_peak=NVLINK.of(pl.col("model")))
    )


def _completed(windows: pl.DataFrame) -> pl.DataFrame:
    """Add ratios of features, and what is known of windows whose activity hardly changes or that have no peers."""
    even = pl.col("swing") < THRESHOLDS["restless"].value
    few = pl.col("ranks") < THRESHOLDS["peers"].value
    both = pl.col("receive").is_not_null() & pl.col("transmit").is_not_null()
    busier = pl.max_horizontal("receive", "transmit")
    return windows.with_columns(
        *(pl.when(even).then(0.0).otherwise(name).alias(name) for name in ("low", "stalls", "stalled")),
        *(pl.when(few).then(0.0).otherwise(name).alias(name) for name in ("behind", "gap")),
        together=pl.when(pl.col("ranks") == 1).then(1.0).otherwise("together"),
        nvlink_part=pl.col("nvlink") / pl.col("link_peak"),
        tensor_part=pl.col("tensor") / pl.when(pl.col("sm") > 0).then("sm"),
        # One direction alone says how much is copied at least.
        pcie=pl.when(both | (busier >= THRESHOLDS["copies"].value)).then(busier),
        pcie_both=pl.when(both).then(pl.min_horizontal("receive", "transmit")),
    ).with_columns(pl.col(list(FEATURES)).round_sig_figs(_DIGITS))


def _restless(timed: pl.DataFrame, working: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return the readings of windows in which a device's activity changes, outside idle episodes."""
    swinging = devices.filter(pl.col("swing") >= THRESHOLDS["restless"].value).select("work", "hour").unique()
    kept = working.join(swinging, on=["work", "hour"], how="semi").select("row", "slot")
    return timed.join(kept, on=["row", "slot"], how="semi").select(
        "work", "hour", "dev", "t", "ms", "interval", "activity", "engine", "transmit"
    )
