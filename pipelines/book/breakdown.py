"""One tenant's rated charges, taken apart by class, model and workload, and put together to the cent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeVar

from pipelines.instants import HOUR_MS
from pipelines.money import largest_remainder, round_money
from pipelines.rated import exact_sum
from pipelines.rates import RateCard
from pipelines.rating import Charge, TenantUse

K = TypeVar("K")
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

    @classmethod
    def total(cls, parts: Sequence[Sums]) -> Sums:
        """Return the sums of many, each added up at once."""
        names = ("hours", "observed", "active", "waste", "usage", "reserved")
        return cls(**{name: exact_sum(getattr(part, name) for part in parts) for name in names})


def hours_of(charge: Charge) -> Fraction:
    """Return the GPU-hours of a charge."""
    return charge.gpus * (charge.end - charge.start) / HOUR_MS


def hours_by(charges: Iterable[Charge], key: Callable[[Charge], K]) -> dict[K, Fraction]:
    """Return the GPU-hours under each key, exactly: whole ms are summed by the denominator of their GPUs."""
    whole: dict[tuple[K, int], int] = {}
    for charge in charges:
        at = (key(charge), charge.gpus.denominator)
        whole[at] = whole.get(at, 0) + charge.gpus.numerator * (charge.end - charge.start)
    found: dict[K, Fraction] = {}
    for (name, denominator), amount in whole.items():
        found[name] = found.get(name, ZERO) + Fraction(amount, denominator * HOUR_MS)
    return found


def sums_by_class_and_model(
    charges: Sequence[Charge], use: TenantUse, card: RateCard
) -> tuple[dict[str, Sums], dict[str, Sums]]:
    """Return the same charges summed twice, by class and by model."""
    prices: dict[tuple[str | None, int], Fraction] = {}

    def on_demand(charge: Charge) -> Fraction:
        at = (charge.model, card.stretch(charge.start))
        if at not in prices:
            prices[at] = card.price(charge.model, "on_demand", charge.start) or ZERO
        return prices[at]

    # Rates are shared objects, a few for all charges: told apart by identity, they need no hashing.
    rates = {id(c.rate): c.rate or ZERO for c in charges}
    listed: dict[int, Fraction] = {}

    def key(charge: Charge) -> tuple[str, str, str, int, int, bool]:
        price = on_demand(charge)
        listed[id(price)] = price
        model = charge.model or UNKNOWN_MODEL
        return charge.class_, model, charge.lease, id(charge.rate), id(price), charge.reservation is None

    classes: dict[str, list[Sums]] = {}
    models: dict[str, list[Sums]] = {}
    for (class_, model, lease, rate, price, outside), hours in hours_by(charges, key).items():
        part = Sums(hours=hours)
        mean = use.means.get(lease)
        if mean is not None:
            part.observed, part.active = hours, hours * mean
            part.waste = (hours - part.active) * listed[price]
        if outside:
            part.usage = hours * rates[rate]
        else:
            part.reserved = hours * rates[rate]
        classes.setdefault(class_, []).append(part)
        models.setdefault(model, []).append(part)
    by_class, by_model = (
        {name: Sums.total(found) for name, found in sorted(parts.items())} for parts in (classes, models)
    )
    return by_class, by_model


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
