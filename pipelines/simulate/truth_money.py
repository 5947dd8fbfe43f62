"""What an omniscient meter would bill: classes, charges and shares on exact intervals.

A second, small statement of the money rules, on purpose: it shares no code with the pipeline that it judges.
GPU time is counted in quanta × seconds, whole numbers, and becomes a fraction only where it meets a price.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final

from pipelines.simulate.scenario import Scenario
from pipelines.simulate.segments import Held, Segment, clip
from pipelines.simulate.terms import Rate, Reservation, Terms

CLASSES: Final = ("reserved", "on_demand", "overflow", "spot")
NOBODY: Final = ""
"""Stands for the unattributed where costs are shared out."""
ZERO: Final = Fraction(0)


class Tariff:
    """Prices per GPU-hour. An epoch is a time between two changes of any price."""

    def __init__(self, terms: Terms) -> None:
        self._rates = terms.rates
        self.edges = sorted({edge for rate in terms.rates for edge in (rate.start, rate.end) if edge is not None})

    def epoch(self, time: int) -> int:
        """The epoch of a time."""
        return bisect_right(self.edges, time)

    def pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """[start, end) cut at the ends of epochs."""
        return pairwise([start, *(edge for edge in self.edges if start < edge < end), end])

    def price(self, model: str, kind: str, epoch: int) -> Fraction:
        """The price of a class in an epoch; a class without a price of its own is on demand."""
        prices = self._entry(model, epoch).prices
        return Fraction(prices.get(kind, prices["on_demand"]))

    def _entry(self, model: str, epoch: int) -> Rate:
        for rate in self._rates:
            begun = rate.start is None or self.epoch(rate.start) <= epoch
            if begun and (rate.end is None or epoch < self.epoch(rate.end)) and rate.model in ("", model):
                return rate
        raise AssertionError(f"no price for {model} in epoch {epoch}: the terms have a hole")


@dataclass(slots=True)
class Account:
    """One tenant's period, in quanta × seconds.

    Args:
        held: by workload, class, model and epoch.
        reserved, unused, credited: by reservation (its place in the terms) and epoch.
    """

    held: dict[tuple[str, str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    reserved: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    unused: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    credited: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))

    def hold(self, part: Held, kind: str, quanta: int, epoch: int, seconds: int) -> None:
        """Add what a part was held in one class."""
        if quanta:
            self.held[part.lease.workload, kind, part.model, epoch] += quanta * seconds


@dataclass(frozen=True, slots=True)
class Sums:
    """An account in hours and money, exact.

    Args:
        weight: (allocated + reserved_unused) × on-demand rate, by which shared costs are split.
    """

    hours: dict[str, Fraction]
    unused: Fraction
    usage: Fraction
    reservation: Fraction
    credit: Fraction
    weight: Fraction
    workload_hours: dict[str, Fraction]
    workload_usage: dict[str, Fraction]

    @property
    def allocated(self) -> Fraction:
        """Hours of all classes."""
        return sum(self.hours.values(), ZERO)


class Hours:
    """Turns quanta × seconds into GPU-hours."""

    def __init__(self, quanta: int) -> None:
        self._divisor = quanta * 3600

    def __call__(self, quanta_seconds: int) -> Fraction:
        """GPU-hours."""
        return Fraction(quanta_seconds, self._divisor)


def accounts(scenario: Scenario, parts: list[Held], tariff: Tariff) -> dict[str, Account]:
    """Each tenant's account; the unattributed have theirs under NOBODY."""
    by_tenant: dict[str, list[Held]] = defaultdict(list)
    for part in parts:
        by_tenant[part.lease.tenant or NOBODY].append(part)
    for reservation in scenario.terms.reservations:
        by_tenant[reservation.tenant] += []
    books = {}
    for tenant, mine in sorted(by_tenant.items()):
        turns = _Turns(scenario, tariff, tenant)
        if turns.matter:
            turns.book(mine)
        else:
            for part in mine:
                kind = "spot" if part.lease.spot else "on_demand"
                for start, end in tariff.pieces(part.start, part.end):
                    turns.account.hold(part, kind, part.quanta, tariff.epoch(start), end - start)
        books[tenant] = turns.account
    return books


