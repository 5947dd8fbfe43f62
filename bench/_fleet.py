"""A simulated fleet as wide samples, a UTC day at a time: as many cards and days as a benchmark asks for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np
import polars as pl

from pipelines.tables import SAMPLE_LABELS

START = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
MODEL = "NVIDIA H100 80GB HBM3"
GPUS_PER_NODE = 8
HOLD_MINUTES = 864  # 50 leases a card and month: 50,000 of 1,000 cards
IDLE_MINUTES = 60

CONFIG = (
    """\
currency: USD
timezone: America/New_York
scrape_interval: 60s
sources: []
tenants:
"""
    + "".join(f'  - {{id: team-{n}, match: [{{namespace: "team-{n}"}}], quota: {{gpus: 40}}}}\n' for n in range(25))
    + """\
rates:
  - {model: "*H100*", on_demand: "3.20", reserved: "2.10", overflow: "3.50"}
reservations:
"""
    + "".join(
        f'  - {{id: r{n}, tenant: team-{n}, model: "*H100*", gpus: 20, from: 2026-09-01, to: 2027-09-01}}\n'
        for n in range(10)
    )
)


def day_of_samples(gpus: int, day: int, *, first_gpu: int = 0, seconds: int = 60, seed: int = 1) -> pl.DataFrame:
    """Return one UTC day's samples of some cards: each changes its owner about 50 times a month."""
    per_day = 86_400 // seconds
    cards = np.arange(first_gpu, first_gpu + gpus)
    random = np.random.default_rng([seed, day, first_gpu])
    count = gpus * per_day
    card = np.repeat(cards, per_day)
    minute = day * 1440 + np.tile(np.arange(per_day) * seconds // 60, gpus)
    shifted = minute + card * 37
    hold, within = shifted // HOLD_MINUTES, shifted % HOLD_MINUTES
    held = within >= IDLE_MINUTES
    offset = (card * 7919) % (seconds * 1000)  # a target keeps its moment of the interval
    at = int(START.timestamp() * 1000) + day * 86_400_000 + np.tile(np.arange(per_day) * seconds * 1000, gpus) + offset
    busy = np.where(held, np.round(np.clip(random.normal(0.7, 0.15, count), 0, 1), 3), 0.0)
    power = np.round(90 + 560 * busy + random.normal(0, 5, count), 1)
    energy = np.cumsum((power * seconds).reshape(gpus, per_day), axis=1).ravel() + day * 4e7
    named = pl.DataFrame({"card": card, "hold": hold, "held": held})
    text = named.select(
        device=pl.format("GPU-{}-0000-4000-8000-000000000000", pl.col("card").cast(pl.String).str.zfill(8)),
        node=pl.format("node-{}", (pl.col("card") // GPUS_PER_NODE).cast(pl.String).str.zfill(5)),
        index=(pl.col("card") % GPUS_PER_NODE).cast(pl.String),
        namespace=pl.when("held").then(pl.format("team-{}", (pl.col("card") // 3 + pl.col("hold")) % 25)),
        pod=pl.when("held").then(pl.format("job-{}-{}", "card", "hold")),
        container=pl.when("held").then(pl.lit("main")),
        pod_uid=pl.when("held").then(pl.format("uid-{}-{}", "card", "hold")),
    )
    values = {
        "engine_active_ratio": busy,
        "gpu_util_ratio": np.round(busy, 2),
        "sm_active_ratio": np.round(busy * 0.8, 3),
        "tensor_active_ratio": np.round(busy * 0.4, 3),
        "dram_active_ratio": np.round(busy * 0.3, 3),
        "memory_used_bytes": np.where(held, 6e10 + np.round(busy * 1e9), 5e8),
        "power_watts": power,
        "energy_joules_total": np.round(energy, 3),
        "temperature_celsius": np.round(35 + busy * 35),
        "sm_clock_hertz": np.where(held, 1.98e9, 3.45e8),
    }
    fixed = {"cluster": "bench", "model": MODEL, "scrape_job": "dcgm"}
    frame = text.with_columns(
        pl.Series("time", at).cast(pl.Datetime("ms", "UTC")),
        *(pl.lit(v).alias(k) for k, v in fixed.items()),
        *(pl.Series(k, v, pl.Float64) for k, v in values.items()),
    )
    missing = [pl.lit(None, t).alias(c) for c, t in SAMPLE_LABELS.items() if c not in frame.columns]
    return frame.with_columns(missing).select(*SAMPLE_LABELS, *values)


def days_of_samples(gpus: int, days: int, *, at_once: int = 500, seconds: int = 60) -> Iterator[pl.DataFrame]:
    """Yield the samples of some days, a day and `at_once` cards at a time."""
    for day in range(days):
        for first in range(0, gpus, at_once):
            yield day_of_samples(min(at_once, gpus - first), day, first_gpu=first, seconds=seconds)
