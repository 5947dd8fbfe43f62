"""What is known of the fleet beside who held what: its cards over time, their states, bookings, limits, tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb
import polars as pl

from pipelines.billing_hours import BILLED, billed_table
from pipelines.facts import ACCEPTANCE, BOOKING, LIMIT, RUN_NAME, Facts
from pipelines.fleet import Fleet
from pipelines.health import DEVICE_STATE
from pipelines.tables import conformed
from pipelines.training import PROGRESS, progress

CARD: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "model": pl.String(),
    "owner": pl.String(),  # tenant of a dedicated node
    "slots": pl.Int64(),  # time slices; null: given out whole
    "seen": pl.Boolean(),  # whether a sample shows it
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
}
"""grain: card × stretch of time in which it is capacity."""

TABLES: Final[Mapping[str, dict[str, pl.DataType]]] = {
    "card": CARD,
    "device_state": DEVICE_STATE,
    "booking": BOOKING,
    "quota_limit": LIMIT,
    "acceptance": ACCEPTANCE,
    "training": PROGRESS,
    "run_name": RUN_NAME,
    "slurm_billing": BILLED,
}


def fleet_state(fleet: Fleet, states: pl.DataFrame, facts: Facts, records: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return `TABLES`.

    Args:
        fleet: with `exists` set of every card.
        states: DEVICE_STATE.
        records: ``tables.RECORD``, which says what labelled jobs are called.
    """
    return {
        "card": cards(fleet),
        "device_state": states,
        **{name: facts[name] for name in ("booking", "quota_limit", "acceptance", "run_name")},
        "slurm_billing": billed_table(facts),
        "training": progress(facts["training"], records),
    }


def cards(fleet: Fleet) -> pl.DataFrame:
    """Return CARD."""
    rows = [
        (
            card.cluster, card.node, card.device, card.model, fleet.owner_at(card.dev, start),
            fleet.slots_at(card.dev, start), card.dev in fleet.hulls, start, end,
        )
        for card in fleet.cards()
        for start, end in card.exists
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=CARD, orient="row").sort("cluster", "node", "device", "start")


def of_tenant(state: Mapping[str, pl.DataFrame], leases: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return what a tenant sees of it: trouble on cards while it held them, and what its workloads say of themselves.

    Args:
        leases: the tenant's, as metering.LEASE.
    """
    held = leases.group_by("cluster", "device").agg(since=pl.col("start").min(), until=pl.col("end").max())
    states = state.get("device_state", pl.DataFrame(schema=DEVICE_STATE))
    mine = states.join(held, on=["cluster", "device"], nulls_equal=True, maintain_order="left")
    overlapping = (pl.col("start") < pl.col("until")) & (pl.col("end").is_null() | (pl.col("end") > pl.col("since")))
    return {"device_state": mine.filter(overlapping).drop("since", "until"), "training": _own_training(state, leases)}


def _own_training(state: Mapping[str, pl.DataFrame], leases: pl.DataFrame) -> pl.DataFrame:
    """Return what workloads said while the tenant paid for them, of those that change hands."""
    ran = leases.group_by("cluster", "workload").agg(since=pl.col("start").min(), until=pl.col("end").max())
    told = state.get("training", pl.DataFrame(schema=PROGRESS))
    mine = told.join(ran, on=["cluster", "workload"], nulls_equal=True, maintain_order="left")
    return mine.filter((pl.col("first") < pl.col("until")) & (pl.col("last") > pl.col("since"))).drop("since", "until")


def read(connection: duckdb.DuckDBPyConnection) -> dict[str, pl.DataFrame]:
    """Return `TABLES` from a ledger or a published file; empty where an older version wrote it."""
    there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    return {
        name: conformed(connection.sql(f"SELECT * FROM {name}").pl(), schema)  # noqa: S608
        if name in there
        else pl.DataFrame(schema=schema)
        for name, schema in TABLES.items()
    }
