"""Booking by hand: a credit or a debit, a closed month at other prices, a reversal. All lands in the open month."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from exporter.errors import UsageError, WorkError
from pipelines import publish
from pipelines.book import journal, price_walk
from pipelines.book.closing import up_to_date
from pipelines.book.entries import Entry
from pipelines.book.price_walk import Side
from pipelines.book.reckoning import Reckoning
from pipelines.book.shelf import FOLDER, ClosedBook, part_of, period_of, shelf, unchanged
from pipelines.book.whatif import WhatIf, compared, metering_that_differs, rated_by
from pipelines.config import Config
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered
from pipelines.money import format_money, minor_unit, round_money
from pipelines.periods import parse_period
from pipelines.rating import rate
from pipelines.report import LINES
from pipelines.statement import make_report, within_of


def credit(
    config: Config, tenant: str, amount: Decimal, *, about: str, reason: str, now: datetime, by: str
) -> list[Entry]:
    """Book a credit (a positive amount, taken off) or a debit (a negative one) for a tenant in the open month.

    Args:
        about: the period that it is for; a disputed one may be closed long since.

    Raises:
        UsageError: no such tenant or period, no amount, finer than the currency's minor unit, or no reason.
        WorkError: nothing is open, or the ledger is held by another process.
    """
    if tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"{tenant}: the configuration has no such tenant; see `gpuledger check`")
    if not amount.is_finite() or not amount or round_money(amount, config.currency) != amount:
        digits = minor_unit(config.currency)
        raise UsageError(f"{amount}: write an amount in {config.currency} with at most {digits} decimals, not 0")
    if not reason.strip():
        raise UsageError("--reason is missing: the book keeps why")
    parse_period(about, config.timezone)
    with open_ledger(config.ledger, "gpuledger adjust") as ledger:
        reckoning, open_month = _opened(ledger, config, now)
        before = journal.journal(reckoning.books)
        entry = Entry(
            id=journal.next_id(before, open_month),
            period=open_month,
            charge_period=about,
            tenant=tenant,
            kind="credit" if amount > 0 else "debit",
            charge="",
            amount=-amount,
            reason=reason,
        )
        _book(ledger, config, reckoning, [entry], now=now, by=by)
    return [entry]


def reverse(config: Config, entry_id: str, *, reason: str, now: datetime, by: str) -> list[Entry]:
    """Negate an entry that was booked by hand, once, in the open month.

    Raises:
        UsageError: no such entry, or it was reversed already.
        WorkError: the ledger is held by another process.
    """
    with open_ledger(config.ledger, "gpuledger adjust") as ledger:
        reckoning, open_month = _opened(ledger, config, now)
        before = journal.journal(reckoning.books)
        found = next((e for e in before if e.id == entry_id), None)
        if found is None:
            raise UsageError(f"{entry_id}: nothing was booked by hand under this id; see `gpuledger adjust --list`")
        if any(e.reverses == entry_id for e in before):
            raise UsageError(f"{entry_id}: was reversed already")
        entry = replace(
            found,
            id=journal.next_id(before, open_month),
            period=open_month,
            kind="reversal",
            amount=-found.amount,
            gpu_hours=None if found.gpu_hours is None else -found.gpu_hours,
            reason=reason,
            reverses=entry_id,
        )
        _book(ledger, config, reckoning, [entry], now=now, by=by)
    return [entry]


def repriced(config: Config, prices: Config, period: str) -> WhatIf:
    """Return what a closed month would come to under other prices, less what it came to with all its reprices.

    Raises:
        UsageError: the month isn't closed, or the other configuration meters otherwise.
        LedgerError: the book was changed.
    """
    book = _closed(config, period)
    return _Repricing(config, prices, book, publish.published_fleet(config.ledger)[0]).difference()


def reprice(config: Config, prices: Config, period: str, *, reason: str, now: datetime, by: str) -> list[Entry]:
    """Book that difference in the open month: one entry per tenant and kind of charge; none where there is none.

    Raises:
        UsageError, WorkError: as `repriced`, or the ledger is held by another process.
    """
    if not reason.strip():
        raise UsageError("--reason is missing: the book keeps why")
    with open_ledger(config.ledger, "gpuledger adjust --reprice") as ledger:
        reckoning, open_month = _opened(ledger, config, now)
        repricing = _Repricing(config, prices, _closed(config, period), reckoning.metered)
        found = repricing.difference()
        before = journal.journal(reckoning.books)
        entries: list[Entry] = []
        for tenant in found.tenants:
            for charge in LINES:
                amount = Decimal(getattr(tenant.difference, charge))
                if amount:
                    entries.append(
                        Entry(
                            id=journal.next_id([*before, *entries], open_month),
                            period=open_month,
                            charge_period=period,
                            tenant=tenant.tenant,
                            kind="reprice",
                            charge=charge,
                            amount=amount,
                            reason=reason,
                        )
                    )
        if entries:
            note = {"prices": prices.config_hash, "walks": repricing.walks(entries)}
            _book(ledger, config, reckoning, entries, now=now, by=by, note=note)
    return entries


def booked(config: Config) -> list[Entry]:
    """Return all that was booked by hand.

    Raises:
        LedgerError: the journal was changed.
    """
    return journal.journal(config.ledger / FOLDER)


def described(entry: Entry, currency: str) -> str:
    """Return an entry on one line."""
    amount = format_money(entry.amount, currency)
    return f"{entry.id}  {entry.tenant}  {amount}  {entry.described()}, about {entry.charge_period}"


class _Repricing:
    """A closed month at other prices, with what came late for it: that was booked at the prices of then.

    Args:
        known: all that is known now.

    Raises:
        UsageError: they are in another currency, or come with another way of metering.
    """

    def __init__(self, config: Config, prices: Config, book: ClosedBook, known: Metered) -> None:
        then = book.config
        _hold_alike(then, prices, book)
        self._book, self._prices, self._then = book, prices, then
        self._at_prices = _at_prices(then, prices)
        part = part_of(known, period_of(book))
        late = not metering_that_differs(then, config) and not unchanged(book, part)
        self._metered = part if late else book.metered()
        self._kept = rated_by(then, part, period_of(book), book.report.as_of) if late else book.report
        self._rated = rate(self._metered, self._at_prices, within_of(period_of(book)))
        self._report = make_report(
            self._rated, self._at_prices, period_of(book), self._rated.findings, self._kept.as_of
        )
        self._already: dict[tuple[str, str], Decimal] = {}
        for entry in journal.journal(config.ledger / FOLDER):
            if entry.charge_period == book.period and entry.charge and entry.kind in {"reprice", "reversal"}:
                key = (entry.tenant, entry.charge)
                self._already[key] = self._already.get(key, Decimal(0)) + entry.amount

    def difference(self) -> WhatIf:
        """Return what it comes to, less what it came to with all its reprices."""
        return _less(compared(self._kept, [self._report], self._prices, []), self._already)

    def walks(self, entries: Iterable[Entry]) -> dict[str, Any]:
        """Return by entry how its amount comes about, as JSON values."""
        rated_then = rate(self._metered, self._then, within_of(period_of(self._book)))
        then, now = Side(rated_then, self._kept, self._then), Side(self._rated, self._report, self._at_prices)
        return {
            e.id: price_walk.repriced(then, now, e.tenant, e.charge, e.amount, self._then.currency).model_dump()
            for e in entries
        }


def _hold_alike(then: Config, prices: Config, book: ClosedBook) -> None:
    if prices.currency != then.currency:
        raise UsageError(f"{prices.path.name}: amounts in {prices.currency} can't correct {then.currency}")
    changed = metering_that_differs(then, prices)
    if changed:
        raise UsageError(
            f"{prices.path.name}: {changed[0]} differs from what {book.period} was closed with; only prices may"
        )


def _at_prices(then: Config, prices: Config) -> Config:
    """Return the prices with the tenants of then: who held what was closed, and no later selector moves it."""
    agreed = {tenant.id: tenant for tenant in prices.tenants}
    kept = [
        tenant.model_copy(
            update={name: getattr(agreed[tenant.id], name) for name in ("quota", "discounts", "commitment")}
        )
        if tenant.id in agreed
        else tenant
        for tenant in then.tenants
    ]
    known = {tenant.id for tenant in kept}
    new = [tenant.model_copy(update={"match": ()}) for tenant in prices.tenants if tenant.id not in known]
    return prices.model_copy(update={"tenants": (*kept, *new), "spot": then.spot})


def _less(found: WhatIf, already: dict[tuple[str, str], Decimal]) -> WhatIf:
    """Take off what earlier reprices of the same month booked."""
    tenants = []
    for tenant in found.tenants:
        lines = {
            charge: Decimal(getattr(tenant.difference, charge)) - already.get((tenant.tenant, charge), Decimal(0))
            for charge in LINES
        }
        total = sum(lines.values(), Decimal(0))
        text = {name: format(amount or abs(amount), "f") for name, amount in {**lines, "total": total}.items()}
        difference = tenant.difference.model_copy(update=text)
        now = Decimal(tenant.then) - total
        tenants.append(tenant.model_copy(update={"difference": difference, "now": format(now, "f")}))
    billed = sum((Decimal(t.difference.total) for t in tenants), Decimal(0))
    cost = Decimal(found.fleet.cost)
    update = {"billed": format(billed, "f"), "unbilled": format(cost - billed, "f")}
    return found.model_copy(update={"tenants": tenants, "fleet": found.fleet.model_copy(update=update)})


def _closed(config: Config, period: str) -> ClosedBook:
    found = next((b for b in shelf(config.ledger / FOLDER) if b.period == period), None)
    if found is None:
        raise UsageError(f"{period}: isn't closed, so a change of its prices in gpuledger.yaml is all it takes")
    return found


def _opened(ledger: Ledger, config: Config, now: datetime) -> tuple[Reckoning, str]:
    publication = publish.current(config.ledger)
    reckoning = Reckoning(config, up_to_date(ledger, config), publication.as_of if publication else now)
    reckoning.hold_in_step()
    if reckoning.open_period is None:
        raise WorkError(f"{config.ledger}: holds nothing yet, so no month is open to book in")
    return reckoning, reckoning.open_period


def _book(
    ledger: Ledger,
    config: Config,
    reckoning: Reckoning,
    entries: list[Entry],
    *,
    now: datetime,
    by: str,
    note: dict[str, Any] | None = None,
) -> None:
    journal.book(reckoning.books, entries, at=now, by=by, note=note)
    publication = publish.current(config.ledger)
    as_of = publication.as_of if publication else now
    publish.publish(config, up_to_date(ledger, config), made_from=ledger.made_from() or "", as_of=as_of)
