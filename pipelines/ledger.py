"""The ledger: what was imported, and the stages made from it, in one DuckDB file beside the sample lake."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import polars as pl

from exporter.errors import LedgerError
from pipelines import fact_pruning, fact_store, fleet_state, import_log, lake, memory, store
from pipelines.analysis.measured import overruled
from pipelines.analysis.stage import read_analysis, refresh
from pipelines.findings import FINDING, dated, finding_table, findings_of
from pipelines.instants import from_ms
from pipelines.intervals import Interval
from pipelines.metering import LEASE, OUTAGE, Inputs, Memory, Metered, Remade
from pipelines.rollup import USAGE, usage_order
from pipelines.tables import ACCOUNTING, INVENTORY, RECORD, Batch, Finding, conformed

if TYPE_CHECKING:
    from pipelines.live import Window

LEDGER_NAME: Final = "ledger.duckdb"
LAKE_NAME: Final = "lake"
STAGES: Final = 6
"""Counted up when the stages' tables change, so that an upgraded program makes them anew."""
_ACTIVE_IMPORTS: Final = """
-- grain: import whose rows count; a newer file of a configured list of what is replaces the older one
SELECT id FROM imported AS i
WHERE NOT (i.configured AND i.kind IN ('allocations', 'inventory', 'calendar'))
   OR i.sequence = (
        SELECT max(sequence) FROM imported AS j
        WHERE j.configured AND j.kind = i.kind AND j.source = i.source
   )
"""

# Identifiers and conditions below are this module's own constants; nothing of the input is in a query.
_ACCOUNTING: Final = f"""
-- grain: node that a scheduler's accounting speaks for, and from when to when
SELECT DISTINCT * EXCLUDE (import_id) FROM accounting WHERE import_id IN ({_ACTIVE_IMPORTS}) ORDER BY ALL
"""  # noqa: S608

_INVENTORY: Final = f"""
-- grain: row of an inventory
SELECT * EXCLUDE (import_id) FROM inventory WHERE import_id IN ({_ACTIVE_IMPORTS}) ORDER BY ALL
"""  # noqa: S608

_RUN: Final = 'cluster, labelled_as, "start"'
_COLUMNS: Final = ", ".join(f'"{column}"' for column in RECORD)
_FILLED: Final = " + ".join(f'count("{column}")' for column in RECORD)
_OF_TOLD: Final = ", ".join(f'told."{column}"' for column in RECORD)
_RECORDS: Final = f"""
-- grain: run of a workload × GPU model and device that is told of; equal rows of several imports are one
WITH active AS ({_ACTIVE_IMPORTS}),
told AS (
    -- of an import's rows about one run and thing the ended one counts, then the longest
    SELECT * FROM record WHERE import_id IN (SELECT id FROM active) AND kind IN ('slurm', 'kubernetes')
    QUALIFY row_number() OVER (
        PARTITION BY import_id, {_RUN}, model, device ORDER BY ended DESC, "end" DESC NULLS FIRST, gpus DESC
    ) = 1
),
answer AS (
    SELECT import_id, {_RUN}, bool_or(ended) AS ended, max(coalesce("end", 'infinity')) AS reached,
        count(model) AS models, {_FILLED} AS filled, bit_xor(hash({_COLUMNS})) AS said
    FROM told GROUP BY ALL
),
newest AS (
    -- of what several imports tell of one run the ended answer counts, then the longest, then the one that says most;
    -- the order of the imports never decides
    SELECT import_id, {_RUN} FROM answer QUALIFY row_number() OVER (
        PARTITION BY {_RUN} ORDER BY ended DESC, reached DESC, models DESC, filled DESC, said, import_id
    ) = 1
)
SELECT {_COLUMNS} FROM (
    -- equal rows of one file are several holds, which their numbers tell apart
    SELECT DISTINCT nth, {_COLUMNS} FROM record
    WHERE import_id IN (SELECT id FROM active) AND kind NOT IN ('slurm', 'kubernetes')
)
UNION ALL
SELECT {_OF_TOLD} FROM told JOIN newest
    ON told.import_id = newest.import_id AND told.cluster IS NOT DISTINCT FROM newest.cluster
    AND told.labelled_as IS NOT DISTINCT FROM newest.labelled_as
    AND told."start" IS NOT DISTINCT FROM newest."start"
ORDER BY "start", workload, model, device, "end", tenant, class
"""  # noqa: S608


