"""Which reservation would have been cheapest for a tenant's own history: every size is rated, not estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from exporter.errors import UsageError
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.book.supposing import supposed_reservation, with_reservations
from pipelines.config import Config, Reservation
from pipelines.instants import HOUR_MS
from pipelines.metering import Metered
from pipelines.money import format_money, plain, round_money
from pipelines.periods import Period, parse_period
from pipelines.publish import published_fleet
from pipelines.rating import Charge, Rated, TenantUse, rate
from pipelines.report import Money, ReportPeriod
from pipelines.statement import within_of


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Part):
    """A reservation of so many GPUs, and what usage and reservations would have come to with it."""

    gpus: int
    cost: Money = Field(description="usage and reservations less credits; no shares of idle time, pools or commitments")


class Advice(_Part):
    """What would have been cheapest for one model: `gpus` 0 is no more than what there was."""

    model: str
    gpus: int
    cost_now: Money
    cost_then: Money
    saved: Money
    sizes: list[Size] = Field(description="those that were tried, ascending")


class Cheapest(_Part):
    """The cheapest reservation of each model that a tenant held, over one period."""

    tenant: str
    period: ReportPeriod
    currency: str
    models: list[Advice]

    def to_json(self) -> str:
        """Return it as JSON."""
        return self.model_dump_json(indent=2, by_alias=True)

    def __str__(self) -> str:
        lines = []
        for advice in self.models:
            what = f"reserve {advice.gpus}" if advice.gpus else "reserve no more"
            then, now = (
                format_money(Decimal(advice.cost_then), self.currency),
                format_money(Decimal(advice.cost_now), self.currency),
            )
            lines.append(f"{advice.model}: {what}: {then} in place of {now}, {advice.saved} saved")
        if not lines:
            return f"{self.tenant} held nothing outside reservations"
        lines.append("Usage and reservations less credits; `--reserve` says what the whole bill comes to.")
        return "\n".join(lines)


def cheapest(config: Config, tenant: str, period: str) -> Cheapest:
    """Return the reservations, for the whole of a period and beside those that there are, that cost least.

    Usage stays as it was: a reservation can't make a tenant hold more. Prices of sizes are by the rate card; what has
    no reserved price costs as on demand, and no reservation of it saves anything.

    Raises:
        UsageError: no such tenant or period.
        LedgerError: nothing was published yet.
    """
    if tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"{tenant}: the configuration has no such tenant; see `gpuledger check`")
    span = parse_period(period, config.timezone)
    metered, as_of = published_fleet(config.ledger)
    reckoned = Reckoning(config, metered, as_of).of(span)
    parts = [
        _Stretch(_own(piece, piece.metered_from(metered), tenant), piece.config, piece.period)
        for piece in reckoned.alone()
    ]
    models = sorted({c.model for c in _open(reckoned.rated, tenant) if c.model is not None})
    return Cheapest(
        tenant=tenant,
        period=reckoned.report.period,
        currency=reckoned.report.currency,
        models=[_advice(parts, tenant, model, span) for model in models],
    )


@dataclass(frozen=True)
class _Stretch:
    """What of a tenant's is rated by itself: a closed month by its own prices."""

    own: Metered
    config: Config
    period: Period

    def rated(self, supposed: Sequence[Reservation] = ()) -> Rated:
        """Rate it, with further reservations."""
        return rate(self.own, with_reservations(self.config, supposed), within_of(self.period))


def _open(rated: Rated, tenant: str) -> list[Charge]:
    """Return what a tenant holds outside reservations and could have reserved."""
    return [c for c in rated.charges if c.tenant == tenant and c.reservation is None and c.class_ != "spot"]


def _own(reckoned: Reckoned, metered: Metered, tenant: str) -> Metered:
    """Return a tenant's part of what was metered: nobody else's use changes what it owes for its own."""
    leases = {c.lease for c in reckoned.rated.charges if c.tenant == tenant}
    return Metered(
        metered.leases.filter(pl.col("id").is_in(leases)),
        metered.usage.filter(pl.col("lease").is_in(leases)),
        metered.outages.filter(pl.col("tenant") == tenant),
        [],
        metered.span,
    )


def _advice(parts: Sequence[_Stretch], tenant: str, model: str, span: Period) -> Advice:
    tried: dict[int, Fraction] = {}

    def cost(gpus: int) -> Fraction:
        if gpus not in tried:
            supposed = [supposed_reservation(tenant, model, gpus, span.start, span.end, None)] if gpus else []
            uses = [part.rated(supposed).tenants.get(tenant, TenantUse()) for part in parts]
            tried[gpus] = sum((use.usage + use.reservation - use.credit for use in uses), Fraction(0))
        return tried[gpus]

    held = [c for part in parts for c in _open(part.rated(), tenant) if c.model == model]
    levels = _levels(held, span)
    cost(0)
    if all(_is_convex(part.config) for part in parts):
        best = _worth_it(parts[-1].config, held, levels, model, span)
        while best and cost(best - 1) <= cost(best):
            best -= 1
        while cost(best + 1) < cost(best):
            best += 1
    else:
        most = max((ceil(gpus) for gpus, _ in levels), default=0)
        best = min(range(most + 1), key=lambda gpus: (cost(gpus), gpus))
    currency = parts[-1].config.currency
    now, then = round_money(cost(0), currency), round_money(cost(best), currency)
    return Advice(
        model=model,
        gpus=best,
        cost_now=plain(now),
        cost_then=plain(then),
        saved=plain(now - then),
        sizes=[Size(gpus=n, cost=plain(round_money(tried[n], currency))) for n in sorted(tried)],
    )


def _is_convex(config: Config) -> bool:
    """Whether each further GPU saves less than the one before: then the lowest is where neither neighbour is lower.

    A reservation may take just the hours that a volume tier makes dear or cheap, or those beyond a quota where they are
    cheaper.
    """
    return not any(entry.tiers or entry.price("overflow") < entry.on_demand for entry in config.rates)


def _levels(held: Sequence[Charge], span: Period) -> list[tuple[Fraction, int]]:
    """Return how many GPUs were held at once, and for how many ms, one stretch after the other."""
    changes: dict[int, Fraction] = {}
    for charge in held:
        changes[charge.start] = changes.get(charge.start, Fraction(0)) + charge.gpus
        changes[charge.end] = changes.get(charge.end, Fraction(0)) - charge.gpus
    levels: list[tuple[Fraction, int]] = []
    level, last = Fraction(0), within_of(span)[0]
    for at, change in sorted(changes.items()):
        levels.append((level, at - last))
        level, last = level + change, at
    return levels


def _worth_it(
    config: Config, held: Sequence[Charge], levels: Sequence[tuple[Fraction, int]], model: str, span: Period
) -> int:
    """Guess the size: the n-th GPU pays while the time in which n are held outweighs reserved ÷ on-demand price."""
    start, end = within_of(span)
    paid = sum((c.gpus * (c.end - c.start) * (c.rate or 0) for c in held), Fraction(0)) / HOUR_MS
    hours = sum((c.gpus * (c.end - c.start) for c in held), Fraction(0)) / HOUR_MS
    entry = next((r for r in config.rates_in_force if r.model == model or r.reserved is not None), None)
    if not paid or not hours or entry is None:
        return 0
    limit = Fraction(entry.price("reserved")) / (paid / hours)
    size = 0
    while sum(length for gpus, length in levels if gpus >= size + 1) > limit * (end - start):
        size += 1
    return size
