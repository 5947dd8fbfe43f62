"""What a pass leaves in the ledger for the next one, so that it looks only at what changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipelines import lake, shown
from pipelines.instants import DAY_MS
from pipelines.looking import DIRTY
from pipelines.metering import Memory, Remade
from pipelines.rerolling import PART
from pipelines.rollup import USAGE
from pipelines.splicing import ALL
from pipelines.tables import conformed

_SCHEDULED: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "labelled_as": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}
_READ: Final[dict[str, pl.DataType]] = {"path": pl.String()}
_TABLES: Final[Mapping[str, dict[str, pl.DataType]]] = {
    **shown.TABLES,
    "made_part": PART,
    "made_scheduled": _SCHEDULED,
    "read_part": _READ,
}
MEASURED: Final = "usage_measured"
"""Usage as measured, where `usage` isn't: where summaries of jobs stand for samples that nobody has."""

_EPOCH: Final = date(1970, 1, 1)


def recall(connection: duckdb.DuckDBPyConnection, folder: Path, paths: Sequence[str], made_by: str) -> Memory | None:
    """Return what the last pass left; None: nothing that this one could go on from.

    Args:
        folder: of the lake; `paths` are its parts that count.
        made_by: names the program's stages, the configuration and the window.

    Raises:
        LedgerError: a part of the lake is missing or damaged.
    """
    there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not {*_TABLES, "made_by", "usage"} <= there:
        return None
    if connection.execute("SELECT made_by FROM made_by").fetchall() != [(made_by,)]:
        return None
    kept = {name: _typed(connection, name, schema) for name, schema in _TABLES.items()}
    read = set(kept["read_part"]["path"])
    if not read <= set(paths):
        return None  # samples that it was made from are gone
    return Memory(
        shown={name: kept[name] for name in shown.TABLES},
        scheduled=kept["made_scheduled"],
        parts=kept["made_part"],
        usage=_typed(connection, MEASURED if MEASURED in there else "usage", USAGE),
        dirty=_dirty(folder, [path for path in paths if path not in read]),
        pruned=_pruned(connection),
    )


def _pruned(connection: duckdb.DuckDBPyConnection) -> int:
    """Return from when on the lake holds samples; before, there may have been some."""
    ((until,),) = connection.execute("SELECT max(until) FROM pruned").fetchall()
    return ALL if until is None else int(until)


def _typed(connection: duckdb.DuckDBPyConnection, table: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    return conformed(connection.sql(f"SELECT * FROM {table}").pl(), schema)  # noqa: S608


def _dirty(folder: Path, fresh: Sequence[str]) -> pl.DataFrame:
    """Return the cards of new parts, and the first day of theirs."""
    found = [pl.DataFrame(schema=DIRTY)]
    for day, cards in lake.cards(folder, fresh):
        changed = (day - _EPOCH).days * DAY_MS
        found.append(cards.with_columns(changed=pl.lit(changed, pl.Int64)))
    return pl.concat(found).group_by("cluster", "device").agg(pl.col("changed").min())


def remember(
    connection: duckdb.DuckDBPyConnection, remade: Remade, usage: pl.DataFrame, paths: Sequence[str], made_by: str
) -> None:
    """Store what was made anew, within the transaction that stores the stages.

    Args:
        usage: rollup.USAGE as it is stored: `remade.usage`, or with summaries in it.
    """
    for name in shown.TABLES:
        _replace(connection, name, remade.shown[name])
    _replace(connection, "made_part", remade.parts)
    _replace(connection, "made_scheduled", remade.scheduled.select(list(_SCHEDULED)))
    _replace(connection, "read_part", pl.DataFrame({"path": list(paths)}, schema=_READ))
    connection.execute("CREATE OR REPLACE TABLE made_by AS SELECT ?::VARCHAR AS made_by", [made_by])
    as_measured = usage is remade.usage
    there = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [MEASURED]).fetchall()
    if remade.days is None or there or not as_measured:
        _replace(connection, "usage", usage)
    else:
        _replace_days(connection, usage, remade.days)
    if as_measured:
        connection.execute(f"DROP TABLE IF EXISTS {MEASURED}")
    else:
        _replace(connection, MEASURED, remade.usage)


def _replace(connection: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    connection.register("incoming", rows)
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM incoming")  # noqa: S608
    connection.unregister("incoming")


def _replace_days(connection: duckdb.DuckDBPyConnection, usage: pl.DataFrame, days: pl.DataFrame) -> None:
    """Replace the usage of days of cards (rerolling.CARD_DAY)."""
    rows = usage.with_columns(day=pl.col("start") // DAY_MS * DAY_MS).join(
        days, on=days.columns, how="semi", nulls_equal=True
    )
    connection.register("days", days)
    connection.register("incoming", rows.drop("day"))
    connection.execute(
        "DELETE FROM usage USING days WHERE usage.cluster IS NOT DISTINCT FROM days.cluster"
        ' AND usage.device = days.device AND usage."start" >= days.day AND usage."start" < days.day + ?',
        [DAY_MS],
    )
    connection.execute("INSERT INTO usage SELECT * FROM incoming")
    connection.unregister("incoming")
    connection.unregister("days")
