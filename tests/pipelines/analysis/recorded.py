"""Samples and usage of workloads, from functions of the minute: what the analysis reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from pipelines.instants import HOUR_MS
from pipelines.metering import LEASE
from pipelines.rollup import USAGE
from pipelines.tables import SAMPLE_LABELS, TIME

START: Final = 1_793_000_000_000 // HOUR_MS * HOUR_MS
A100: Final = "NVIDIA A100-SXM4-80GB"
Value = float | Callable[[float], float | None]

KEYS: Final = {
    "engine": "engine_active_ratio", "util": "gpu_util_ratio", "sm": "sm_active_ratio", "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio", "fp32": "fp32_active_ratio", "receive": "pcie_receive_bytes_per_second",
    "transmit": "pcie_transmit_bytes_per_second", "used": "memory_used_bytes", "total": "memory_total_bytes",
    "sent_total": "pcie_transmit_bytes_total", "power": "power_watts", "clock": "sm_clock_hertz",
    "reasons": "throttle_reasons_bitmask", "link": "nvlink_receive_bytes_per_second",
}  # fmt: skip


@dataclass(frozen=True)
class Rank:
    """A device of a workload from one minute to another, sampled every so many seconds."""

    device: str
    values: Mapping[str, Value]
    start: float = 0.0
    end: float = 60.0
    every: float = 30.0
    model: str = A100
    instance: str | None = None
    profile: str | None = None
    replica: str | None = None
    without: tuple[float, float] = (0.0, 0.0)


@dataclass
class Recording:
    """Workloads and their ranks."""

    workloads: Mapping[str, Sequence[Rank]]
    guessed: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def samples(self) -> pl.DataFrame:
        frames = [_samples(rank) for ranks in self.workloads.values() for rank in ranks]
        return pl.concat(frames, how="diagonal")

    @property
    def leases(self) -> pl.DataFrame:
        rows = []
        for workload, ranks in self.workloads.items():
            for rank in ranks:
                row: dict[str, Any] = dict.fromkeys(LEASE)
                row |= {"id": f"{workload}@{rank.device}/{rank.instance}", "cluster": "c", "workload": workload}
                rows.append(row | {"guessed": workload in self.guessed, "start": 0, "end": 1 << 60})
        return pl.DataFrame(rows, schema=LEASE).unique("id", maintain_order=True)

    @property
    def usage(self) -> pl.DataFrame:
        rows = []
        for workload, ranks in self.workloads.items():
            for rank in {(r.device, r.instance): r for r in ranks}.values():
                start, end = (START + round(m * 60_000) for m in (rank.start, rank.end))
                while start < end:
                    until = min(end, (start // HOUR_MS + 1) * HOUR_MS)
                    row: dict[str, Any] = dict.fromkeys(USAGE)
                    row |= {"cluster": "c", "device": rank.device, "instance": rank.instance, "profile": rank.profile}
                    row |= {"model": rank.model, "state": "allocated", "start": start, "end": until}
                    row |= {"lease": f"{workload}@{rank.device}/{rank.instance}", "weight_num": 1, "weight_den": 1}
                    rows.append(row | {"busy_observed_ms": until - start, "busy_ppb_ms": 0})
                    start = until
        return pl.DataFrame(rows, schema=USAGE)


def _samples(rank: Rank) -> pl.DataFrame:
    count = int((rank.end - rank.start) * 60 / rank.every)
    minutes = [rank.start + n * rank.every / 60 for n in range(count)]
    minutes = [m for m in minutes if not rank.without[0] <= m < rank.without[1]]
    labels = {
        "cluster": "c", "node": "n", "device": rank.device, "instance": rank.instance, "profile": rank.profile,
        "model": rank.model, "replica": rank.replica,
    }  # fmt: skip
    columns = {
        KEYS[name]: [value(m) if callable(value) else value for m in minutes] for name, value in rank.values.items()
    }
    times = pl.Series("time", [START + round(m * 60_000) for m in minutes], pl.Int64).cast(TIME)
    table = pl.DataFrame({"time": times, **{k: pl.Series(v, dtype=pl.Float64) for k, v in columns.items()}})
    missing = [name for name in SAMPLE_LABELS if name != "time"]
    return table.with_columns(pl.lit(labels.get(name), pl.String).alias(name) for name in missing)
