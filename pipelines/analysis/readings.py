"""Samples as measured → readings: one row per device and time, valid values only, and how long each stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from exporter.catalog import BY_KEY
from pipelines.streams import DEFAULT_INTERVAL_MS, REACH_INTERVALS

RATIOS: Final = {
    "engine": "engine_active_ratio",
    "util": "gpu_util_ratio",
    "sm": "sm_active_ratio",
    "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio",
    "fp64": "fp64_active_ratio",
    "fp32": "fp32_active_ratio",
    "copy": "memory_copy_util_ratio",
}
_SENT: Final = "pcie_transmit_bytes"
_RECEIVED: Final = "pcie_receive_bytes"
_LINK_SENT: Final = "nvlink_transmit_bytes"
_LINK_RECEIVED: Final = "nvlink_receive_bytes"
_RATES: Final = tuple(f"{name}_per_second" for name in (_SENT, _RECEIVED, _LINK_SENT, _LINK_RECEIVED))
_TOTALS: Final = tuple(f"{name}_total" for name in (_SENT, _RECEIVED, _LINK_SENT, _LINK_RECEIVED))
_THROTTLED: Final = ("throttle_power_seconds_total", "throttle_thermal_seconds_total")
BOARD: Final = (
    "power_watts",
    "power_limit_enforced_watts",
    "power_limit_watts",
    "sm_clock_hertz",
    "sm_clock_maximum_hertz",
    "throttle_reasons_bitmask",
    *_THROTTLED,
    "temperature_celsius",
)
METRICS: Final = (
    *RATIOS.values(),
    *_RATES,
    *_TOTALS,
    "nvlink_bytes_per_second",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_total_bytes",
    *BOARD,
)
"""Catalogue keys that the analysis looks at, where they are there."""

LABELS: Final = ("cluster", "device", "instance", "time", "replica", "scrape_job", "node")

POWER_BITS: Final = 4 | 128  # software power cap, power brake
THERMAL_BITS: Final = 32 | 64
DEVICE: Final = ("cluster", "device", "instance")

READING: Final = (
    *RATIOS, "receive", "transmit", "nvlink", "power_part", "clock_part", "power_throttle", "thermal_throttle",
    "temperature", "memory_part",
)  # fmt: skip
"""Columns of a reading beside ``dev``, ``t`` (ms), ``ms``, the time it stands for, and ``interval`` (ms)."""


@dataclass(frozen=True)
class Readings:
    """Readings by number of their device, sorted by device and time; `devices`: ``dev`` and DEVICE."""

    devices: pl.DataFrame
    rows: pl.DataFrame


def readings(samples: pl.DataFrame) -> Readings:
    """Return the readings of wide samples.

    Of several recordings of one device the one with most samples counts; of several owners' rows at one time the
    smallest value. A MIG instance shows its board's clocks, power and temperature.
    """
    have = [key for key in METRICS if key in samples.columns]
    runs, run = _runs(samples)
    devices = runs.select(DEVICE).unique().sort(DEVICE).with_row_index("dev")
    boards = devices.select("cluster", "device").unique(maintain_order=True).with_row_index("card")
    devices = devices.join(boards, on=["cluster", "device"], maintain_order="left")
    runs = runs.join(devices, on=DEVICE, nulls_equal=True, maintain_order="left")
    rows = samples.select(
        runs["dev"].gather(run),
        runs["card"].gather(run),
        pl.col("time").dt.epoch("ms").alias("t"),
        *(_valid(key) for key in have),
    )
    kept = _fullest(runs)
    if not kept.all():
        rows = rows.filter(kept.gather(run))
    rows = _with_board(_one_per_time(rows), devices)
    rows = rows.with_columns(key=_key()).sort("key").drop("key")
    rows = rows.with_columns(
        *(pl.lit(None, pl.Float64).alias(key) for key in METRICS if key not in have),
        step=pl.when(pl.col("dev") == pl.col("dev").shift(-1)).then(pl.col("t").diff().shift(-1)),
    )
    usual = rows.group_by("dev").agg(interval=pl.col("step").median().fill_null(DEFAULT_INTERVAL_MS)).sort("dev")
    # Devices are numbered without gaps, so that their number is their place.
    rows = rows.with_columns(usual["interval"].cast(pl.Int64).gather(rows["dev"]))
    stands = pl.when(pl.col("step") <= REACH_INTERVALS * pl.col("interval")).then("step").otherwise("interval")
    return Readings(devices.drop("card"), rows.select("dev", "t", "interval", *_derived(), ms=stands))


def _runs(samples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return label sets, one row for each run of equal ones, and which run each sample is of: text is compared once."""
    names = [name for name in LABELS if name != "time"]
    changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in names)
    starts = samples.select(changes=changes).with_columns(pl.col("changes").fill_null(value=True))["changes"]
    if len(starts):
        starts[0] = True
    runs = samples.select(names).filter(starts)
    run = starts.cast(pl.UInt32).cum_sum() - 1
    lengths = run.value_counts().sort(run.name)["count"]
    return runs.with_columns(lengths.alias("samples")), run


