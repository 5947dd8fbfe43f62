"""The tables of `pipelines.facts` in the ledger's DuckDB file, one each, with the import that they came by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb
import polars as pl

from pipelines.facts import FACTS, Facts, standing

_PREFIX: Final = "fact_"  # what was imported; stages made of it have the plain names


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables that aren't there yet; `FACTS` says what is in them."""
    for name, schema in FACTS.items():
        empty = pl.DataFrame(schema={"import_id": pl.String(), **schema})
        connection.register("incoming", empty)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_PREFIX}{name} AS SELECT * FROM incoming")  # noqa: S608
        connection.unregister("incoming")


def replace(connection: duckdb.DuckDBPyConnection, import_id: str, facts: Mapping[str, pl.DataFrame]) -> None:
    """Put one import's rows in place of those that it had."""
    for name, schema in FACTS.items():
        connection.execute(f"DELETE FROM {_PREFIX}{name} WHERE import_id = ?", [import_id])  # noqa: S608
        rows = facts.get(name)
        if rows is not None and rows.height:
            table = rows.select(pl.col(column).cast(kind) for column, kind in schema.items())
            connection.register("incoming", table.with_columns(import_id=pl.lit(import_id)))
            connection.execute(f"INSERT INTO {_PREFIX}{name} BY NAME SELECT * FROM incoming")  # noqa: S608
            connection.unregister("incoming")


def read(connection: duckdb.DuckDBPyConnection, active: str) -> Facts:
    """Return what the imports that count say together.

    Args:
        active: a query for the ids of those imports; one of the ledger's own constants.
    """
    tables = {}
    for name, schema in FACTS.items():
        columns = ", ".join(f'"{column}"' for column in schema)
        rows: pl.DataFrame = connection.sql(
            f"SELECT {columns} FROM {_PREFIX}{name} WHERE import_id IN ({active}) ORDER BY ALL"  # noqa: S608
        ).pl()
        if rows.height:
            tables[name] = rows.select(pl.col(column).cast(kind) for column, kind in schema.items())
    return standing(tables)