@dataclass(frozen=True)
class Import:
    """One content of one source, read."""

    id: str
    kind: str
    source: str
    configured: bool
    batch: Batch


@dataclass(frozen=True)
class Listed:
    """A part of the lake as far as one import filled it."""

    cluster: str
    day: date
    path: str
    rows: int
    source: str


class Ledger:
    """An open, held ledger. Use `open_ledger`."""

    def __init__(self, folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.folder, self._connection = folder, connection
        with store.transaction(connection):
            connection.execute(files("pipelines").joinpath("schema.sql").read_text())
            fact_store.prepare(connection)

    def knows(self, import_id: str) -> bool:
        """Return whether this very content was imported before."""
        return bool(self._connection.execute("SELECT 1 FROM imported WHERE id = ?", [import_id]).fetchone())

    def is_newest(self, import_id: str, kind: str, source: str) -> bool:
        """Return whether a configured source's content is the one that counts."""
        newest = self._connection.execute(
            "SELECT id FROM imported WHERE configured AND kind = ? AND source = ? ORDER BY sequence DESC LIMIT 1",
            [kind, source],
        ).fetchone()
        return newest is not None and newest[0] == import_id

    def watermark(self, source: str) -> datetime | None:
        """Return until when a live source was read."""
        found = self._connection.execute("SELECT max(until) FROM watermark WHERE source = ?", [source]).fetchone()
        return found[0] if found else None

    def watermarks(self) -> dict[str, datetime]:
        """Return until when each live source was read."""
        rows = self._connection.execute("SELECT source, max(until) FROM watermark GROUP BY source").fetchall()
        return dict(rows)

    def newest(self, source: str) -> datetime | None:
        """Return the time of a source's newest sample; None: it has none."""
        rows = self._connection.execute(
            "SELECT DISTINCT path FROM lake_part JOIN imported ON id = import_id WHERE source = ?"
            " AND day = (SELECT max(day) FROM lake_part JOIN imported ON id = import_id WHERE source = ?)",
            [source, source],
        ).fetchall()
        return lake.newest(self.folder / LAKE_NAME, [path for (path,) in rows])

    def holes(self, source: str) -> list[Interval]:
        """Return where a live source had stored nothing and is asked again, in ms."""
        rows = self._connection.execute('SELECT "start", "end" FROM hole WHERE source = ? ORDER BY ALL', [source])
        return rows.fetchall()

    def counted(self, source: str) -> list[tuple[int, int, int, int]]:
        """Return how many samples a live source's server said it has, slice by slice of the look-back."""
        rows = self._connection.execute(
            'SELECT "start", "end", asked, samples FROM counted WHERE source = ? ORDER BY ALL', [source]
        )
        return rows.fetchall()

    def follow(self, window: Window, at: datetime) -> int:
        """Take in a window of a live source with its watermark, whole or not at all; return its samples."""
        with store.transaction(self._connection):
            samples = 0 if window.entry is None else self._add(window.entry, at)
            con = self._connection
            if window.entry is not None and window.entry.batch.facts:
                asked = _asked(window.entry.batch) if window.entry.kind == "slurmrestd" else None
                fact_pruning.prune(con, window.source, window.entry.id, asked=asked)
            con.execute("DELETE FROM watermark WHERE source = ?", [window.source])
            con.execute("INSERT INTO watermark VALUES (?, ?)", [window.source, window.until])
            con.execute("DELETE FROM hole WHERE source = ?", [window.source])
            for start, end in window.holes:
                con.execute("INSERT INTO hole VALUES (?, ?, ?)", [window.source, start, end])
            con.execute("DELETE FROM counted WHERE source = ?", [window.source])
            for count in window.counted:
                con.execute("INSERT INTO counted VALUES (?, ?, ?, ?, ?)", [window.source, *count])
        return samples

    def unseen(self, samples: pl.DataFrame, source: str) -> pl.DataFrame:
        """Return those of a source's samples that no import of it holds."""
        if samples.is_empty():
            return samples
        times = samples["time"].dt.epoch("ms").sort()
        paths = self._connection.execute(
            "SELECT DISTINCT path FROM lake_part JOIN imported ON id = import_id"
            " WHERE source = ? AND day BETWEEN CAST(? AS DATE) AND CAST(? AS DATE) ORDER BY path",
            [source, from_ms(times[0]), from_ms(times[-1])],
        ).fetchall()
        folder = self.folder / LAKE_NAME
        stored = lake.between(folder, [path for (path,) in paths], samples.columns, times[0], times[-1] + 1)
        theirs = pl.concat([samples.clear(), stored], how="diagonal")
        ours = pl.concat([samples, theirs.clear()], how="diagonal").select(theirs.columns)
        return ours.join(theirs, on=ours.columns, how="anti", nulls_equal=True)

    def new_rows(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return those of the rows of ``record`` or ``accounting`` that no import holds."""
        if rows.is_empty():
            return rows
        columns = ", ".join(f'"{name}"' for name in rows.columns)
        with self._connection.cursor() as cursor:
            cursor.register("incoming", rows)
            found = cursor.sql(f"SELECT {columns} FROM incoming EXCEPT SELECT {columns} FROM {table}").pl()  # noqa: S608
        return conformed(found, rows.schema)

    def add(self, entry: Import, at: datetime) -> int:
        """Take in what a source yielded, whole or not at all; return how many samples that was.

        Args:
            at: now.

        Raises:
            SourceError: what is left of a large source can't be read.
        """
        with store.transaction(self._connection):
            return self._add(entry, at)

    def _add(self, entry: Import, at: datetime) -> int:
        tables = (t for t in chain([entry.batch.samples], entry.batch.more) if t.height)
        parts = [part for table in tables for part in lake.write(self.folder / LAKE_NAME, table)]
        con = self._connection
        for table in ("imported", "lake_part", "import_finding", "record", "accounting", "inventory"):
            con.execute(f"DELETE FROM {table} WHERE {'id' if table == 'imported' else 'import_id'} = ?", [entry.id])  # noqa: S608
        con.execute(
            "INSERT INTO imported SELECT ?, ?, ?, ?, coalesce(max(sequence), 0) + 1, ? FROM imported",
            [entry.id, entry.kind, entry.source, entry.configured, at],
        )
        for part in parts:
            con.execute(
                "INSERT INTO lake_part VALUES (?, ?, ?, ?, ?)",
                [entry.id, part.cluster, part.day, part.path, part.rows],
            )
        self._insert("import_finding", finding_table(dated(entry.batch)), entry.id)
        self._insert("record", _numbered(entry.batch.records, RECORD), entry.id)
        self._insert("accounting", entry.batch.accounting, entry.id)
        self._insert("inventory", entry.batch.inventory, entry.id)
        fact_store.replace(con, entry.id, entry.batch.facts)
        return sum(part.rows for part in parts)

    def _insert(self, table: str, rows: pl.DataFrame, import_id: str) -> None:
        if rows.height:
            self._connection.register("incoming", rows.with_columns(import_id=pl.lit(import_id)))
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608
            self._connection.unregister("incoming")

    def inputs(self) -> Inputs:
        """Return what all imports that count hold together."""
        return Inputs(
            samples=lake.read(self.folder / LAKE_NAME, self._paths()),
            records=self._table(_RECORDS, RECORD),
            accounting=self._table(
                _ACCOUNTING,
                ACCOUNTING,
            ),
            inventory=self._table(
                _INVENTORY,
                INVENTORY,
            ),
            facts=fact_store.read(self._connection, _ACTIVE_IMPORTS),
            some=lambda wanted: lake.read(self.folder / LAKE_NAME, self._paths(), wanted),
            stored=lake.Stored(self.folder / LAKE_NAME, tuple(self._paths())),
        )

    def _paths(self) -> list[str]:
        """Return the parts of the lake that count."""
        rows = self._connection.execute(
            f"SELECT DISTINCT path FROM lake_part WHERE import_id IN ({_ACTIVE_IMPORTS}) ORDER BY path"  # noqa: S608
        ).fetchall()
        return [path for (path,) in rows]

    def parts(self) -> list[Listed]:
        """Return all parts of the lake, each once for every import that has samples in it."""
        rows = self._connection.execute(
            "SELECT cluster, day, path, sample_rows, source FROM lake_part JOIN imported ON id = import_id ORDER BY ALL"
        ).fetchall()
        return [Listed(*row) for row in rows]

    def replace_parts(self, paths: Sequence[str], path: str) -> None:
        """Let one part of the lake stand for others, which hold the same samples.

        What knew only some of them doesn't know the one: a stage that hasn't read all of it must read it.
        """
        con = self._connection
        with store.transaction(con):
            for table in self._naming_parts():
                named = f"FROM {table} WHERE path IN (SELECT unnest(?))"
                ((known,),) = con.execute(f"SELECT count(DISTINCT path) {named}", [list(paths)]).fetchall()
                if known < len(paths):
                    con.execute(f"DELETE {named}", [list(paths)])
                else:
                    con.execute(f"UPDATE {table} SET path = ? WHERE path IN (SELECT unnest(?))", [path, list(paths)])  # noqa: S608

    def forget_parts(self, paths: Sequence[str], until: date) -> None:
        """List parts of the lake no more, all of them of days before `until`; what was made from them stays."""
        with store.transaction(self._connection):
            self._connection.execute("INSERT INTO pruned SELECT epoch_ms(?::DATE)", [until])
            for table in self._naming_parts():
                self._connection.execute(f"DELETE FROM {table} WHERE path IN (SELECT unnest(?))", [list(paths)])  # noqa: S608

    def _naming_parts(self) -> list[str]:
        """Return the tables that name parts of the lake."""
        rows = self._connection.execute(
            "SELECT table_name FROM duckdb_columns() WHERE column_name = 'path' AND NOT internal ORDER BY table_name"
        ).fetchall()
        return [name for (name,) in rows]

    def _table(self, query: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        rows: pl.DataFrame = self._connection.sql(query).pl()
        return rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items())

    def findings(self) -> list[Finding]:
        """Return what was found wrong while importing what counts."""
        return findings_of(
            self._connection.sql(
                f"SELECT * EXCLUDE (import_id) FROM import_finding WHERE import_id IN ({_ACTIVE_IMPORTS}) ORDER BY ALL"  # noqa: S608
            ).pl()
        )

    def memory(self, made_by: str) -> Memory | None:
        """Return what the last pass left for the next one; None: it was made by another program or configuration.

        Args:
            made_by: the configuration and the window.
        """
        return memory.recall(self._connection, self.folder / LAKE_NAME, self._paths(), f"{STAGES}:{made_by}")

    def store_metered(
        self,
        metered: Metered,
        remade: Remade,
        *,
        made_from: str,
        made_by: str,
        at: datetime,
        findings: Sequence[Finding],
    ) -> None:
        """Replace leases, usage and outages by what was just metered.

        Args:
            remade: what of it was made anew.
            made_from: names the imports and the configuration that it was made from.
            made_by: as `memory` takes it.
        """
        con = self._connection
        with store.transaction(con):
            for name, rows in (
                ("lease", metered.leases),
                ("outage", metered.outages),
                ("finding", finding_table(findings)),
                *metered.state.items(),
            ):
                con.register("incoming", rows)
                con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")  # noqa: S608
                con.unregister("incoming")
            memory.remember(con, remade, metered.usage, self._paths(), f"{STAGES}:{made_by}")
            con.execute(
                "CREATE OR REPLACE TABLE metered_from AS SELECT ?::VARCHAR AS made_from, ?::TIMESTAMPTZ AS made_at,"
                " ?::BIGINT AS span_start, ?::BIGINT AS span_end",
                [made_from, at, *(metered.span or (None, None))],
            )

    def analyse(self, metered: Metered) -> None:
        """Analyse the hours that changed since they were analysed last; `metered` reads the result."""
        refresh(self._connection, self.folder / LAKE_NAME, self._paths(), metered.usage, metered.leases)

    def made_from(self) -> str | None:
        """Return what the stages were last made from."""
        try:
            found = self._connection.execute("SELECT made_from FROM metered_from").fetchone()
        except duckdb.CatalogException:
            return None
        return found[0] if found else None

    def basis(self, config_hash: str) -> str:
        """Return a name of what the stages are made from: the imports that count, a configuration, this program."""
        rows = self._connection.execute(f"{_ACTIVE_IMPORTS} ORDER BY id").fetchall()
        imports = hashlib.sha256(",".join(row[0] for row in rows).encode()).hexdigest()
        return f"{STAGES}:{config_hash}:{imports}"

    def metered(self) -> Metered | None:
        """Return the stages as last stored."""
        return read_metered(self._connection)


def read_metered(connection: duckdb.DuckDBPyConnection) -> Metered | None:
    """Return leases, usage, outages and findings from a ledger or a published file; None: never made."""
    try:
        found = connection.execute("SELECT span_start, span_end FROM metered_from").fetchall()
    except duckdb.CatalogException:
        return None
    span: Interval | None = found[0] if found and found[0][0] is not None else None
    state = {**fleet_state.read(connection), import_log.TABLE: import_log.import_log(connection)}
    return Metered(
        leases=_typed(connection, "lease", LEASE),
        usage=usage_order(_typed(connection, "usage", USAGE)),
        outages=_typed(connection, "outage", OUTAGE),
        findings=findings_of(_typed(connection, "finding", FINDING).sort(pl.all())),
        span=span,
        analysis=overruled(read_analysis(connection), state["training"]),
        state=state,
    )


def _typed(connection: duckdb.DuckDBPyConnection, table: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    rows: pl.DataFrame = connection.sql(f"SELECT * FROM {table}").pl()  # noqa: S608
    if not {*schema} <= {*rows.columns}:
        raise LedgerError("the ledger was written by an older release; run `gpuledger run --once` to make it anew")
    return conformed(rows, schema)


def _asked(batch: Batch) -> datetime | None:
    """When a scheduler gave the answers in a batch."""
    times = [table["observed"].max() for table in batch.facts.values() if "observed" in table.columns]
    return max((time for time in times if isinstance(time, datetime)), default=None)


def _numbered(rows: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Number equal rows of one import: two equal lines of one file are two, of two files one."""
    return rows.with_columns(nth=pl.int_range(pl.len()).over(list(schema))) if rows.height else rows


@contextmanager
def open_ledger(folder: Path, purpose: str, *, wait_s: float = store.LOCK_WAIT_S) -> Iterator[Ledger]:
    """Hold and open the ledger in a folder; it is made where there is none.

    Raises:
        LedgerBusy: another process holds it.
        LedgerError: it can't be read or written.
    """
    path = folder / LEDGER_NAME
    with store.held(folder, purpose, wait_s=wait_s):
        store.make(path)
        with store.opened(path, read_only=False) as connection:
            yield Ledger(folder, connection)
