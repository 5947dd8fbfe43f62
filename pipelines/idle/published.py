"""What `gpuledger idle` lists, as tables that readers open: what to reclaim, month by month."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import polars as pl

from pipelines.idle.found import Idle

RECLAIM: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "cause": pl.String(),  # of idle.causes
    "subject": pl.String(),  # what has to move: the node, the reservation or the workload
    "cluster": pl.String(),
    "tenant": pl.String(),  # who pays for it, or whom its node is dedicated to; null: nobody in particular
    "user": pl.String(),
    "node": pl.String(),
    "model": pl.String(),
    "gpus": pl.Int64(),  # it is about now, else at most; null: not told
    "gpu_hours": pl.Float64(),
    "worth": pl.Decimal(38, 4),  # null: no price is known
    "first": pl.Int64(),  # ms, within the month
    "last": pl.Int64(),
    "since": pl.Int64(),  # of what goes on at the month's end; null: it is over
    "evidence": pl.String(),  # JSON: what it was told by, by name
}
"""grain: month × cause × subject (of a workload: × tenant)."""

IDLE_PERIOD: Final[dict[str, pl.DataType]] = {"period": pl.String(), "held_known": pl.Boolean()}
"""grain: month; whether anything of what was held was observed. Without that nobody knows of held and idle."""

_OF_OTHERS: Final = "held_by"  # workloads of a node, whoever pays for them


def idle_tables(months: Iterable[tuple[str, Idle]]) -> dict[str, pl.DataFrame]:
    """Return RECLAIM, the most money of a month first, and IDLE_PERIOD."""
    rows, known = [], []
    for month, idle in months:
        known.append((month, idle.known))
        rows += [
            (
                month, i.cause, i.subject, i.cluster, i.owner, i.user, i.node, i.model, i.gpus or None,
                round(float(i.gpu_hours), 6), i.money, i.first, i.last, i.since, json.dumps(i.evidence),
            )
            for i in idle.items
        ]  # fmt: skip
    return {
        "reclaim": pl.DataFrame(rows, schema=RECLAIM, orient="row"),
        "idle_period": pl.DataFrame(known, schema=IDLE_PERIOD, orient="row"),
    }


def of_tenant(tenant: str, fleet: pl.DataFrame) -> pl.DataFrame:
    """Return a tenant's rows of RECLAIM, without the names of those beside it."""
    own = fleet.filter(pl.col("tenant") == tenant)
    told = [{k: v for k, v in json.loads(text).items() if k != _OF_OTHERS} for text in own["evidence"]]
    return own.with_columns(evidence=pl.Series([json.dumps(t) for t in told], dtype=pl.String))