class _Turns:
    """Books a tenant whose classes depend on what else it holds at the same instant."""

    def __init__(self, scenario: Scenario, tariff: Tariff, tenant: str) -> None:
        terms = scenario.terms
        self.account = Account()
        self._window, self._tariff, self._quanta = scenario.window, tariff, scenario.fleet.quanta
        self._reservations = [(n, r) for n, r in enumerate(terms.reservations) if r.tenant == tenant]
        self._quota = terms.quotas.get(tenant)
        self._broken = [i for i in scenario.of_kind("repair") if i.tenant == tenant]
        self.matter = bool(self._reservations) or self._quota is not None

    def book(self, parts: list[Held]) -> None:
        window = self._window
        edges = {window.start, window.end, *self._tariff.edges}
        edges |= {edge for part in parts for edge in (part.start, part.end)}
        edges |= {edge for _, r in self._reservations for edge in (r.start, r.end)}
        edges |= {edge for i in self._broken for edge in (i.start, i.end)}
        queue = sorted(parts, key=lambda part: (part.held_since, part.lease.workload, part.device))
        turn = {id(part): place for place, part in enumerate(queue)}
        starting = sorted(queue, key=lambda part: part.start, reverse=True)
        holding: list[Held] = []
        for start, end in pairwise(sorted(edge for edge in edges if window.start <= edge <= window.end)):
            holding = [part for part in holding if part.end > start]
            while starting and starting[-1].start <= start:
                holding.append(starting.pop())
            holding.sort(key=lambda part: turn[id(part)])
            self._span(holding, start, end)

    def _span(self, holding: list[Held], start: int, end: int) -> None:
        epoch, seconds = self._tariff.epoch(start), end - start
        active = [(place, r) for place, r in self._reservations if r.start <= start < r.end]
        used = self._classify(holding, [r for _, r in active], epoch, seconds)
        down = self._quanta * sum(i.start <= start < i.end for i in self._broken)
        for (place, reservation), in_use in zip(active, used, strict=True):
            kept = reservation.gpus * self._quanta
            credited = min(down, kept - in_use)
            down -= credited
            self.account.reserved[place, epoch] += kept * seconds
            self.account.credited[place, epoch] += credited * seconds
            self.account.unused[place, epoch] += (kept - in_use - credited) * seconds

    def _classify(self, holding: list[Held], active: list[Reservation], epoch: int, seconds: int) -> list[int]:
        """Books what is held over one span, in turn; returns how much of each reservation is in use."""
        used = [0] * len(active)
        rests: list[tuple[Held, int, bool]] = []
        for part in holding:
            if part.lease.spot:
                self.account.hold(part, "spot", part.quanta, epoch, seconds)
                continue
            rest, matched = part.quanta, False
            for place, reservation in enumerate(active):
                if reservation.model == part.model:
                    matched = True
                    taken = min(rest, reservation.gpus * self._quanta - used[place])
                    used[place] += taken
                    rest -= taken
            self.account.hold(part, "reserved", part.quanta - rest, epoch, seconds)
            if rest:
                rests.append((part, rest, matched))
        if self._quota is None:
            for part, rest, matched in rests:
                self.account.hold(part, "overflow" if matched else "on_demand", rest, epoch, seconds)
            return used
        # Reserved GPUs count towards the quota: what is left of it is on demand.
        room = max(0, self._quota * self._quanta - sum(used))
        for part, rest, _ in rests:
            within = min(rest, room)
            room -= within
            self.account.hold(part, "on_demand", within, epoch, seconds)
            self.account.hold(part, "overflow", rest - within, epoch, seconds)
        return used


