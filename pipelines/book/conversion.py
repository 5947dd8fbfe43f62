"""A statement in the tenant's own currency, by one stamped rate.

The total is converted and rounded once; lines are rounded so that they add up to it, and parts so that they add up to
their line. The ledger's sums stay in the ledger's currency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from exporter.errors import ConfigError
from pipelines.book.document import Line, LinePart, Past, Share, Spent, Stamp, Statement
from pipelines.config import Config, Exchange
from pipelines.money import apportion, plain, round_money


def exchange_of(config: Config, tenant: str, end: datetime) -> Exchange | None:
    """Return the rate that a tenant's statement of a period takes; None: it is in the ledger's currency.

    Args:
        end: of the period; the rate is the one that holds in its last instant.

    Raises:
        ConfigError: no rate of its currency holds then.
    """
    settings = next((t for t in config.tenants if t.id == tenant), None)
    if settings is None or settings.currency in {None, config.currency}:
        return None
    last = end - timedelta(microseconds=1)
    for entry in config.exchange_in_force:
        if entry.currency == settings.currency and entry.holds(last):
            return entry
    at = last.astimezone(config.timezone)
    raise ConfigError(
        f"{config.path.name}: exchange",
        f"no rate of {settings.currency} for {tenant} at {at:%Y-%m-%d}",
        "add the rate that holds then",
    )


def in_own_currency(statement: Statement, config: Config) -> Statement:
    """Return the statement in its tenant's currency.

    Raises:
        ConfigError: no rate of its currency holds in the last instant of its period.
    """
    entry = exchange_of(config, statement.tenant.id, statement.period.to)
    return statement if entry is None else converted(statement, entry)


def converted(statement: Statement, entry: Exchange) -> Statement:
    """Return the statement by a rate of exchange."""
    to = _Conversion(entry)
    total = to.rounded(statement.total)
    lines = to.parts(total, [line.amount for line in statement.lines])
    held_cost = to.rounded(statement.held_cost)
    waste = None if statement.waste is None else to.rounded(statement.waste)
    return statement.model_copy(
        update={
            "currency": entry.currency,
            "exchange": Stamp(
                currency=statement.currency,
                total=statement.total,
                rate=format(entry.rate, "f"),
                since=entry.from_,
                source=entry.source,
            ),
            "lines": [to.line(line, amount) for line, amount in zip(statement.lines, lines, strict=True)],
            "total": plain(total),
            "held_cost": plain(held_cost),
            "waste": None if waste is None else plain(waste),
            "classes": to.shares(statement.classes, held_cost, waste),
            "models": to.shares(statement.models, held_cost, waste),
            "workloads": to.shares(statement.workloads, held_cost, waste),
            "budget": to.budget(statement.budget),
            "notes": [*statement.notes, _note(statement, entry)],
            "trend": [to.past(past) for past in statement.trend],
        }
    )


def _note(statement: Statement, entry: Exchange) -> str:
    source = f" ({entry.source})" if entry.source else ""
    return (
        f"The total is {statement.currency} {statement.total} × {format(entry.rate, 'f')}{source}, rounded once; "
        "lines add up to it. Earlier months are shown at the same rate."
    )


class _Conversion:
    def __init__(self, entry: Exchange) -> None:
        self._rate, self._currency = Fraction(entry.rate), entry.currency

    def rounded(self, amount: str | Decimal) -> Decimal:
        return round_money(Fraction(amount) * self._rate, self._currency)

    def parts(self, total: Decimal, amounts: Sequence[str]) -> list[Decimal]:
        """Return amounts that add up to a converted total."""
        exact: Mapping[int, Fraction] = {i: Fraction(a) * self._rate for i, a in enumerate(amounts)}
        return list(apportion(total, exact, self._currency).values()) if exact else []

    def line(self, line: Line, amount: Decimal) -> Line:
        amounts = self.parts(amount, [part.amount for part in line.parts]) if line.parts else []
        parts = [self._part(part, part_amount) for part, part_amount in zip(line.parts, amounts, strict=True)]
        return line.model_copy(update={"amount": plain(amount), "parts": parts})

    def _part(self, part: LinePart, amount: Decimal) -> LinePart:
        rate = None if part.rate is None else self._price(part.rate)
        return part.model_copy(update={"amount": plain(amount), "rate": rate})

    def _price(self, rate: str) -> str:
        """Return a price to the millionth, without trailing zeros beyond the cents."""
        exact = Fraction(rate) * self._rate
        whole, _, digits = f"{Decimal(round(exact * 1_000_000)) / 1_000_000:.6f}".partition(".")
        return f"{whole}.{digits.rstrip('0').ljust(2, '0')}"

    def shares(self, shares: Sequence[Share], cost: Decimal, waste: Decimal | None) -> list[Share]:
        costs = self.parts(cost, [share.cost for share in shares])
        known = [i for i, share in enumerate(shares) if share.waste is not None]
        wastes = self.parts(waste or Decimal(0), [shares[i].waste or "0" for i in known])
        of_share = dict(zip(known, wastes, strict=True))
        found = []
        for i, (share, amount) in enumerate(zip(shares, costs, strict=True)):
            update: dict[str, Any] = {"cost": plain(amount)}
            if i in of_share:
                update["waste"] = plain(of_share[i])
            found.append(share.model_copy(update=update))
        return found

    def budget(self, budget: Spent | None) -> Spent | None:
        if budget is None or budget.monthly is None:
            return budget
        return budget.model_copy(update={"monthly": plain(self.rounded(budget.monthly))})

    def past(self, past: Past) -> Past:
        return past.model_copy(update={"total": plain(self.rounded(past.total))})
