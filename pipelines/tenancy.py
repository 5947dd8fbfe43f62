"""Who pays for a lease, and from when: the first matching selector, as selectors come and go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.config import Config, Tenant
from pipelines.instants import from_ms, to_ms
from pipelines.periods import local_midnight
from pipelines.selectors import LIST_KEYS, SELECTOR_KEYS, matches

TENANCY: Final[dict[str, pl.DataType]] = {
    "lease": pl.String(),
    "from": pl.Int64(),  # ms
    "to": pl.Int64(),
    "tenant": pl.String(),  # null: unattributed
    "spot": pl.Boolean(),
}
"""One row per lease and stretch of time with one tenant."""


def tenancy_edges(config: Config) -> list[datetime]:
    """Return the times at which selectors or tenants begin or end."""
    selectors = [s for tenant in config.tenants for s in tenant.match] + list(config.spot)
    dated = [t for s in selectors for t in (s.from_, s.to) if t is not None]
    retired = [local_midnight(t.retired, config.timezone) for t in config.tenants if t.retired]
    return sorted({*dated, *retired})


def tenancy(leases: pl.DataFrame, config: Config) -> pl.DataFrame:
    """Return TENANCY of `leases` (metering.LEASE)."""
    edges = [to_ms(t) for t in tenancy_edges(config)]
    labels = ["tenant", *SELECTOR_KEYS, *LIST_KEYS]
    # Many leases have the same labels: who pays is asked once for each set of them between two edges.
    kinds = leases.select(labels).unique(maintain_order=True).with_row_index("kind")
    stretches = (
        leases.select("id", "start", "end", *labels)
        .join(kinds, on=labels, how="left", nulls_equal=True, maintain_order="left")
        .select(
            "kind",
            pl.col("id").alias("lease"),
            "start",
            "end",
            first=pl.lit(pl.Series(np.searchsorted(edges, leases["start"].to_numpy(), side="right"), dtype=pl.Int64)),
            last=pl.lit(pl.Series(np.searchsorted(edges, leases["end"].to_numpy(), side="left"), dtype=pl.Int64)),
        )
        .with_columns(nth=pl.int_ranges("first", pl.max_horizontal("first", "last") + 1))
        .explode("nth")
        .with_columns(
            pl.max_horizontal("start", _edge(edges, pl.col("nth") - 1)).alias("from"),
            pl.min_horizontal("end", _edge(edges, pl.col("nth"))).alias("to"),
        )
    )
    asked = stretches.group_by("kind", "nth").agg(pl.col("from").min()).join(kinds, on="kind")
    ids = {tenant.id for tenant in config.tenants}
    answers = [
        (row["kind"], row["nth"], *_answer(config, ids, row, from_ms(row["from"])))
        for row in asked.iter_rows(named=True)
    ]
    schema = {"kind": kinds.schema["kind"], "nth": pl.Int64(), "tenant": pl.String(), "spot": pl.Boolean()}
    return stretches.join(
        pl.DataFrame(answers, schema=schema, orient="row"), on=["kind", "nth"], how="left", maintain_order="left"
    ).select(list(TENANCY))


def _edge(edges: list[int], nth: pl.Expr) -> pl.Expr:
    """Return the edge of a number; null before the first and from the last on."""
    return pl.when(nth.is_between(0, len(edges) - 1)).then(
        pl.lit(pl.Series(edges or [0], dtype=pl.Int64)).gather(nth.clip(0, max(len(edges) - 1, 0)))
    )


def _answer(config: Config, ids: set[str], row: dict[str, Any], at: datetime) -> tuple[str | None, bool]:
    """Return who pays for leases with these labels at a time, and whether they are spot."""
    given = row["tenant"]
    named = {key: row[key] for key in (*SELECTOR_KEYS, *LIST_KEYS)}
    tenant = (given if given in ids else None) if given else _tenant(config, named, at)
    return tenant, any(matches(selector, named, at) for selector in config.spot)


def _tenant(config: Config, labels: dict[str, str | None], at: datetime) -> str | None:
    for tenant in _in_use(config, at):
        if any(matches(selector, labels, at) for selector in tenant.match):
            return tenant.id
    return None


def _in_use(config: Config, at: datetime) -> Iterable[Tenant]:
    return (t for t in config.tenants if t.retired is None or at < local_midnight(t.retired, config.timezone))
