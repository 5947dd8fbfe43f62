"""One tenant's rated charges, taken apart by class, model and workload, and put together to the cent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pipelines.instants import HOUR_MS
from pipelines.money import largest_remainder, round_money
from pipelines.rates import RateCard
from pipelines.rating import Charge, TenantUse

ZERO: Final = Fraction(0)
UNKNOWN_MODEL: Final = "unknown model"


@dataclass
class Sums:
    """Exact sums over charges: hours, and money before rounding.

    Attributes:
        observed: hours of the leases that were ever observed; `active` is how much of them was busy.
        usage: money outside reservations; `reserved`: reserved hours at their reservation's rate.
    """

    hours: Fraction = ZERO
    observed: Fraction = ZERO
    active: Fraction = ZERO
    waste: Fraction = ZERO
    usage: Fraction = ZERO
    reserved: Fraction = ZERO


def hours_of(charge: Charge) -> Fraction:
    """Return the GPU-hours of a charge."""
    return charge.gpus * (charge.end - charge.start) / HOUR_MS


def sums_by(
    charges: Iterable[Charge], use: TenantUse, card: RateCard, name: Callable[[Charge], str]
) -> dict[str, Sums]:
    """Return the sums under each name."""
    found: dict[str, Sums] = {}
    for charge in charges:
        sums = found.setdefault(name(charge), Sums())
        hours = hours_of(charge)
        sums.hours += hours
        mean = use.means.get(charge.lease)
        if mean is not None:
            sums.observed += hours
            sums.active += hours * mean
            sums.waste += hours * (1 - mean) * (card.price(charge.model, "on_demand", charge.start) or 0)
        price = hours * (charge.rate or 0)
        if charge.reservation is None:
            sums.usage += price
        else:
            sums.reserved += price
    return dict(sorted(found.items()))


def costs(sums: Mapping[str, Sums], currency: str) -> dict[str, Decimal]:
    """Return each name's cost: its part of the usage line, and of the reserved hours at their price."""
    usage = _parts({name: s.usage for name, s in sums.items()}, currency)
    reserved = _parts({name: s.reserved for name, s in sums.items()}, currency)
    return {name: usage[name] + reserved[name] for name in sums}


def wastes(sums: Mapping[str, Sums], currency: str) -> dict[str, Decimal | None]:
    """Return each name's part of the waste; None: nothing of it was observed."""
    known = {name: s.waste for name, s in sums.items() if s.observed}
    parts = _parts(known, currency)
    return {name: parts.get(name) for name in sums}


def _parts(exact: Mapping[str, Fraction], currency: str) -> dict[str, Decimal]:
    return largest_remainder(round_money(sum(exact.values(), ZERO), currency), exact, currency)
