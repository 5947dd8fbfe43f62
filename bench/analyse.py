"""Why GPUs are slow: the analysis of a fleet from its lake, whole and then by the hour, as `gpuledger run` does it.

``analyse_day_seconds`` is what a UTC day of 1,000 cards at 60 s takes (1.44 million samples), ``analyse_hour_seconds``
what one more hour takes once the rest is known. ``--days 30`` measures the month of the target, under 180 s.
"""

from __future__ import annotations

import argparse
import datetime as dt
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import polars as pl

from bench._fleet import CONFIG, days_of_samples
from bench._results import record
from pipelines import store
from pipelines.analysis.stage import read_analysis, refresh
from pipelines.config import Config, load
from pipelines.instants import HOUR_MS
from pipelines.ledger import LAKE_NAME, Import, open_ledger
from pipelines.metering import meter
from pipelines.tables import Batch


def fill(folder: Path, gpus: int, days: int) -> Config:
    """Make a ledger whose lake holds a fleet."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuledger.yaml").write_text(CONFIG)
    config = load(folder / "gpuledger.yaml")
    now = dt.datetime.now(dt.UTC)
    with open_ledger(config.ledger, "a benchmark") as ledger:
        for number, samples in enumerate(days_of_samples(gpus, days)):
            ledger.add(Import(f"{number}", "samples", f"{number}", False, Batch(samples=samples)), now)
    return config


def measured(config: Config, scratch: Path) -> tuple[float, float, float, int]:
    """Return seconds and CPU seconds of the whole, seconds of one more hour, and how many windows were told."""
    with open_ledger(config.ledger, "a benchmark") as ledger:
        metered = meter(ledger.inputs(), config)
        lake = ledger.folder / LAKE_NAME
    paths = sorted(str(part.relative_to(lake)) for part in lake.rglob("*.parquet"))
    last = metered.usage.select(pl.col("start").max()).item() // HOUR_MS * HOUR_MS
    before = metered.usage.filter(pl.col("start") < last)
    with store.opened(scratch / "analysis.duckdb", read_only=False) as connection:
        begun, spent = time.perf_counter(), time.process_time()
        refresh(connection, lake, paths, before, metered.leases)
        whole, cpu = time.perf_counter() - begun, time.process_time() - spent
        begun = time.perf_counter()
        done = refresh(connection, lake, paths, metered.usage, metered.leases)
        hour = time.perf_counter() - begun
        assert 1 <= done <= 3, f"{done} hours were analysed again for one"
        windows = read_analysis(connection).windows
    assert windows["cause"].is_not_null().all()
    return whole, cpu, hour, windows.height


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--ledger", type=Path, help="a folder made before, with its gpuledger.yaml")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder:
        if arguments.ledger:
            config = load(arguments.ledger / "gpuledger.yaml")
        else:
            config = fill(Path(folder), arguments.gpus, arguments.days)
        whole, cpu, hour, windows = measured(config, Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{windows:,} workload-hours in {whole:.1f} s ({cpu:.1f} CPU s); {peak:.1f} GB with the roll-up before it")
    name = "analyse_day_seconds" if arguments.days < 30 else "analyse_30_days_seconds"
    seconds = whole / arguments.days if arguments.days < 30 else whole
    record(scores={name: seconds, "analyse_hour_seconds": hour})


if __name__ == "__main__":
    main()
