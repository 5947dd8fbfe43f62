"""What one tenant pays per GPU-hour: the rate card, its discounts, and what its whole months decide.

Volume tiers and availability are a local month's. Every hour of a month is priced alike: at what the month's volume
comes to, divided by it. So a day's charges add up to the month's, and no order of leases matters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from pipelines.classes import ReservedStretch
from pipelines.config import Discount, Rate, Reservation, Sla, Threshold
from pipelines.config.rules import speaks_for
from pipelines.instants import from_ms, to_ms
from pipelines.rates import RateCard
from pipelines.selectors import glob_matches

ZERO: Final = Fraction(0)
PERCENT: Final = 100

Hours = tuple[str | None, str, int, Fraction]
"""Model, class, time in ms and GPU-hours of what is priced."""


@dataclass(frozen=True)
class Months:
    """Local months, by their starts in ms, ascending."""

    starts: Sequence[int]

    def of(self, t: int) -> int:
        """Return the start of the month that a time is in."""
        return self.starts[max(bisect_right(self.starts, t) - 1, 0)]


@dataclass(frozen=True)
class Decided:
    """What whole months decided for one tenant.

    Attributes:
        blended: price per GPU-hour by position of the entry in `rates` and month.
        availability: by reservation and month; 1 is always up.
    """

    blended: Mapping[tuple[int, int], Fraction] = field(default_factory=dict)
    availability: Mapping[tuple[str, int], Fraction] = field(default_factory=dict)


class Contract:
    """A tenant's prices."""

    def __init__(
        self, card: RateCard, discounts: Sequence[Discount], months: Months, decided: Decided | None = None
    ) -> None:
        self._card, self._discounts, self._months = card, discounts, months
        self._decided = decided or Decided()
        dated = {to_ms(t) for d in discounts for t in (d.from_, d.to) if t is not None}
        self.edges = sorted({*card.edges, *dated, *months.starts})
        self._usage: dict[tuple[str | None, str, int], Fraction | None] = {}
        self._reserved: dict[tuple[str, int], Fraction] = {}

    def usage(self, model: str | None, class_: str, t: int) -> Fraction | None:
        """Return the price of a GPU-hour outside reservations; None: there is none."""
        key = (model, class_, bisect_right(self.edges, t))
        if key not in self._usage:
            self._usage[key] = self._price(model, class_, t)
        return self._usage[key]

    def reserved(self, reservation: Reservation, t: int) -> Fraction:
        """Return what a reserved GPU-hour costs, used or not."""
        key = (reservation.id, bisect_right(self.edges, t))
        if key not in self._reserved:
            discount = self.discount(None, "reserved", t, reservation)
            self._reserved[key] = self._card.reserved(reservation, t) * _rest(discount)
        return self._reserved[key]

    def discount(
        self, model: str | None, class_: str, t: int, reservation: Reservation | None = None
    ) -> Discount | None:
        """Return the discount that applies; None: none does."""
        at = from_ms(t)
        for discount in self._discounts:
            fits = (
                glob_matches(discount.model, model or "")
                if reservation is None
                else speaks_for(discount.model, reservation.model)
            )
            if fits and discount.matches(class_) and discount.holds(at):
                return discount
        return None

    def availability(self, reservation: str, month: int) -> Fraction:
        """Return a reservation's availability in a month."""
        return self._decided.availability.get((reservation, month), Fraction(1))

    def _price(self, model: str | None, class_: str, t: int) -> Fraction | None:
        entry, position = self._card.entry(model, t), self._card.position(model, t)
        if entry is None or position is None:
            return None
        price = Fraction(entry.price(class_))
        if entry.tiers and entry.by_volume(class_):
            price = self._decided.blended.get((position, self._months.of(t)), price)
        return price * _rest(self.discount(model, class_, t))


def decided(hours: Iterable[Hours], stretches: Iterable[ReservedStretch], card: RateCard, months: Months) -> Decided:
    """Return what whole months decide, from all that a tenant held outside reservations and its reservations' use."""
    volumes: dict[tuple[int, int], Fraction] = {}
    entries: dict[int, Rate] = {}
    for model, class_, t, amount in hours:
        entry, position = card.entry(model, t), card.position(model, t)
        if entry is not None and position is not None and entry.tiers and entry.by_volume(class_):
            key = (position, months.of(t))
            entries[position] = entry
            volumes[key] = volumes.get(key, ZERO) + amount
    whole: dict[tuple[str, int], list[Fraction]] = {}
    for stretch in stretches:
        sums = whole.setdefault((stretch.reservation, months.of(stretch.start)), [ZERO, ZERO])
        sums[0] += stretch.gpus * (stretch.end - stretch.start)
        sums[1] += stretch.down * (stretch.end - stretch.start)
    return Decided(
        {key: blended(entries[key[0]], volume) for key, volume in volumes.items() if volume},
        {key: 1 - down / reserved for key, (reserved, down) in whole.items() if reserved},
    )


def blended(entry: Rate, volume: Fraction) -> Fraction:
    """Return what a GPU-hour costs at a month's volume, in GPU-hours, above 0."""
    steps = [(ZERO, Fraction(entry.on_demand)), *((Fraction(t.above), Fraction(t.price)) for t in entry.tiers)]
    reached = [step for step in steps if step[0] < volume]
    if entry.tiering == "all_units":
        return reached[-1][1]
    ends = [above for above, _ in reached[1:]] + [volume]
    return sum(((end - above) * price for (above, price), end in zip(reached, ends, strict=True)), ZERO) / volume


def credit(sla: Sla, availability: Fraction, fee: Fraction, down: Fraction) -> Fraction:
    """Return what of a reservation's fee is given back.

    Args:
        fee, down: what the time costs, and what of it was down.
    """
    if not sla.thresholds:
        return down
    missed = [t for t in sla.thresholds if availability * PERCENT < Fraction(t.below)]
    if not missed:
        return ZERO
    lowest: Threshold = min(missed, key=lambda t: t.below)
    return down if lowest.percent is None else fee * Fraction(lowest.percent) / PERCENT


def _rest(discount: Discount | None) -> Fraction:
    return Fraction(1) if discount is None else 1 - Fraction(discount.percent) / PERCENT
