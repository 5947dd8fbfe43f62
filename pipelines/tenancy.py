"""Who pays for a lease, and from when: the first matching selector, as selectors come and go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

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
    ids = {tenant.id for tenant in config.tenants}
    cache: dict[tuple[Any, ...], tuple[str | None, bool]] = {}
    rows = []
    keys = (*SELECTOR_KEYS, *LIST_KEYS)
    columns = ["id", "start", "end", "tenant", *keys]
    for lease_id, start, end, given, *labels in leases.select(columns).iter_rows():
        inner = [e for e in edges if start < e < end]
        for a, b in zip([start, *inner], [*inner, end], strict=True):
            key = (given, *labels, sum(e <= a for e in edges))
            if key not in cache:
                named = dict(zip(keys, labels, strict=True))
                at = from_ms(a)
                cache[key] = (
                    (given if given in ids else None) if given else _tenant(config, named, at),
                    any(matches(selector, named, at) for selector in config.spot),
                )
            rows.append((lease_id, a, b, *cache[key]))
    return pl.DataFrame(rows, schema=TENANCY, orient="row")


def _tenant(config: Config, labels: dict[str, str | None], at: datetime) -> str | None:
    for tenant in _in_use(config, at):
        if any(matches(selector, labels, at) for selector in tenant.match):
            return tenant.id
    return None


def _in_use(config: Config, at: datetime) -> Iterable[Tenant]:
    return (t for t in config.tenants if t.retired is None or at < local_midnight(t.retired, config.timezone))
