"""The roll-up from the lake: against a plain DuckDB group-by, ten times the samples against one, and a large month.

``rollup_vs_duckdb_groupby``: rows/s of the roll-up, from the lake to usage (valid values, who held what, how long each
value stands, edges cut), over those of a plain group-by by device and hour of the same columns, held in memory.
``scaling_10x``: 10 × the time for some cards over the time for ten times as many.

``python bench/rollup.py --gpus 1000 --days 30`` rolls up and rates one large fleet instead, and writes what it took.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
import polars as pl

from bench._fleet import CONFIG, days_of_samples
from bench._results import record
from pipelines import lake
from pipelines.config import Config, load
from pipelines.ingest import Ingested
from pipelines.instants import HOUR_MS
from pipelines.ledger import LAKE_NAME, Import, Ledger, open_ledger
from pipelines.metering import Metered, meter
from pipelines.operations import _finish
from pipelines.tables import Batch

AT_LEAST = {"rollup_vs_duckdb_groupby": 0.6, "scaling_10x": 0.8}
GROUP_BY = """
-- grain: device × hour
SELECT device, time_bucket(INTERVAL 1 HOUR, "time") AS hour,
    count(*), avg(engine_active_ratio), avg(gpu_util_ratio), avg(sm_active_ratio), avg(tensor_active_ratio),
    avg(dram_active_ratio), avg(memory_used_bytes), avg(power_watts),
    max(energy_joules_total) - min(energy_joules_total)
FROM samples GROUP BY ALL
"""


def fill(folder: Path, gpus: int, days: int) -> tuple[Config, int]:
    """Make a ledger whose lake holds a fleet; return its configuration and how many samples that are."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuledger.yaml").write_text(CONFIG)
    config = load(folder / "gpuledger.yaml")
    rows, now = 0, dt.datetime.now(dt.UTC)
    with open_ledger(config.ledger, "a benchmark") as ledger:
        for number, samples in enumerate(days_of_samples(gpus, days)):
            name = f"{number}"
            rows += ledger.add(Import(name, "samples", name, False, Batch(samples=samples)), now)
    return config, rows


def rolled_up(ledger: Ledger, config: Config) -> tuple[float, Metered]:
    begun = time.perf_counter()
    metered = meter(ledger.inputs(), config)
    return time.perf_counter() - begun, metered


def grouped(ledger: Ledger) -> tuple[float, int]:
    """Return how long a plain group-by of the same samples takes, in memory, and its rows."""
    paths = sorted({part.path for part in ledger.parts()})
    samples = pl.concat(lake.read(ledger.folder / LAKE_NAME, paths), how="diagonal").to_arrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arrow", samples)
        connection.execute("CREATE TABLE samples AS SELECT * FROM arrow")
        begun = time.perf_counter()
        rows = connection.execute(GROUP_BY).fetchall()
        return time.perf_counter() - begun, len(rows)


def compared(folder: Path) -> dict[str, float]:
    """Measure both keys; best of three each, so that what else the machine does counts little."""
    small, few = fill(folder / "small", 40, 2)
    large, many = fill(folder / "large", 400, 2)
    with open_ledger(small.ledger, "a benchmark") as ledger:
        once = min(rolled_up(ledger, small)[0] for _ in range(3))
    with open_ledger(large.ledger, "a benchmark") as ledger:
        runs = [rolled_up(ledger, large) for _ in range(3)]
        ten_times, metered = min(seconds for seconds, _ in runs), runs[0][1]
        plain, rows = min(grouped(ledger) for _ in range(3))
    hours = metered.usage.select("device", pl.col("start") // HOUR_MS).unique().height
    assert hours >= rows > 0, f"{hours} device-hours rolled up, {rows} grouped"
    assert many == 10 * few
    print(f"{many:,} samples: rolled up in {ten_times:.2f} s, grouped in {plain:.2f} s; {few:,} in {once:.2f} s")
    return {"rollup_vs_duckdb_groupby": plain / ten_times, "scaling_10x": 10 * once / ten_times}


def one(folder: Path, gpus: int, days: int) -> dict[str, float]:
    """Roll up, rate and publish one fleet in a process of its own, whose memory is its own."""
    filler = [sys.executable, __file__, "--fill", str(folder), "--gpus", str(gpus), "--days", str(days)]
    subprocess.run(filler, check=True)
    size = sum(f.stat().st_size for f in (folder / "ledger" / LAKE_NAME).rglob("*.parquet"))
    begun = time.perf_counter()
    subprocess.run([sys.executable, __file__, "--rate", str(folder)], check=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    name = f"fleet_{gpus}x{days}d"
    return {
        f"{name}_seconds": time.perf_counter() - begun,
        f"{name}_peak_gb": spent.ru_maxrss / 1024**2,
        f"{name}_lake_gb": size / 1024**3,
    }


def rate(folder: Path) -> None:
    config = load(folder / "gpuledger.yaml")
    with open_ledger(config.ledger, "a benchmark") as ledger:
        print(_finish(ledger, config, Ingested(), dt.datetime.now(dt.UTC)))
    spent = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{spent.ru_utime + spent.ru_stime:.1f} CPU seconds, {spent.ru_maxrss / 1024**2:.2f} GB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rate:
        rate(arguments.rate)
        return 0
    if arguments.fill:
        fill(arguments.fill, arguments.gpus, arguments.days)
        return 0
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder:
        if arguments.gpus:
            record(scores=one(Path(folder), arguments.gpus, arguments.days))
            return 0
        ratios = compared(Path(folder))
    record(scores={"cpus": float(os.cpu_count() or 1)}, ratios=ratios)
    under = [name for name, least in AT_LEAST.items() if ratios[name] < least]
    for name in under:
        print(f"under its least: {name}", file=sys.stderr)
    return 1 if under else 0


if __name__ == "__main__":
    sys.exit(main())
