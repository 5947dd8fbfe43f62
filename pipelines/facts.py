"""What schedulers and operators say beside who held what: reservations, quotas, accounts, health, tests.

Each is a table of its own. `observed` is when the scheduler was asked: of rows that say how things are, those of a
cluster's newest answer count; null: the row's own bounds say when it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from exporter.training_metrics import TRAINING_METRICS
from pipelines.tables import TIME

BOOKING: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "booking": pl.String(),  # its name in the scheduler; null: the answer named none, which ends those before it
    "accounts": pl.List(pl.String()),  # who may use it
    "users": pl.List(pl.String()),
    "partition": pl.String(),
    "nodes": pl.List(pl.String()),
    "model": pl.String(),
    "gpus": pl.Int64(),  # null: all of its nodes'
    "from": TIME,
    "to": TIME,
    "maintenance": pl.Boolean(),  # nobody can use what it takes
    "observed": TIME,
}
"""grain: reservation of a scheduler × GPU model."""

LIMIT: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "kind": pl.String(),  # slurm_qos | slurm_account | slurm_user | slurm_partition | namespace | kueue
    "name": pl.String(),
    "within": pl.String(),  # the account of a user, the cohort of a Kueue queue
    "model": pl.String(),  # null: of any model
    "gpus": pl.Float64(),  # at one time
    "used": pl.Float64(),
    "observed": TIME,
}
"""grain: quota of a scheduler × GPU model."""

ACCOUNT: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "account": pl.String(),
    "parent": pl.String(),
    "observed": TIME,
}
"""grain: Slurm account."""

NAMESPACE_LABEL: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "namespace": pl.String(),
    "label": pl.String(),
    "value": pl.String(),
    "observed": TIME,
}
"""grain: label of a Kubernetes namespace."""

HOLDING: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "labelled_as": pl.String(),  # the raw job id, or namespace/pod
    "start": TIME,  # of the run
    "node": pl.String(),
    "device": pl.String(),
    "observed": TIME,
}
"""grain: device that a scheduler says a run holds."""

NODE: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "model": pl.String(),
    "gpus": pl.Int64(),  # physical cards
    "devices": pl.List(pl.String()),  # their UUIDs; empty: unknown
    "slots": pl.Int64(),  # time slices per card; null: cards are given out whole
    "used": pl.Float64(),  # cards given out; null: the scheduler doesn't say
    "observed": TIME,
}
"""grain: node × GPU model, as its scheduler has it at a time."""

PARTITION: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "partition": pl.String(),
    "nodes": pl.List(pl.String()),
    "gpus": pl.Int64(),  # null: Slurm doesn't track them
    "billing_weights": pl.String(),
    "qos": pl.String(),
    "observed": TIME,
}
"""grain: partition."""

CONDITION: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "device": pl.String(),  # null: the whole node
    "state": pl.String(),  # ok | degraded | down | repair
    "reason": pl.String(),
    "source": pl.String(),  # slurm | kubernetes | calendar | device
    "from": TIME,  # null: at the latest when it was observed
    "to": TIME,  # null: still
    "observed": TIME,
}
"""grain: what is said of a node's or device's health, over [from, to)."""

BILLED_RUN: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),
    "labelled_as": pl.String(),  # the raw job id
    "slurm_account": pl.String(),
    "slurm_partition": pl.String(),
    "slurm_qos": pl.String(),
    "slurm_user": pl.String(),
    "start": TIME,
    "end": TIME,
    "ended": pl.Boolean(),  # False: `end` is only how far a running job had come when it was asked about
    "seconds": pl.Int64(),  # of these it ran: less than end - start where it was suspended
    "billing": pl.Int64(),  # Slurm's billing TRES: units per second
}
"""grain: run of a Slurm job, with GPUs or without, that bills."""

SUMMARY: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),
    "start": TIME,
    "gpus": pl.Int64(),  # that it speaks of
    "utilization": pl.Float64(),  # mean ratio over them and the run
    "memory_ratio": pl.Float64(),  # used of total, at its highest
    "source": pl.String(),
}
"""grain: run of a workload that somebody has summed up, for when its samples are gone."""

RUN_NAME: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),
    "name": pl.String(),  # as its owner called it: runs of one job have the same
}
"""grain: job × name."""

ACCEPTANCE: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "at": TIME,
    "node": pl.String(),
    "device": pl.String(),
    "test": pl.String(),
    "outcome": pl.String(),  # pass | warn | fail | skip
    "value": pl.Float64(),
    "unit": pl.String(),
    "detail": pl.String(),
    "source": pl.String(),  # dcgm | nccl
}
"""grain: result of an acceptance test × device (or node)."""

TRAINING: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "labelled_as": pl.String(),  # the raw job id, or namespace/pod
    "run": pl.String(),
    "rank": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "start": TIME,  # of the process: its totals count from there
    "at": TIME,
    **{m.key: pl.Float64() for m in TRAINING_METRICS if not m.key.endswith("_time_seconds")},  # totals and gauges
}
"""grain: rank's process × UTC hour (its last scrape), as `gpuledger.training` exposes it."""

