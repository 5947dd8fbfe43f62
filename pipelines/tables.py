"""Schemas of the tidy tables that sources yield and the stages hand on.

Times are UTC. In tables that leave a source they are ``Datetime("ms", "UTC")``.
Text that is unknown is null, never "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

TIME: Final = pl.Datetime("ms", "UTC")

SAMPLE_LABELS: Final[dict[str, pl.DataType]] = {
    "time": TIME,
    "cluster": pl.String(),  # the source's `cluster`; "default" where it names none
    "node": pl.String(),  # host name
    "device": pl.String(),  # UUID of the card, "GPU-…"
    "instance": pl.String(),  # MIG GPU instance id ("7"); null: the whole card
    "profile": pl.String(),  # MIG profile of the instance ("1g.10gb")
    "model": pl.String(),
    "index": pl.String(),  # GPU index on its node
    "namespace": pl.String(),  # of the workload: exported_* labels before plain ones
    "pod": pl.String(),
    "container": pl.String(),
    "pod_uid": pl.String(),
    "job": pl.String(),  # Slurm job id (label hpc_job)
    "slice": pl.String(),  # time slice or MPS client of the device (label vgpu)
    "replica": pl.String(),  # of the Prometheus pair that recorded it
    "scrape_job": pl.String(),  # Prometheus's own label `job`
}
"""Label columns of the wide sample table; its grain is time × label set.

Beside them stands one Float64 column per catalogue metric present, named by ``Metric.key`` and in
base units, as measured: null where the scrape had no such series, NaN where the exporter sent
one of its "blank" codes. Nothing else is dropped or derived before reading.
"""

RECORD: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),  # "slurm" | "allocations"
    "cluster": pl.String(),
    "workload": pl.String(),  # job id as people see it ("12_3"), or the name in the allocations file
    "labelled_as": pl.String(),  # what labels on samples call it: the raw job id, or the workload's name
    "user": pl.String(),
    "tenant": pl.String(),  # where the source itself names it
    "class": pl.String(),  # reserved | on_demand | overflow | spot | down | repair, where the source names it
    "start": TIME,
    "end": TIME,  # null: still running, end unknown
    "ended": pl.Boolean(),  # False: `end` is only how far a running job had come when it was asked about
    "gpus": pl.String(),  # an exact decimal
    "device": pl.String(),  # UUID, or UUID/instance; null: unknown
    "model": pl.String(),  # model or Slurm gres type, as the source writes it
    "nodes": pl.List(pl.String()),  # host names, in the order of the source; empty: unknown
    "slurm_account": pl.String(),
    "slurm_partition": pl.String(),
    "slurm_qos": pl.String(),
    "slurm_user": pl.String(),
}
"""Scheduler records: one row per run of a workload and GPU model, [start, end)."""

ACCOUNTING: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "from": TIME,
    "to": TIME,
}
"""Where a scheduler's accounting speaks for a node even when no job ran on it."""

INVENTORY: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),  # null: any
    "node": pl.String(),
    "device": pl.String(),  # null: `gpus` cards of the node, not known by name
    "model": pl.String(),
    "gpus": pl.Int64(),
    "slots": pl.Int64(),  # time slices per GPU; null: unknown
    "owner": pl.String(),  # tenant of a dedicated node
    "from": TIME,
    "to": TIME,
}
"""What exists, seen or not, over [from, to); null bounds are open."""

FINDING_CODES: Final = (
    "invalid_sample",
    "bad_line",
    "counter_reset",
    "frozen_series",
    "contradicting_series",
    "duplicate_sample",
    "gap",
    "missing_device",
    "duplicate_device",
    "unlisted_device",
    "conflicting_owner",
    "unresolved_owner",
    "unknown_price",
    "gpus_not_tracked",
    "xid_event",
    "late_data",
    "summarised_use",
    "estimated_share",
)


@dataclass(frozen=True)
class Finding:
    """Something in the input that was repaired, dropped or left open, and is said aloud.

    Attributes:
        detail: what it is; the same text for all of a kind.
        subject: which device, workload or node it is about.
        start, end: when it was the case, [start, end) in ms; None: nobody knows.
    """

    code: str
    count: int
    detail: str
    subject: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass
class Batch:
    """What one source yielded. Tables may be empty, never missing."""

    samples: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SAMPLE_LABELS))
    records: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=RECORD))
    accounting: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ACCOUNTING))
    inventory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=INVENTORY))
    findings: list[Finding] = field(default_factory=list)
    more: Iterable[pl.DataFrame] = ()
    """Samples beyond `samples`, in tables of whole UTC days that are read as they are asked for, once."""
    facts: dict[str, pl.DataFrame] = field(default_factory=dict)  # tables of `pipelines.facts`, those that it has


def conformed(table: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a stored table in the columns of today: what an older version didn't write is null."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )
