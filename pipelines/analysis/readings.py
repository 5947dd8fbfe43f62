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

    Of several recordings of one device the one with most samples counts; of several owners' rows at one time the first
    value. A MIG instance shows its board's clocks, power and temperature.
    """
    have = [key for key in METRICS if key in samples.columns]
    devices = samples.select(DEVICE).unique().sort(DEVICE).with_row_index("dev")
    boards = devices.select("cluster", "device").unique(maintain_order=True).with_row_index("card")
    devices = devices.join(boards, on=["cluster", "device"], maintain_order="left")
    rows = (
        samples.lazy()
        .join(devices.lazy(), on=DEVICE, nulls_equal=True, maintain_order="left")
        .select(
            "dev",
            "card",
            pl.col("time").dt.epoch("ms").alias("t"),
            pl.concat_str("replica", "scrape_job", "node", separator="\0", ignore_nulls=True).alias("stream"),
            *(_valid(key) for key in have),
            *(pl.lit(None, pl.Float64).alias(key) for key in METRICS if key not in have),
        )
        .collect()
    )
    rows = _one_per_time(_one_stream(rows)).sort("dev", "t")
    if devices["instance"].is_not_null().any():
        rows = _with_board(rows)
    rows = rows.with_columns(step=pl.when(pl.col("dev") == pl.col("dev").shift(-1)).then(pl.col("t").diff().shift(-1)))
    usual = rows.group_by("dev").agg(interval=pl.col("step").median().fill_null(DEFAULT_INTERVAL_MS).cast(pl.Int64))
    rows = rows.join(usual, on="dev", maintain_order="left")
    stands = pl.when(pl.col("step") <= REACH_INTERVALS * pl.col("interval")).then("step").otherwise("interval")
    return Readings(devices.drop("card"), rows.select("dev", "t", "interval", *_derived(), ms=stands))


def _valid(key: str) -> pl.Expr:
    metric, value = BY_KEY[key], pl.col(key)
    good = value.is_finite() & value.is_between(metric.minimum, metric.maximum)
    return pl.when(good).then(value.clip(upper_bound=1.0) if metric.unit == "ratio" else value).alias(key)


def _one_stream(rows: pl.DataFrame) -> pl.DataFrame:
    counts = rows.group_by("card", "stream").len()
    if counts["card"].is_duplicated().any():
        best = counts.sort("len", "stream", descending=[True, False]).unique("card", keep="first")
        rows = rows.join(best.drop("len"), on=["card", "stream"], how="semi", nulls_equal=True)
    return rows.drop("stream")


def _one_per_time(rows: pl.DataFrame) -> pl.DataFrame:
    if not rows.select("dev", "t").is_duplicated().any():
        return rows
    return rows.group_by("dev", "card", "t").agg(pl.col(METRICS).drop_nulls().first())


def _with_board(rows: pl.DataFrame) -> pl.DataFrame:
    board = rows.group_by("card", "t").agg(pl.col(BOARD).drop_nulls().first().name.suffix("_board"))
    joined = rows.join(board, on=["card", "t"], how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce(key, f"{key}_board").alias(key) for key in BOARD).select(rows.columns)


def _derived() -> list[pl.Expr]:
    same = pl.col("dev") == pl.col("dev").shift(1)
    seconds = pl.col("t").diff() / 1000

    def increase(key: str) -> pl.Expr:
        """Per second since the reading before; null at the first and where the counter started again."""
        grown = pl.col(key).diff()
        return pl.when(same & (grown >= 0)).then(grown / seconds)

    def rate(name: str) -> pl.Expr:
        return pl.coalesce(f"{name}_per_second", increase(f"{name}_total"))

    bits = pl.col("throttle_reasons_bitmask").cast(pl.Int64)
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
