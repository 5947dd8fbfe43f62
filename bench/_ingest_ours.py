"""GPULedger's side of the ingest benchmark, in a process of its own: reads a day twice, the first time to get warm.

    python bench/_ingest_ours.py ARGUMENTS.json

Prints seconds from the first request to the commit, CPU seconds and the process's peak memory as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
import polars as pl

from pipelines import lake
from pipelines.config import Config, load
from pipelines.metering import Inputs, meter
from pipelines.sources.prometheus import read_prometheus
from pipelines.sources.prometheus.server import Ways
from pipelines.tables import Batch

CARDS_AT_ONCE = 32  # as many samples as the lake is read in, for two cores
Window = tuple[datetime, datetime]


def only_the_query_api(*_: object) -> list[object]:
    """Leave a server nothing but JSON."""
    return []


def by_cards(samples: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The samples, sorted by card as they come, in parts of some cards each."""
    first = samples["device"].ne_missing(samples["device"].shift()).fill_null(value=True).arg_true().to_list()
    start = 0
    for end in [*first[CARDS_AT_ONCE::CARDS_AT_ONCE], samples.height]:
        yield samples[start:end]
        start = end


def roll_up(config: Config, window: Window, target: Path) -> int:
    """From the first request to the tenants' usage, committed."""
    batch = read_prometheus(config.sources[0], window)
    cards = by_cards(batch.samples)
    metered = meter(Inputs(cards, batch.records, batch.accounting, batch.inventory), config)
    with duckdb.connect(str(target)) as connection:
        connection.execute("BEGIN")
        for name, rows in (("usage", metered.usage), ("lease", metered.leases)):
            connection.register("incoming", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
            connection.unregister("incoming")
        connection.execute("COMMIT")
    return batch.samples.height


def store_samples(config: Config, window: Window, target: Path, ways: Ways = only_the_query_api) -> int:
    """From the first request to the samples in a table, committed."""
    samples = read_prometheus(config.sources[0], window, ways=ways).samples
    with duckdb.connect(str(target)) as connection:
        connection.register("incoming", samples)
        connection.execute("CREATE TABLE sample AS SELECT * FROM incoming")
    return samples.height


def read(config: Config, window: Window, _: Path) -> int:
    """From the first request to the table."""
    return read_prometheus(config.sources[0], window).samples.height


def write_lake(config: Config, window: Window, target: Path) -> int:
    """The same into the lake; its bytes are the result."""
    batch: Batch = read_prometheus(config.sources[0], window)
    return sum((target / part.path).stat().st_size for part in lake.write(target, batch.samples))


WORK = {"roll_up": roll_up, "store_samples": store_samples, "read": read, "write_lake": write_lake}


def main() -> int:
    arguments = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(arguments["folder"])
    config = load(Path(arguments["config"]))
    start = datetime.fromisoformat(arguments["start"])
    work = WORK[arguments["work"]]
    work(config, (start, start + timedelta(hours=8)), folder / "warm")  # enough for what is compiled on its first use
    seconds, spent, result = [], [], 0
    for number in range(arguments["times"]):
        begun, cpu = time.perf_counter(), time.process_time()
        result = work(config, (start, start + timedelta(days=1)), folder / f"run{number}")
        seconds.append(time.perf_counter() - begun)
        spent.append(time.process_time() - cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": spent, "peak_mb": peak, "result": result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
