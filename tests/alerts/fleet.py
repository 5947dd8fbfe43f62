"""Two days of a simulated fleet on a real Prometheus, with what the rules would have recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from alerts.recording import recording
from alerts.stock import read_stock
from pipelines.config import Config, load
from pipelines.simulate import simulate
from tests.alerts.exposition import write_dcgm, write_ours
from tests.alerts.prometheus import Prometheus, Span, record_instant, record_past

GPUS, DAYS, INTERVAL = 16, 2, 120
MOST_SAMPLES = 2_000_000
NOON = 86_400
"""Seconds from the first sample to the time that tests look at."""


@dataclass(frozen=True)
class Fleet:
    """What was simulated, and the server that holds it."""

    folder: Path
    config: Config
    server: Prometheus
    span: Span
    raw: int
    recorded: int
    seconds: float


def simulated(folder: Path) -> Path:
    """The replay directory of the fleet, its inventory with racks and power."""
    simulate(folder, gpus=GPUS, days=DAYS, interval_s=INTERVAL)
    inventory = folder / "inventory.csv"
    head, *rows = inventory.read_text().splitlines()
    lines = [f"{head},rack,power_watts", *(f"{row},r{place % 2},700" for place, row in enumerate(rows))]
    inventory.write_text("\n".join(lines) + "\n")
    return folder


def stored(folder: Path, naming: str) -> Fleet:
    """A running server; the caller stops it.

    Args:
        naming: "ours", or "dcgm" for a Prometheus that has only dcgm-exporter's names.
    """
    began = time.monotonic()
    replay = simulated(folder / "replay")
    config = load(replay / "gpuledger.yaml")
    text = folder / "exposition.om"
    raw = {"ours": write_ours, "dcgm": write_dcgm}[naming](replay, text)
    times = pl.read_parquet(replay / "samples.parquet")["time"].dt.epoch("s")
    span = Span(times.min(), times.max(), INTERVAL)  # type: ignore[arg-type]
    # Back-filled data has no stale markers: a sample must not outlive its scrape.
    server = Prometheus(folder, lookback_seconds=INTERVAL - 1)
    server.fill(text)
    text.unlink()
    server.start()
    rules = [rule for group in recording(config, read_stock(config)) for rule in group.rules]
    # `@ end()` would be one time for a whole range: what uses it is asked for one instant.
    recorded = record_past(server, [dict(rule) for rule in rules if "@ end()" not in rule["expr"]], span, folder)
    record_instant(server, [rule for rule in rules if "@ end()" in rule["expr"]], span.start + NOON, folder)
    return Fleet(replay, config, server, span, raw, recorded, time.monotonic() - began)