def summed(scenario: Scenario, account: Account, tariff: Tariff) -> Sums:
    """An account's hours and money."""
    in_hours = Hours(scenario.fleet.quanta)
    reservations = scenario.terms.reservations
    hours = dict.fromkeys(CLASSES, ZERO)
    workload_hours: dict[str, Fraction] = defaultdict(Fraction)
    workload_usage: dict[str, Fraction] = defaultdict(Fraction)
    weight = ZERO
    for (workload, kind, model, epoch), amount in account.held.items():
        gpu_hours = in_hours(amount)
        hours[kind] += gpu_hours
        workload_hours[workload] += gpu_hours
        weight += gpu_hours * tariff.price(model, "on_demand", epoch)
        if kind != "reserved":
            workload_usage[workload] += gpu_hours * tariff.price(model, kind, epoch)

    def charged(amounts: Mapping[tuple[int, int], int]) -> Fraction:
        return sum((in_hours(a) * _rate(reservations[place], tariff, e) for (place, e), a in amounts.items()), ZERO)

    for (place, epoch), amount in account.unused.items():
        weight += in_hours(amount) * tariff.price(reservations[place].model, "on_demand", epoch)
    return Sums(
        hours=hours,
        unused=in_hours(sum(account.unused.values())),
        usage=sum(workload_usage.values(), ZERO),
        reservation=charged(account.reserved),
        credit=charged(account.credited),
        weight=weight,
        workload_hours=workload_hours,
        workload_usage=workload_usage,
    )


def _rate(reservation: Reservation, tariff: Tariff, epoch: int) -> Fraction:
    own = reservation.rate
    return Fraction(own) if own else tariff.price(reservation.model, "reserved", epoch)


def idle_to_share(scenario: Scenario, states: Iterable[Segment], books: Iterable[Account], tariff: Tariff) -> Fraction:
    """The period's idle beyond its unused reservations: per model, at the mean on-demand rate of its idle."""
    in_hours = Hours(scenario.fleet.quanta)
    idle: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for state in states:
        for start, end in tariff.pieces(state.start, state.end):
            model = scenario.fleet.devices[state.device].card.model
            idle[model][tariff.epoch(start)] += state.idle * (end - start)
    kept: dict[str, int] = defaultdict(int)
    for account in books:
        for (place, _), amount in account.unused.items():
            kept[scenario.terms.reservations[place].model] += amount
    cost = ZERO
    for model, by_epoch in idle.items():
        total = sum(by_epoch.values())
        if total:
            price = sum((in_hours(a) * tariff.price(model, "on_demand", e) for e, a in by_epoch.items()), ZERO)
            cost += price * Fraction(max(0, total - kept[model]), total)
    return cost


def overhead(scenario: Scenario) -> Fraction:
    """The part of the monthly overhead that falls into the period: over local months, by their length."""
    total = ZERO
    for start, end in scenario.window.local_months():
        span = clip(start, end, scenario.window.start, scenario.window.end)
        if span:
            total += Fraction(scenario.terms.overhead_monthly) * Fraction(span[1] - span[0], end - start)
    return total


def to_cents(amount: Fraction) -> int:
    """Rounded to cents, half away from zero."""
    cents = abs(amount) * 100
    whole = int(cents + Fraction(1, 2))
    return -whole if amount < 0 else whole


def share_out(cents: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Largest-remainder parts of an amount; ties go by id."""
    total = sum(weights.values(), ZERO)
    if not total:
        return dict.fromkeys(weights, 0)
    exact = {key: cents * weight / total for key, weight in weights.items()}
    parts = {key: int(part) for key, part in exact.items()}
    left = cents - sum(parts.values())
    for key in sorted(exact, key=lambda key: (parts[key] - exact[key], key))[:left]:
        parts[key] += 1
    return parts


def money(cents: int) -> str:
    """Cents as text."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"
