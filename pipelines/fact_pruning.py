"""What a live source has told before is not kept again: of answers that are alike, those that decide something.

A scheduler is asked every few minutes and says the same of most nodes each time. What the stages make of the facts
is the same before and after: see `facts.standing`, `listings.with_listings`, `health.spells`, `holdings.held_runs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import duckdb

from pipelines.facts import FACTS, KEPT, STANDING

_MINE: Final = "import_id IN (SELECT id FROM imported WHERE source = ?)"

_OUTDATED: Final = """
-- grain: row that a newer answer of the same source replaced
DELETE FROM fact_{name} WHERE {mine} AND observed < (
    SELECT max(newer.observed) FROM fact_{name} AS newer
    WHERE newer.{mine} AND {same}
)
"""

_REPEATED: Final = """
-- grain: row of what the newest import tells that the source has told before, at whatever time
DELETE FROM fact_{name} WHERE rowid IN (
    SELECT rowid FROM fact_{name}
    WHERE {mine} AND {key} IN (SELECT {key} FROM fact_{name} WHERE import_id = ?)
    QUALIFY row_number() OVER (PARTITION BY {columns} ORDER BY {order}) > 1
)
"""

_NODES: Final = f"""
-- grain: row of an answer about a cluster's nodes that says what the one before and the one after it say
WITH answer AS (
    SELECT cluster, observed,
        md5(string_agg(CAST(ROW(node, model, gpus, devices, slots) AS VARCHAR), chr(10)
            ORDER BY CAST(ROW(node, model, gpus, devices, slots) AS VARCHAR))) AS said
    FROM fact_scheduler_node WHERE observed IS NOT NULL GROUP BY ALL
),
between AS (
    SELECT cluster, observed FROM answer
    WINDOW times AS (PARTITION BY cluster ORDER BY observed)
    QUALIFY said = lag(said) OVER times AND said = lead(said) OVER times
)
DELETE FROM fact_scheduler_node WHERE {_MINE} AND rowid IN (
    SELECT listed.rowid FROM fact_scheduler_node AS listed JOIN between
    ON listed.cluster IS NOT DISTINCT FROM between.cluster AND listed.observed = between.observed
)
"""  # noqa: S608  this module's own constants

_CONDITIONS: Final = f"""
-- grain: answer about a node or card that says what the one before and the one after it say
DELETE FROM fact_condition WHERE {_MINE} AND rowid IN (
    SELECT rowid FROM fact_condition WHERE source IN ('slurm', 'kubernetes') AND observed IS NOT NULL
    WINDOW times AS (PARTITION BY cluster, node, device, source ORDER BY observed, "from")
    QUALIFY ROW(state, reason, "from", "to") IS NOT DISTINCT FROM lag(ROW(state, reason, "from", "to")) OVER times
        AND ROW(state, reason, "from", "to") IS NOT DISTINCT FROM lead(ROW(state, reason, "from", "to")) OVER times
        AND lag(observed) OVER times IS NOT NULL AND lead(observed) OVER times IS NOT NULL
)
"""  # noqa: S608

_TOLD_ONCE: Final = {"holding": "labelled_as", "summary": "workload", "run_name": "workload"}
"""Tables that say what happened, by what of: when it was heard of doesn't matter."""


def prune(connection: duckdb.DuckDBPyConnection, source: str, newest: str, *, asked: datetime | None = None) -> None:
    """Delete what a live source told and what decides nothing any more, within the caller's transaction.

    Args:
        newest: the import that was just added.
        asked: when the source was last asked for all that stands: what it didn't name then is no more, the last
            reservation too, after which there is no row to say so. None: it was asked for some.
    """
    for name, about in STANDING.items():
        if asked is not None and name not in KEPT:
            connection.execute(f"DELETE FROM fact_{name} WHERE {_MINE} AND observed < ?", [source, asked])  # noqa: S608
        same = " AND ".join(f"newer.{column} IS NOT DISTINCT FROM fact_{name}.{column}" for column in about)
        connection.execute(_OUTDATED.format(name=name, mine=_MINE, same=same), [source, source])
    for name, key in _TOLD_ONCE.items():
        columns = ", ".join(f'"{column}"' for column in FACTS[name] if column != "observed")
        order = "observed" if "observed" in FACTS[name] else "rowid"
        repeated = _REPEATED.format(name=name, mine=_MINE, key=key, columns=columns, order=order)
        connection.execute(repeated, [source, newest])
    # Of what is told of one run of a job the ended row counts, then the longer: as `billing_hours.billed_table` does.
    run, order = "cluster, labelled_as, start", 'ended DESC, "end" DESC, billing DESC'
    repeated = _REPEATED.format(name="slurm_billing", mine=_MINE, key="labelled_as", columns=run, order=order)
    connection.execute(repeated, [source, newest])
    connection.execute(_NODES, [source])
    connection.execute(_CONDITIONS, [source])