FACTS: Final[Mapping[str, dict[str, pl.DataType]]] = {
    "booking": BOOKING,
    "quota_limit": LIMIT,
    "slurm_account": ACCOUNT,
    "namespace_label": NAMESPACE_LABEL,
    "holding": HOLDING,
    "slurm_partition": PARTITION,
    "scheduler_node": NODE,
    "condition": CONDITION,
    "summary": SUMMARY,
    "run_name": RUN_NAME,
    "slurm_billing": BILLED_RUN,
    "acceptance": ACCEPTANCE,
    "training": TRAINING,
}
"""Tables by their name in the ledger."""

STANDING: Final[Mapping[str, tuple[str, ...]]] = {
    "booking": ("cluster",),
    "quota_limit": ("cluster", "kind"),
    "slurm_account": ("cluster", "account"),
    "namespace_label": ("cluster", "namespace"),
    "slurm_partition": ("cluster",),
}
"""Tables that say how things are, and what an answer is about: the newest replaces the one before.

Accounts and namespaces that are gone keep what was last told of them: what they held is still somebody's.
"""
KEPT: Final = ("slurm_account", "namespace_label")
"""Of these, what an answer no longer names is not gone."""


@dataclass(frozen=True)
class Facts:
    """Rows of the tables of `FACTS` by name; a name left out has none."""

    tables: Mapping[str, pl.DataFrame]

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Return a table, empty where nothing was said."""
        return self.tables.get(name, pl.DataFrame(schema=FACTS[name]))


NOTHING: Final = Facts({})


def rows_of(name: str, rows: Iterable[Mapping[str, object]]) -> dict[str, pl.DataFrame]:
    """Return ``{name: table}`` of rows, or nothing where there are none."""
    table = pl.DataFrame([dict(row) for row in rows], schema=FACTS[name])
    return {name: table} if table.height else {}


def joined(several: Iterable[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Put tables of one name together."""
    found: dict[str, list[pl.DataFrame]] = {}
    for tables in several:
        for name, table in tables.items():
            found.setdefault(name, []).append(table)
    return {name: pl.concat(tables) for name, tables in found.items()}


def standing(tables: Mapping[str, pl.DataFrame]) -> Facts:
    """Return what counts of all that was ever said: how things are now, and what happened.

    Of `STANDING` tables the rows of the newest answer count: what it no longer names is no more. Equal rows are one.
    """
    counted = {}
    for name, table in tables.items():
        rows = table.unique(maintain_order=True)
        if name in STANDING:
            newest = pl.col("observed").max().over(STANDING[name])
            rows = rows.filter(pl.col("observed").is_null() & newest.is_null() | (pl.col("observed") == newest))
        if name == "booking":
            rows = rows.filter(pl.col("booking").is_not_null())
        counted[name] = rows
    return Facts(counted)
