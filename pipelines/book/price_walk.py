"""From a price back to its entry of the rate card, and from a reprice back to the entries of then and of now.

The walk of a reprice is kept in the journal with what it booked: the card that it was made by may change.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from pipelines.book.breakdown import UNKNOWN_MODEL, hours_of
from pipelines.config import Config, Rate, Reservation, speaks_for
from pipelines.contract import Contract, Months
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.money import largest_remainder, plain, round_money
from pipelines.rated import Rated, TenantUse
from pipelines.rates import RateCard
from pipelines.report import Hours, Money, Report

ZERO: Final = Fraction(0)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, populate_by_name=True)


class Priced(_Part):
    """Hours of a closed month at one price; hours × rate is the amount, before the cents are spread."""

    what: str = Field(description="a model, or a reservation")
    class_: str = Field(alias="class")
    gpu_hours: Hours
    rate: str | None
    rate_entry: str
    amount: Money


class Repriced(_Part):
    """A kind of charge of a closed month at the prices of then and at those of now, for one tenant.

    The parts of each side add up to that side; `now_amount` − `then_amount` − `booked_before` is what is booked.
    """

    then: list[Priced]
    now: list[Priced]
    then_amount: Money
    now_amount: Money
    booked_before: Money = Field(description="by earlier reprices of the same month")


class Side:
    """A closed month at one set of prices."""

    def __init__(self, rated: Rated, report: Report, config: Config) -> None:
        self._rated, self._config = rated, config
        self._rows = {row.tenant: row for row in report.tenants}
        self._card = RateCard(config)
        self._within = to_ms(report.period.from_), to_ms(report.period.to)

    def amount(self, tenant: str, charge: str) -> Decimal:
        """Return what a tenant's kind of charge comes to."""
        row = self._rows.get(tenant)
        return Decimal(0) if row is None else Decimal(getattr(row.charges, charge))

    def parts(self, tenant: str, charge: str) -> list[Priced]:
        """Return by which entries it is priced; none for what isn't priced by the hour."""
        if charge == "usage":
            return self._usage(tenant)
        return self._reservations(tenant) if charge == "reservation" else []

    def _usage(self, tenant: str) -> list[Priced]:
        own = [c for c in self._rated.charges if c.tenant == tenant and c.reservation is None]
        contract = contract_of(self._card, self._config, tenant)
        hours: dict[tuple[str, str, Fraction | None, str], Fraction] = {}
        for charge in own:
            entry = priced_by(self._card, charge.model, charge.class_, charge.start, contract)
            key = (charge.model or UNKNOWN_MODEL, charge.class_, charge.rate, entry)
            hours[key] = hours.get(key, ZERO) + hours_of(charge)
        keys = sorted(hours, key=lambda k: (k[0], k[1], k[3], k[2] or ZERO))
        weights = {i: hours[key] * (key[2] or ZERO) for i, key in enumerate(keys)}
        amounts = largest_remainder(self.amount(tenant, "usage"), weights, self._config.currency)
        return [
            Priced(
                what=model,
                class_=class_,
                gpu_hours=_number(hours[keys[i]]),
                rate=None if rate is None else _decimal(rate),
                rate_entry=entry,
                amount=plain(amounts[i]),
            )
            for i, (model, class_, rate, entry) in enumerate(keys)
        ]

    def _reservations(self, tenant: str) -> list[Priced]:
        use = self._rated.tenants.get(tenant, TenantUse())
        fees = {name: fee for name, fee in use.fees.items() if fee}
        amounts = largest_remainder(self.amount(tenant, "reservation"), fees, self._config.currency)
        found = []
        for reservation in self._config.reservations:
            if reservation.id not in fees:
                continue
            start, end = max(to_ms(reservation.from_), self._within[0]), min(to_ms(reservation.to), self._within[1])
            hours = Fraction(reservation.gpus * (end - start), HOUR_MS)
            found.append(
                Priced(
                    what=f"{reservation.id}: {reservation.gpus} × {reservation.model}",
                    class_="reserved",
                    gpu_hours=_number(hours),
                    rate=_decimal(fees[reservation.id] / hours),
                    rate_entry=self._reserved_by(reservation, start, end),
                    amount=plain(amounts[reservation.id]),
                )
            )
        return found

    def _reserved_by(self, reservation: Reservation, start: int, end: int) -> str:
        if reservation.rate is not None:
            return f"reservations: {reservation.id}, its own rate {reservation.rate}"
        times = [start, *(edge for edge in self._card.edges if start < edge < end)]
        holding = (
            next(r for r in self._config.rates_in_force if r.holds(from_ms(t)) and speaks_for(r, reservation))
            for t in times
        )
        return "; ".join(dict.fromkeys(entry_text(rate, "reserved") for rate in holding))


def repriced(then: Side, now: Side, tenant: str, charge: str, booked: Decimal, currency: str) -> Repriced:
    """Return how an amount that is booked comes about.

    Args:
        booked: the amount; what lacks to the difference was booked before.
    """
    amounts = then.amount(tenant, charge), now.amount(tenant, charge)
    return Repriced(
        then=then.parts(tenant, charge),
        now=now.parts(tenant, charge),
        then_amount=plain(amounts[0]),
        now_amount=plain(amounts[1]),
        booked_before=plain(round_money(amounts[1] - amounts[0] - booked, currency)),
    )


def contract_of(card: RateCard, config: Config, tenant: str) -> Contract:
    """Return what a tenant has agreed on, for its discounts."""
    settings = next((t for t in config.tenants if t.id == tenant), None)
    return Contract(card, settings.discounts_in_force if settings else (), Months([0]))


def priced_by(card: RateCard, model: str | None, class_: str, at: int, contract: Contract) -> str:
    """Name the entry of the rate card that priced a class at a time in ms, and what changed its price."""
    entry = card.entry(model, at)
    if entry is None:
        return "no entry of rates matches"
    text = entry_text(entry, class_)
    if entry.tiers and entry.by_volume(class_):
        steps = ", ".join(f"{tier.price} above {tier.above} GPU-hours" for tier in entry.tiers)
        text += f"; {entry.tiering.replace('_', ' ')} tiers of the month's volume: {steps}"
    discount = contract.discount(model, class_, at)
    return text + (f"; less {discount.percent} %" if discount is not None else "")


def entry_text(entry: Rate, class_: str) -> str:
    """Name an entry of the rate card: what it is for, when it holds, and when it was recorded."""
    since = f" from {entry.from_:%Y-%m-%d}" if entry.from_ else ""
    until = f" to {entry.to:%Y-%m-%d}" if entry.to else ""
    recorded = f", recorded {entry.recorded:%Y-%m-%d}" if entry.recorded else ""
    return f"rates: model {entry.model}{since}{until}{recorded}, {class_} {entry.price(class_)} per GPU-hour"


def _decimal(rate: Fraction) -> str:
    return format(Decimal(rate.numerator) / Decimal(rate.denominator), "f")


def _number(value: Fraction) -> float:
    return round(float(value), 6) + 0.0
