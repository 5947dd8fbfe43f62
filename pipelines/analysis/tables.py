"""Schemas of the tables that the analysis makes. Times are ms since the epoch, UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval

PPB: Final = 1_000_000_000  # parts are whole billionths, so that money on them stays exact

FEATURES: Final[dict[str, str]] = {
    # Means over the time outside idle episodes, and over the devices that had any.
    "engine": "share of time in which a kernel ran (GR_ENGINE_ACTIVE, else GPU_UTIL)",
    "sm": "SM activity",
    "tensor": "tensor pipe activity",
    "tensor_part": "tensor pipe activity, of the SM activity",
    "dram": "device memory activity",
    "fp64": "FP64 pipe activity",
    "fp32": "FP32 pipe activity",
    "copy": "share of time in which device memory was read or written (MEM_COPY_UTIL)",
    "receive": "bytes/s to the GPU over PCIe",
    "transmit": "bytes/s from the GPU over PCIe",
    "pcie": "bytes/s over PCIe, the busier direction",
    "pcie_both": "bytes/s over PCIe, the other direction",
    "nvlink": "bytes/s over NVLink, mean of both directions",
    "nvlink_part": "the same, of what the model's links can do",
    "power_part": "power, of the limit in force",
    # Of the device where it is worst, over the time in which a kernel ran.
    "clock_part": "SM clock, of the highest",
    "power_throttle": "share of time with a power cap or brake among the throttle reasons",
    "thermal_throttle": "share of time with a thermal slowdown among them",
    "temperature_peak": "highest temperature, °C",
    "smaller": "1 where a smaller slice or card exists, and all of it is one workload's",
    "memory_peak": "most memory used, of the card's",
    "sm_peak": "highest SM activity over five minutes",
    # Shapes over time.
    "swing": "standard deviation of a device's SM activity over time",
    "low": "share of time with an SM activity below 0.4 of the device's usual one",
    "low_engine": "share of that time in which a kernel ran all the same: it waited inside a kernel",
    "stalls": "how often all devices are low at once",
    "stalled": "share of time in those stalls",
    "written": "share of their time in stalls that begin with a copy to the host",
    # Between the devices of one workload.
    "together": "share of the devices' swing that is common to all: 1 in step, 1/n independent",
    "behind": "robust z of the device that differs most from its peers",
    "gap": "activity by which it differs from their median",
}
"""Columns of WINDOW with what is known of a workload's hour; null is not measured, never 0."""

WINDOW: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),
    "hour": pl.Int64(),  # its start
    "model": pl.String(),
    "devices": pl.Int64(),  # with samples
    "observed_ms": pl.Int64(),  # device-ms with samples
    "idle_ms": pl.Int64(),  # of those: in idle episodes
    "idle_activity": pl.Float64(),  # engine activity in them
    "interval_ms": pl.Int64(),  # between samples, the longest of its devices
    **dict.fromkeys(FEATURES, pl.Float64()),
    "cause": pl.String(),  # of the time outside idle episodes; "idle" where there is none
    "confidence": pl.Float64(),  # 0–1
    "evidence": pl.String(),  # JSON: [{"feature", "value", "limit"}, …], what decided first
    "suspect": pl.String(),  # the device that its peers wait for, where the cause is straggler
}
"""grain: workload × UTC hour."""

IDLE: Final[dict[str, pl.DataType]] = {
    "lease": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "hour": pl.Int64(),
    "time_ppb": pl.Int64(),  # of the time observed in that hour
    "loss_ppb": pl.Int64(),  # of what it lost, observed time × (1 − busy)
}
"""grain: lease × device × UTC hour with an idle episode; what is left of the hour has its window's cause."""

BOTTLENECK: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "workload": pl.String(),
    "cause": pl.String(),
    "main": pl.Boolean(),  # the one that the report names
    "share_of_time": pl.Float64(),  # of the workload's GPU-hours
    "gpu_hours": pl.Float64(),
    "waste": pl.Decimal(38, 4),  # part of the tenant's waste: adds up to it, to the cent
    "confidence": pl.Float64(),
    "evidence": pl.String(),  # JSON, of the window that decided most clearly
    "remedy": pl.String(),
}
"""grain: month × tenant × workload × cause."""


@dataclass(frozen=True)
class Analysis:
    """What is known of why: WINDOW and IDLE."""

    windows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=WINDOW))
    idle: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=IDLE))

    def within(self, period: Interval) -> Analysis:
        """Return the part of it that a period, [start, end) in ms, is about."""
        start, end = period
        inside = (pl.col("hour") + HOUR_MS > start) & (pl.col("hour") < end)
        return Analysis(self.windows.filter(inside), self.idle.filter(inside))
