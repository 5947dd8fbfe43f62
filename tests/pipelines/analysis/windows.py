"""Windows as the features make them, with what a test says of them and a plain training step for the rest."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from pipelines.analysis.tables import FEATURES, WINDOW
from pipelines.instants import HOUR_MS

TRAINING: Final[dict[str, float]] = {
    "engine": 0.96, "sm": 0.78, "tensor": 0.24, "tensor_part": 0.31, "dram": 0.3, "fp64": 0.0, "fp32": 0.08,
    "copy": 0.33, "receive": 5e7, "transmit": 2e7, "pcie": 5e7, "pcie_both": 2e7, "nvlink": 3e9, "nvlink_part": 0.01,
    "power_part": 0.8, "clock_part": 0.98, "power_throttle": 0.0, "thermal_throttle": 0.0, "temperature_peak": 61.0,
    "memory_peak": 0.8, "sm_peak": 0.82, "smaller": 1.0, "swing": 0.02, "low": 0.0, "stalls": 0.0, "stalled": 0.0,
    "together": 1.0, "behind": 0.0, "gap": 0.0,
}  # fmt: skip


def window(**changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(WINDOW)
    row |= {"cluster": "c", "workload": "w", "hour": 0, "devices": 1, "observed_ms": HOUR_MS, "idle_ms": 0}
    row |= {"interval_ms": 60_000, "model": "NVIDIA A100-SXM4-80GB", **TRAINING}
    unknown = set(changed) - set(WINDOW)
    assert not unknown, unknown
    return row | changed


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=WINDOW).with_columns(pl.col(list(FEATURES)).cast(pl.Float64))
