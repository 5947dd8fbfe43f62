"""The same usage under another configuration, as a difference per tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from exporter.errors import UsageError
from pipelines.book.corrections import METERING
from pipelines.book.presence import hold_tenants
from pipelines.book.reckoning import Reckoning
from pipelines.book.supposing import parse_replacement, parse_reservation, with_fleet, with_reservations
from pipelines.config import Config
from pipelines.metering import Metered
from pipelines.money import plain, round_money
from pipelines.periods import Period, parse_period
from pipelines.publish import published_fleet
from pipelines.rating import rate
from pipelines.report import LINES, Charges, Money, Report, ReportPeriod
from pipelines.statement import make_report, within_of


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class TenantDifference(_Part):
    """One tenant: what it owes now, what it would owe, and the difference of each line."""

    tenant: str
    now: Money
    then: Money
    difference: Charges


class FleetDifference(_Part):
    """The fleet: cost, billed and unbilled, then less now."""

    cost: Money
    billed: Money
    unbilled: Money


class WhatIf(_Part):
    """A period under two configurations."""

    period: ReportPeriod
    currency: str
    config_hash: str
    other_config_hash: str
    tenants: list[TenantDifference]
    fleet: FleetDifference
    not_considered: list[str] = Field(description="sections that differ and can't be told from usage: they meter")

    def to_json(self) -> str:
        """Return it as JSON."""
        return self.model_dump_json(indent=2)


def whatif(
    config: Config, other: Config, period: str, *, fleet: Sequence[str] = (), reserve: Sequence[str] = ()
) -> WhatIf:
    """Return what a period would come to under another configuration, from what is published.

    A closed month is compared as it was closed, with its own usage. What was booked in the period stays as it is.

    Args:
        fleet: other cards, each as GLOB=MODEL[:SPEED].
        reserve: further reservations for the whole period, each as TENANT:MODEL:GPUS[:RATE].

    Raises:
        UsageError: no such period, another currency, or a supposition that is none.
        LedgerError: nothing was published yet.
    """
    if other.currency != config.currency:
        raise UsageError(f"{other.path.name}: amounts in {other.currency} can't be compared with {config.currency}")
    hold_tenants(config)
    span = parse_period(period, config.timezone)
    metered, as_of = published_fleet(config.ledger)
    reckoned = Reckoning(config, metered, as_of).of(span)
    replaced = [parse_replacement(text) for text in fleet]
    supposed = with_reservations(other, [parse_reservation(text, other, span) for text in reserve])
    thens = []
    for piece in reckoned.alone():
        usage = piece.metered_from(metered)
        thens.append(rated_by(supposed, with_fleet(usage, replaced) if fleet else usage, piece.period, as_of))
    differs = {name for piece in reckoned.alone() for name in metering_that_differs(piece.config, other)}
    return compared(reckoned.report, thens, other, [name for name in METERING if name in differs])


def rated_by(config: Config, metered: Metered, period: Period, as_of: datetime) -> Report:
    """Return a period's report under a configuration, without what was booked."""
    rated = rate(metered, config, within_of(period))
    return make_report(rated, config, period, rated.findings, as_of)


def metering_that_differs(config: Config, other: Config) -> list[str]:
    """Return the sections that meter, and differ."""
    return [name for name in METERING if getattr(config, name) != getattr(other, name)]


def compared(now: Report, then: Sequence[Report], other: Config, not_considered: Sequence[str]) -> WhatIf:
    """Return the differences, of every tenant that either side lists.

    Args:
        then: of consecutive parts of the period.
    """
    ours = {t.tenant: t.charges for t in now.tenants}
    theirs: dict[str, list[Charges]] = {}
    for row in (row for report in then for row in report.tenants):
        theirs.setdefault(row.tenant, []).append(row.charges)
    tenants = []
    for tenant in sorted({*ours, *theirs}):
        lines = {
            c: sum((_amount(of, c) for of in theirs.get(tenant, [])), Decimal(0)) - _amount(ours.get(tenant), c)
            for c in LINES
        }
        lines["adjustment"] = Decimal(0)
        lines["total"] = sum(lines.values(), Decimal(0))
        before = _amount(ours.get(tenant), "total")
        tenants.append(
            TenantDifference(
                tenant=tenant,
                now=_money(before, now.currency),
                then=_money(before + lines["total"], now.currency),
                difference=Charges(**{name: _money(amount, now.currency) for name, amount in lines.items()}),
            )
        )
    billed = sum((Decimal(t.difference.total) for t in tenants), Decimal(0))
    cost = sum((Decimal(report.fleet.cost) for report in then), Decimal(0)) - Decimal(now.fleet.cost)
    return WhatIf(
        period=now.period,
        currency=now.currency,
        config_hash=now.config_hash,
        other_config_hash=other.config_hash,
        tenants=tenants,
        fleet=FleetDifference(
            cost=_money(cost, now.currency),
            billed=_money(billed, now.currency),
            unbilled=_money(cost - billed, now.currency),
        ),
        not_considered=list(not_considered),
    )


def _amount(charges: Charges | None, name: str) -> Decimal:
    return Decimal(0) if charges is None else Decimal(getattr(charges, name))


def _money(amount: Decimal, currency: str) -> str:
    return plain(round_money(amount, currency))
