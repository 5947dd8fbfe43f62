"""Statements from the published ledger, in each format."""

from __future__ import annotations

from typing import Final

from exporter.errors import UsageError
from pipelines import store
from pipelines.book.compose import make_statement, past_of
from pipelines.book.document import Past, Statement
from pipelines.config import Config
from pipelines.periods import parse_period
from pipelines.publish import FOLDER, current, published_fleet
from pipelines.rating import rate
from pipelines.statement import make_report, within_of

FORMATS: Final = ("pdf", "xlsx", "csv", "json")
TREND_MONTHS: Final = 6


def statement(config: Config, tenant: str, period: str) -> Statement:
    """Return one tenant's statement of a local month, day or year.

    Raises:
        UsageError: no such tenant or period, or the tenant has nothing in it.
        LedgerError: nothing was published yet.
    """
    if tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"{tenant}: the configuration has no such tenant; see `gpuledger check`")
    span = parse_period(period, config.timezone)
    metered, as_of = published_fleet(config.ledger)
    rated = rate(metered, config, within_of(span))
    report = make_report(rated, config, span, [*metered.findings, *rated.findings], as_of)
    if tenant not in {t.tenant for t in report.tenants}:
        raise UsageError(f"{tenant} has no usage, reservation, charge or budget in {period}; choose another period")
    return make_statement(rated, report, config, tenant, label=period, trend=trend(config, tenant, period))


def rendered(statement: Statement, format_: str) -> bytes:
    """Return a statement in one of FORMATS; the same statement gives the same bytes."""
    if format_ == "json":
        return statement.to_json().encode()
    if format_ == "csv":
        from pipelines.book.statement_csv import to_csv

        return to_csv(statement)
    if format_ == "xlsx":
        from pipelines.book.statement_xlsx import to_xlsx

        return to_xlsx(statement)
    from pipelines.book.statement_pdf import to_pdf

    return to_pdf(statement)


def trend(config: Config, tenant: str, before: str) -> list[Past]:
    """Return the tenant's totals of the months before a month, the oldest first; none for other periods."""
    publication = current(config.ledger)
    if publication is None or len(before) != len("2026-10"):
        return []
    with store.opened(config.ledger / FOLDER / publication.fleet, read_only=True) as connection:
        rows = connection.execute(
            "SELECT period, allocated_gpu_hours, total FROM tenant_period"
            " WHERE tenant = ? AND period < ? ORDER BY period DESC LIMIT ?",
            [tenant, before, TREND_MONTHS],
        ).fetchall()
    return past_of(reversed(rows), config.currency)
