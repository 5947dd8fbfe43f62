"""Schemas of the tables that the analysis makes. Times are ms since the epoch, UTC."""

from __future__ import annotations

from typing import Final

import polars as pl

PPB: Final = 1_000_000_000  # parts are whole billionths, so that money on them stays exact

FEATURES: Final[dict[str, str]] = {
    # Means over the time in which the workload was not idle, and over its devices.
    "engine": "share of time in which a kernel ran (GR_ENGINE_ACTIVE, else GPU_UTIL)",
    "sm": "SM activity",
    "tensor": "tensor pipe activity",
    "dram": "device memory activity",
    "fp64": "FP64 pipe activity",
    "fp32": "FP32 pipe activity",
    "copy": "share of time in which device memory was read or written (MEM_COPY_UTIL)",
    "pcie_receive": "bytes/s to the GPU over PCIe",
    "pcie_transmit": "bytes/s from the GPU over PCIe",
    "nvlink": "bytes/s over NVLink, mean of both directions",
    "nvlink_part": "the same, of what the model's links can do",
    "power_part": "power, of the limit in force",
    "clock_part": "SM clock, of the highest",
    "temperature_peak": "highest temperature, °C",
    "throttled_power": "share of time with a power cap or brake among the throttle reasons",
    "throttled_thermal": "share of time with a thermal slowdown among them",
    "memory_peak": "most memory used, of the card's",
    "sm_peak": "99th percentile of the SM activity",
    # Shapes over time, within the window.
    "swing": "standard deviation of a device's activity over time",
    "low": "share of time far below the device's usual activity",
    "stalls": "stalls per hour: all devices stand still at once, for less than an idle episode",
    "stalled": "share of time in those stalls",
    "stall_write": "bytes/s from the GPU around the beginning of stalls",
    "periodic": "highest autocorrelation of a device's activity, of any period seen at least three times",
    # Between the devices of one workload.
    "together": "share of the devices' swing that is common to all: 1 in step, 1/n independent, less in turns",
    "behind": "robust z of the device that differs most from its peers, its activity above theirs",
    "gap": "activity of that device minus the median of the others",
    "uneven": "standard deviation between the devices' means",
}
"""Columns of WINDOW with what is known of a workload's hour; null is not measured, never 0."""

WINDOW: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),
    "start": pl.Int64(),  # of the UTC hour
    "devices": pl.Int64(),
    "held_ms": pl.Int64(),  # device-ms
    "observed_ms": pl.Int64(),
    "idle_ms": pl.Int64(),  # of the observed: in idle episodes
    "interval_ms": pl.Int64(),  # between samples
    "model": pl.String(),
    **dict.fromkeys(FEATURES, pl.Float64()),
    "cause": pl.String(),  # of the time outside idle episodes; "idle" where there is none; "unobserved"
    "confidence": pl.Float64(),  # 0–1
    "evidence": pl.String(),  # JSON: [{"feature", "value", "limit"}, …], what decided first
    "suspect": pl.String(),  # the device that its peers wait for, where the cause is straggler
}
"""grain: workload × UTC hour."""

PART: Final[dict[str, pl.DataType]] = {
    "lease": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "start": pl.Int64(),  # of the usage row
    "cause": pl.String(),
    "time_ppb": pl.Int64(),  # of the row's observed time
    "loss_ppb": pl.Int64(),  # of what the row lost, observed time × (1 − busy)
}
"""grain: allocated usage row × cause; the parts of a row add up to a billion."""

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
