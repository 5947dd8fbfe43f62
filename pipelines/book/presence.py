"""A tenant that has rows stays in the configuration: its statements, corrections and rates of then need it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from exporter.errors import ConfigError, LedgerError
from pipelines import store
from pipelines.book.shelf import FOLDER as BOOKS
from pipelines.book.shelf import shelf
from pipelines.config import Config
from pipelines.publish import FOLDER, last_published

_THERE: Final = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'tenant_period'"
_WITH_ROWS: Final = """
    SELECT tenant, max(period) FROM tenant_period
    WHERE allocated_gpu_hours > 0 OR reservation <> 0 OR total <> 0 GROUP BY tenant
"""
"""grain: tenant that held, had reserved or was charged anything, with the last month in which it did."""


def hold_tenants(config: Config) -> None:
    """Hold a configuration to the tenants that have rows, in open or in closed months.

    Raises:
        ConfigError: one isn't listed any more.
    """
    listed = {tenant.id for tenant in config.tenants}
    missing = {t: period for t, period in tenants_with_rows(config).items() if t not in listed}
    if missing:
        first, *others = sorted(missing)
        more = f" (nor {', '.join(others[:3])}{' …' if len(others) > 3 else ''}, with rows too)" if others else ""
        raise ConfigError(
            f"{config.path.name}: tenants",
            f"{first} isn't listed{more}, but has rows, the last in {missing[first]}",
            f"list {first} again, with `retired: DATE` if it is gone; to rename it, change its `name` and keep its id",
        )


def tenants_with_rows(config: Config) -> dict[str, str]:
    """Return the tenants that held, had reserved or were charged anything, with the last month in which they did."""
    found: dict[str, str] = {}
    for book in shelf(config.ledger / BOOKS):
        found |= dict.fromkeys(book.numbers, book.period)
    publication = last_published(config.ledger)
    path = None if publication is None else config.ledger / FOLDER / publication.fleet
    # What is damaged or was published by another release is published anew, and then looked at again.
    if path is not None and path.exists():
        with suppress(LedgerError), store.opened(path, read_only=True) as connection:
            if connection.execute(_THERE).fetchone() is not None:
                for tenant, period in connection.execute(_WITH_ROWS).fetchall():
                    found[tenant] = max(period, found.get(tenant, ""))
    return found
