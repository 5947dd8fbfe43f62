"""What was imported when: published beside the figures, so that who reads them sees what they rest on."""

from __future__ import annotations

from typing import Final

import duckdb
import polars as pl

from pipelines.tables import conformed

TABLE: Final = "import_log"

IMPORT_LOG: Final[dict[str, pl.DataType]] = {
    "sequence": pl.Int64(),
    "imported_at": pl.Datetime("ms", "UTC"),
    "kind": pl.String(),
    "source": pl.String(),  # as the configuration or the command line names it; without a password
    "configured": pl.Boolean(),  # of the configuration: its newest content counts
    "id": pl.String(),  # of the content and of how it was read
    "samples": pl.Int64(),
    "findings": pl.Int64(),  # things that were skipped or repaired
}
"""grain: imported content, in the order of the imports."""

_IMPORTS: Final = """
    -- grain: imported content
    SELECT sequence, imported_at, kind, regexp_replace(source, '://[^/@]*@', '://') AS source, configured, id,
           coalesce(p.samples, 0) AS samples, coalesce(f.findings, 0) AS findings
    FROM imported
    LEFT JOIN (SELECT import_id, sum(sample_rows) AS samples FROM lake_part GROUP BY ALL) AS p ON p.import_id = id
    LEFT JOIN (SELECT import_id, sum(count) AS findings FROM import_finding GROUP BY ALL) AS f ON f.import_id = id
    ORDER BY sequence
"""


def import_log(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return IMPORT_LOG from a ledger or a published file; empty where neither holds it."""
    # Asked first: DuckDB takes a name that it has no table of for a variable of this program.
    there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table, query in (("imported", _IMPORTS), (TABLE, f"FROM {TABLE} ORDER BY sequence")):
        if table in there:
            return conformed(connection.sql(query).pl(), IMPORT_LOG)
    return pl.DataFrame(schema=IMPORT_LOG)