def _fullest(runs: pl.DataFrame) -> pl.Series:
    """Return which runs are of the fullest recording of their card: a replica, job and host name."""
    stream = ["replica", "scrape_job", "node"]
    counts = runs.group_by("card", *stream).agg(pl.col("samples").sum())
    best = counts.sort("samples", *stream, descending=[True, False, False, False]).unique("card", keep="first")
    kept = runs.join(best.drop("samples").with_columns(kept=True), on=["card", *stream], how="left", nulls_equal=True,
                     maintain_order="left")  # fmt: skip
    return kept["kept"].fill_null(value=False)


def _key() -> pl.Expr:
    """Return a device and a time as one integer: sorting and grouping by it is many times faster."""
    return pl.col("dev").cast(pl.Int64) * (1 << 44) + pl.col("t")


def _valid(key: str) -> pl.Expr:
    metric, value = BY_KEY[key], pl.col(key)
    good = value.is_finite() & value.is_between(metric.minimum, metric.maximum)
    return pl.when(good).then(value.clip(upper_bound=1.0) if metric.unit == "ratio" else value).alias(key)


def _one_per_time(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge rows of one device and time: labels of several owners stand on several rows."""
    several = rows.select(key=_key())["key"].is_duplicated()
    if not several.any():
        return rows
    metrics = [name for name in rows.columns if name in METRICS]
    merged = rows.filter(several).group_by("dev", "t").agg(pl.col("card").first(), pl.col(metrics).min())
    return pl.concat([rows.filter(~several), merged.select(rows.columns)])


def _with_board(rows: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Give instances their board's clocks, power and temperature, on whichever of its series they stand."""
    cut = devices.filter(pl.col("instance").is_not_null()).select("card").unique()
    shared = [name for name in rows.columns if name in BOARD]
    if cut.is_empty() or not shared:
        return rows
    inside = rows["card"].is_in(cut["card"].implode())
    parts = rows.filter(inside)
    board = parts.group_by("card", "t").agg(pl.col(shared).max().name.suffix("_board"))
    joined = parts.join(board, on=["card", "t"], how="left")
    filled = joined.with_columns(pl.coalesce(key, f"{key}_board").alias(key) for key in shared).select(rows.columns)
    return pl.concat([rows.filter(~inside), filled])


def _derived() -> list[pl.Expr]:
    same = pl.col("dev") == pl.col("dev").shift(1)
    seconds = pl.col("t").diff() / 1000

    def increase(key: str) -> pl.Expr:
        """Per second since the reading before; null at the first and where the counter started again."""
        grown = pl.col(key).diff()
        return pl.when(same & (grown >= 0)).then(grown / seconds)

    def rate(name: str) -> pl.Expr:
        return pl.coalesce(f"{name}_per_second", increase(f"{name}_total"))

    bits = pl.col("throttle_reasons_bitmask").cast(pl.Int64, strict=False)
    power, thermal = (increase(key).clip(upper_bound=1.0) for key in _THROTTLED)
    used = pl.col("memory_used_bytes")
    total = pl.coalesce("memory_total_bytes", used + pl.col("memory_free_bytes"))
    limit = pl.coalesce("power_limit_enforced_watts", "power_limit_watts")
    each = pl.mean_horizontal(rate(_LINK_SENT), rate(_LINK_RECEIVED))
    exprs = {
        **{name: pl.col(key) for name, key in RATIOS.items()},
        "receive": rate(_RECEIVED),
        "transmit": rate(_SENT),
        "nvlink": pl.coalesce(each, pl.col("nvlink_bytes_per_second") / 2),
        "power_part": pl.col("power_watts") / limit,
        "clock": pl.col("sm_clock_hertz"),
        "clock_part": pl.col("sm_clock_hertz") / pl.col("sm_clock_maximum_hertz"),
        "power_throttle": pl.coalesce(((bits & POWER_BITS) > 0).cast(pl.Float64), power),
        "thermal_throttle": pl.coalesce(((bits & THERMAL_BITS) > 0).cast(pl.Float64), thermal),
        "temperature": pl.col("temperature_celsius"),
        "memory_part": used / total,
    }
    return [expr.cast(pl.Float64).alias(name) for name, expr in exprs.items()]
