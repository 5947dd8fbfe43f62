"""Statements from the published ledger, in each format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from exporter.errors import UsageError
from pipelines import store
from pipelines.book.compose import make_statement, past_of
from pipelines.book.document import Past, Statement
from pipelines.book.presence import hold_tenants
from pipelines.book.reckoning import Reckoned, Reckoning, name
from pipelines.book.shelf import FOLDER as BOOKS
from pipelines.book.shelf import ClosedBook, shelf
from pipelines.book.summing import over_months
from pipelines.config import Config
from pipelines.periods import parse_period
from pipelines.publish import FOLDER, current, published_fleet, published_outlook

FORMATS: Final = ("pdf", "xlsx", "csv", "json")
TREND_MONTHS: Final = 6


@dataclass(frozen=True)
class Found:
    """A statement, and the book that it was closed in; None: it is a draft of an open period."""

    statement: Statement
    book: ClosedBook | None = None

    def rendered(self, format_: str, locale: str = "en") -> bytes:
        """Return it in one of FORMATS: the very bytes that were closed, where they were kept in that language."""
        kept = self.book.stored(self.statement.tenant.id, format_) if self.book and locale == "en" else None
        return rendered(self.statement, format_, locale) if kept is None else kept


def statement(config: Config, tenant: str, period: str) -> Found:
    """Return one tenant's statement of a local month, day or year.

    Raises:
        UsageError: no such tenant or period, or the tenant has nothing in it.
        LedgerError: nothing was published yet.
    """
    span = parse_period(period, config.timezone)
    for book in shelf(config.ledger / BOOKS):
        if book.period == period and tenant in book.numbers:
            return Found(book.statement(tenant), book)
    if tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"{tenant}: the configuration has no such tenant; see `gpuledger check`")
    hold_tenants(config)
    metered, as_of = published_fleet(config.ledger)
    reckoned = Reckoning(config, metered, as_of).of(span)
    if tenant not in _tenants(reckoned):
        raise UsageError(f"{tenant} has no usage, reservation, charge or budget in {period}; choose another period")
    if reckoned.pieces:
        parts = [_of_piece(piece, tenant) for piece in reckoned.pieces if tenant in _tenants(piece)]
        return Found(over_months(parts, tenant, reckoned.report, period))
    made = _made(reckoned, tenant, period, trends(config, period).get(tenant, []))
    outlook = published_outlook(config, span) if reckoned.closed is None else None
    return Found(made.model_copy(update={"outlook": None if outlook is None else outlook.of(tenant)}))


def _tenants(reckoned: Reckoned) -> set[str]:
    return {t.tenant for t in reckoned.report.tenants}


def _of_piece(piece: Reckoned, tenant: str) -> Statement:
    """Return a month's statement: the closed one, where it has one."""
    if piece.closed is not None and tenant in piece.closed.numbers:
        return piece.closed.statement(tenant)
    return _made(piece, tenant, name(piece.period, piece.config))


def _made(reckoned: Reckoned, tenant: str, label: str, trend: Sequence[Past] = ()) -> Statement:
    return make_statement(
        reckoned.rated,
        reckoned.report,
        reckoned.config,
        tenant,
        label=label,
        entries=[e for e in reckoned.entries if e.tenant == tenant],
        trend=trend,
    )


def rendered(statement: Statement, format_: str, locale: str = "en") -> bytes:
    """Return a statement in one of FORMATS; the same statement gives the same bytes.

    Args:
        locale: of pdf and xlsx; csv and json are for machines, and speak one language.

    Raises:
        UsageError: no such locale, or one for a format that has none.
    """
    if format_ in {"json", "csv"}:
        if locale != "en":
            raise UsageError(f"--locale {locale}: {format_} is for machines; choose pdf or xlsx")
        if format_ == "json":
            return statement.to_json().encode()
        from pipelines.book.statement_csv import to_csv

        return to_csv(statement)
    from pipelines.book.words import words_of

    words = words_of(locale)
    if format_ == "xlsx":
        from pipelines.book.statement_xlsx import to_xlsx

        return to_xlsx(statement, words)
    from pipelines.book.statement_pdf import to_pdf

    return to_pdf(statement, words)


def trends(config: Config, before: str) -> dict[str, list[Past]]:
    """Return each tenant's totals of the months before a month, the oldest first; none for other periods."""
    publication = current(config.ledger)
    if publication is None or len(before) != len("2026-10"):
        return {}
    with store.opened(config.ledger / FOLDER / publication.fleet, read_only=True) as connection:
        rows = connection.execute(
            """SELECT tenant, period, allocated_gpu_hours, total FROM tenant_period WHERE period < ?
            QUALIFY row_number() OVER (PARTITION BY tenant ORDER BY period DESC) <= ? ORDER BY tenant, period""",
            [before, TREND_MONTHS],
        ).fetchall()
    found: dict[str, list[tuple[str, float, Decimal]]] = {}
    for tenant, *row in rows:
        found.setdefault(tenant, []).append((row[0], row[1], row[2]))
    return {tenant: past_of(own, config.currency) for tenant, own in found.items()}
