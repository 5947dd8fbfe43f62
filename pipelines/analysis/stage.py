"""The analysis as a stage of the ledger: hours that changed since the last pass are analysed anew, the others stand.

An hour changes with what was held in it (its usage rows, and its neighbours', whose idle episodes reach into it) and
with new parts of the lake that hold samples of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipelines import lake, store
from pipelines.analysis.hours import MARGIN_MS, analyse
from pipelines.analysis.readings import LABELS, METRICS
from pipelines.analysis.signatures import SIGNATURES, THRESHOLDS
from pipelines.analysis.tables import IDLE, WINDOW, Analysis
from pipelines.instants import DAY_MS, HOUR_MS

ROWS_AT_ONCE: Final = 1_500_000
_HOURS: Final[dict[str, pl.DataType]] = {"hour": pl.Int64(), "held": pl.UInt64()}
_PARTS: Final[dict[str, pl.DataType]] = {"path": pl.String()}
_TABLES: Final[dict[str, dict[str, pl.DataType]]] = {
    "bottleneck_window": WINDOW,
    "bottleneck_idle": IDLE,
    "analysed_hour": _HOURS,
    "analysed_part": _PARTS,
}


def refresh(
    connection: duckdb.DuckDBPyConnection, folder: Path, paths: Sequence[str], usage: pl.DataFrame, leases: pl.DataFrame
) -> int:
    """Analyse what changed and store it; return how many hours that were.

    Args:
        folder: of the lake; `paths` are its parts that count.
        usage: rollup.USAGE; `leases` metering.LEASE.

    Raises:
        LedgerError: a part of the lake is missing or damaged.
    """
    held = _fingerprints(usage)
    stored = _stored(connection, "analysed_hour")
    fresh = [path for path in paths if path not in set(_stored(connection, "analysed_part")["path"])]
    changed = held.join(stored, on=["hour", "held"], how="anti")["hour"]
    touched = _near(lake.hours(folder, fresh))
    dirty = sorted({*changed, *(touched & set(held["hour"]))})
    gone = set(stored["hour"]) - set(held["hour"])
    ordered = usage.filter(pl.col("state") == "allocated").sort("start")
    done = [
        analyse(samples, _around(ordered, hours), leases, hours) for hours, samples in _batches(folder, paths, dirty)
    ]
    old = read_analysis(connection)
    replaced = pl.Series([*dirty, *gone], dtype=pl.Int64).implode()
    windows = pl.concat([old.windows.filter(~pl.col("hour").is_in(replaced)), *(a.windows for a in done)])
    idle = pl.concat([old.idle.filter(~pl.col("hour").is_in(replaced)), *(a.idle for a in done)])
    tables = (windows.sort("hour", "cluster", "workload"), idle.sort("hour", "lease", "device", "instance"), held,
              pl.DataFrame({"path": list(paths)}, schema=_PARTS))  # fmt: skip
    with store.transaction(connection):
        for name, rows in zip(_TABLES, tables, strict=True):
            connection.register("incoming", rows)
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")  # noqa: S608
            connection.unregister("incoming")
    return len(dirty)


def _around(usage: pl.DataFrame, hours: Collection[int]) -> pl.DataFrame:
    """Return the rows of some hours and those beside them, of usage in order of time: none of it is searched."""
    first, last = (
        int(usage["start"].search_sorted(t, side="left")) for t in (min(hours) - HOUR_MS, max(hours) + 2 * HOUR_MS)
    )
    return usage[first:last]


def read_analysis(connection: duckdb.DuckDBPyConnection) -> Analysis:
    """Return the analysis that a ledger or a published file holds; empty where it holds none."""
    return Analysis(_stored(connection, "bottleneck_window"), _stored(connection, "bottleneck_idle"))


def tables(analysis: Analysis) -> dict[str, pl.DataFrame]:
    """Return the tables that `read_analysis` reads."""
    return {"bottleneck_window": analysis.windows, "bottleneck_idle": analysis.idle}


def _stored(connection: duckdb.DuckDBPyConnection, table: str) -> pl.DataFrame:
    schema = _TABLES[table]
    try:
        rows: pl.DataFrame = connection.sql(f"SELECT * FROM {table}").pl()  # noqa: S608
    except duckdb.CatalogException:
        return pl.DataFrame(schema=schema)
    if not set(schema) <= set(rows.columns):  # of an older version: analysed anew
        return pl.DataFrame(schema=schema)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _fingerprints(usage: pl.DataFrame) -> pl.DataFrame:
    """Return a number for what was held in each hour and in the hours beside it."""
    rows = usage.filter(pl.col("state") == "allocated").select(
        "lease", "device", "instance", "start", "end", "busy_observed_ms", "busy_ppb_ms",
        hour=pl.col("start") // HOUR_MS * HOUR_MS,
    )  # fmt: skip
    own = rows.select("hour", own=rows.hash_rows(seed=_basis())).group_by("hour").agg(pl.col("own").sum())
    beside = [
        own.select(hour=pl.col("hour") + step * HOUR_MS, held=pl.col("own") * weight)
        for step, weight in ((-1, 3), (0, 1), (1, 7))
    ]
    return pl.concat(beside).group_by("hour").agg(pl.col("held").sum()).join(own, on="hour", how="semi").sort("hour")


def _basis() -> int:
    """Return a number for what decides: another release may tell other causes of the same hours."""
    return zlib.crc32(repr((list(WINDOW), list(IDLE), THRESHOLDS, SIGNATURES)).encode())


def _near(hours: Collection[int]) -> set[int]:
    """Return hours and those that their margin reaches into: samples at an edge end or begin an idle episode."""
    return {hour + step for hour in hours for step in (-HOUR_MS, 0, HOUR_MS)}


def _batches(folder: Path, paths: Sequence[str], hours: Sequence[int]) -> Iterator[tuple[list[int], pl.DataFrame]]:
    """Yield hours of one day at a time, fewer where samples are many, with the samples of them and their margin."""
    for day, of_day in _by_day(hours):
        near = lake.of_days(paths, [day - DAY_MS, day, day + DAY_MS])
        rows = lake.count(folder, lake.of_days(paths, [day]))
        size = max(1, int(24 * ROWS_AT_ONCE / max(rows, 1)))
        for first in range(0, len(of_day), size):
            some = of_day[first : first + size]
            yield (
                some,
                lake.between(folder, near, [*LABELS, *METRICS], some[0] - MARGIN_MS, some[-1] + HOUR_MS + MARGIN_MS),
            )


def _by_day(hours: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    days: dict[int, list[int]] = {}
    for hour in hours:
        days.setdefault(hour // DAY_MS * DAY_MS, []).append(hour)
    yield from days.items()
