"""One tenant's rated charges, taken apart by class, model and workload, and put together to the cent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_Cell = tuple[str, str]
"""Class and model."""


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
    # Rates are shared objects, a few for all charges: told apart by identity, they need no hashing.
    rates: dict[int, Fraction] = {}
    priced: dict[tuple[_Cell, int, bool, int], int] = {}
    leased: dict[tuple[_Cell, tuple[str | None, int], str, int], int] = {}
    for charge in charges:
        at = (charge.model, card.stretch(charge.start))
        if at not in prices:
            prices[at] = card.price(charge.model, "on_demand", charge.start) or ZERO
        rates[id(charge.rate)] = charge.rate or ZERO
        cell: _Cell = (charge.class_, charge.model or UNKNOWN_MODEL)
        denominator = charge.gpus.denominator
        ms = charge.gpus.numerator * (charge.end - charge.start)
        paid = (cell, id(charge.rate), charge.reservation is None, denominator)
        priced[paid] = priced.get(paid, 0) + ms
        held = (cell, at, charge.lease, denominator)
        leased[held] = leased.get(held, 0) + ms
    cells: dict[_Cell, list[Sums]] = {}
    for (cell, rate, outside, denominator), ms in priced.items():
        hours = Fraction(ms, denominator * HOUR_MS)
        part = Sums(hours=hours)
        if outside:
            part.usage = hours * rates[rate]
        else:
            part.reserved = hours * rates[rate]
        cells.setdefault(cell, []).append(part)
    for cell, part in _observed(leased, use.means, prices):
        cells[cell].append(part)
    classes: dict[str, list[Sums]] = {}
    models: dict[str, list[Sums]] = {}
    for (class_, model), parts in cells.items():
        whole = Sums.total(parts)
        classes.setdefault(class_, []).append(whole)
        models.setdefault(model, []).append(whole)
    by_class, by_model = (
        {name: Sums.total(found) for name, found in sorted(parts.items())} for parts in (classes, models)
    )
    return by_class, by_model


def _observed(
    leased: Mapping[tuple[_Cell, tuple[str | None, int], str, int], int],
    means: Mapping[str, Fraction],
    prices: Mapping[tuple[str | None, int], Fraction],
) -> Iterator[tuple[_Cell, Sums]]:
    """Yield what was observed, active and wasted at each on-demand price, from GPU-ms by lease and denominator.

    Each lease was busy to a fraction of its own: whole numbers are kept by denominator, and added up once.
    """
    observed: dict[tuple[_Cell, tuple[str | None, int]], dict[int, int]] = {}
    active: dict[tuple[_Cell, tuple[str | None, int]], dict[int, int]] = {}
    for (cell, at, lease, denominator), ms in leased.items():
        mean = means.get(lease)
        if mean is not None:
            held = observed.setdefault((cell, at), {})
            held[denominator] = held.get(denominator, 0) + ms
            busy, common = active.setdefault((cell, at), {}), denominator * mean.denominator
            busy[common] = busy.get(common, 0) + ms * mean.numerator
    for (cell, at), by_denominator in observed.items():
        hours, used = (
            exact_sum(Fraction(ms, denominator) for denominator, ms in amounts.items()) / HOUR_MS
            for amounts in (by_denominator, active[cell, at])
        )
        yield cell, Sums(observed=hours, active=used, waste=(hours - used) * prices[at])


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
