"""What an omniscient meter would bill: classes, charges and shares on exact intervals, in fractions.

A second, small statement of the money rules, on purpose: it shares no code with the pipeline that it judges.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from pipelines.simulate.scenario import Scenario
from pipelines.simulate.segments import ZERO, Held, Segment, clip
from pipelines.simulate.terms import Rate, Reservation, Terms

CLASSES: Final = ("reserved", "on_demand", "overflow", "spot")
NOBODY: Final = ""
"""Stands for the unattributed where costs are shared out."""


@dataclass(slots=True)
class Account:
    """One tenant's period; hours and money exact."""

    hours: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(CLASSES, ZERO))
    unused: Fraction = ZERO
    usage: Fraction = ZERO
    reservation: Fraction = ZERO
    credit: Fraction = ZERO
    weight: Fraction = ZERO  # (allocated + reserved_unused) × on-demand rate
    workload_hours: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    workload_usage: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    @property
    def allocated(self) -> Fraction:
        """Hours of all classes."""
        return sum(self.hours.values(), ZERO)


@dataclass(frozen=True, slots=True)
class Unused:
    """GPUs of a reservation that nobody of its tenant used, over [start, end)."""

    model: str
    start: int
    end: int
    gpus: Fraction


class Tariff:
    """Prices per GPU-hour by model, class and time."""

    def __init__(self, terms: Terms) -> None:
        self._rates = terms.rates
        self.edges = sorted({edge for rate in terms.rates for edge in (rate.start, rate.end) if edge is not None})

    def price(self, model: str, kind: str, time: int) -> Fraction:
        """The price of a class at a time; a class without a price of its own is on demand."""
        prices = self._entry(model, time).prices
        return Fraction(prices.get(kind, prices["on_demand"]))

    def pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """[start, end) cut where prices change."""
        edges = [start, *(edge for edge in self.edges if start < edge < end), end]
        return itertools.pairwise(edges)

    def amount(self, model: str, kind: str, start: int, end: int) -> Fraction:
        """What one GPU costs over [start, end)."""
        return sum((self.price(model, kind, s) * hours(s, e) for s, e in self.pieces(start, end)), ZERO)

    def _entry(self, model: str, time: int) -> Rate:
        for rate in self._rates:
            in_time = (rate.start is None or rate.start <= time) and (rate.end is None or time < rate.end)
            if in_time and rate.model in ("", model):
                return rate
        raise AssertionError(f"no price for {model} at {time}: the terms have a hole")


def hours(start: int, end: int) -> Fraction:
    """Hours in [start, end) seconds."""
    return Fraction(end - start, 3600)


def accounts(scenario: Scenario, parts: list[Held], tariff: Tariff) -> tuple[dict[str, Account], list[Unused]]:
    """Each tenant's account (the unattributed under NOBODY), and the unused parts of reservations."""
    by_tenant: dict[str, list[Held]] = defaultdict(list)
    for part in parts:
        by_tenant[part.lease.tenant or NOBODY].append(part)
    for reservation in scenario.terms.reservations:
        by_tenant[reservation.tenant] += []
    books: dict[str, Account] = {}
    unused: list[Unused] = []
    for tenant, mine in sorted(by_tenant.items()):
        account = books[tenant] = Account()
        reservations = [r for r in scenario.terms.reservations if r.tenant == tenant]
        quota = scenario.terms.quotas.get(tenant)
        if reservations or quota is not None:
            unused += _in_turn(scenario, account, mine, reservations, quota, tariff, tenant)
        else:
            for part in mine:
                kind = "spot" if part.lease.spot else "on_demand"
                _book(account, part, kind, part.share, part.start, part.end, tariff)
        for part in mine:
            account.weight += part.share * tariff.amount(part.model, "on_demand", part.start, part.end)
    return books, unused


def _book(account: Account, part: Held, kind: str, gpus: Fraction, start: int, end: int, tariff: Tariff) -> None:
    account.hours[kind] += gpus * hours(start, end)
    account.workload_hours[part.lease.workload] += gpus * hours(start, end)
    if kind != "reserved":
        amount = gpus * tariff.amount(part.model, kind, start, end)
        account.usage += amount
        account.workload_usage[part.lease.workload] += amount


def _in_turn(
    scenario: Scenario,
    account: Account,
    parts: list[Held],
    reservations: list[Reservation],
    quota: int | None,
    tariff: Tariff,
    tenant: str,
) -> list[Unused]:
    """Books a tenant whose classes depend on what else it holds at the same instant."""
    window = scenario.window
    broken = [i for i in scenario.of_kind("repair") if i.tenant == tenant]
    edges = {window.start, window.end, *(edge for part in parts for edge in (part.start, part.end))}
    edges |= {edge for r in reservations for edge in (r.start, r.end)}
    edges |= {edge for i in broken for edge in (i.start, i.end)} | set(tariff.edges)
    inside = sorted(edge for edge in edges if window.start <= edge <= window.end)
    queue = sorted(parts, key=lambda part: (part.held_since, part.lease.workload, part.device))
    order = {id(part): place for place, part in enumerate(queue)}
    starting = sorted(queue, key=lambda part: part.start)
    holding: list[Held] = []
    arrived = 0
    unused: list[Unused] = []

    for start, end in itertools.pairwise(inside):
        holding = [part for part in holding if part.end > start]
        while arrived < len(starting) and starting[arrived].start <= start:
            holding.append(starting[arrived])
            arrived += 1
        holding.sort(key=lambda part: order[id(part)])
        active = [r for r in reservations if r.start <= start < r.end]
        used = _classify(account, holding, active, quota, (start, end), tariff)
        down = Fraction(sum(i.start <= start < i.end for i in broken))
        for reservation, in_use in zip(active, used, strict=True):
            price = (
                Fraction(reservation.rate) if reservation.rate else tariff.price(reservation.model, "reserved", start)
            )
            credited = min(down, reservation.gpus - in_use)
            down -= credited
            left = reservation.gpus - in_use - credited
            account.reservation += reservation.gpus * price * hours(start, end)
            account.credit += credited * price * hours(start, end)
            account.unused += left * hours(start, end)
            account.weight += left * tariff.amount(reservation.model, "on_demand", start, end)
            if left:
                unused.append(Unused(reservation.model, start, end, left))
    return unused


def _classify(
    account: Account,
    holding: list[Held],
    active: list[Reservation],
    quota: int | None,
    span: tuple[int, int],
    tariff: Tariff,
) -> list[Fraction]:
    """Books what is held over one span, in order; returns how much of each reservation is in use."""
    start, end = span
    used = [ZERO for _ in active]
    rests: list[tuple[Held, Fraction, bool]] = []
    for part in holding:
        if part.lease.spot:
            _book(account, part, "spot", part.share, start, end, tariff)
            continue
        rest, matched = part.share, False
        for place, reservation in enumerate(active):
            if reservation.model == part.model:
                matched = True
                taken = min(rest, reservation.gpus - used[place])
                if taken:
                    used[place] += taken
                    rest -= taken
                    _book(account, part, "reserved", taken, start, end, tariff)
        if rest:
            rests.append((part, rest, matched))
    # Reserved GPUs count towards the quota: what is left of it is on demand.
    room = None if quota is None else max(ZERO, quota - sum(used, ZERO))
    for part, rest, matched in rests:
        if room is None:
            _book(account, part, "overflow" if matched else "on_demand", rest, start, end, tariff)
            continue
        within = min(rest, room)
        room -= within
        if within:
            _book(account, part, "on_demand", within, start, end, tariff)
        if rest - within:
            _book(account, part, "overflow", rest - within, start, end, tariff)
    return used


def idle_to_share(scenario: Scenario, states: Iterable[Segment], unused: Iterable[Unused], tariff: Tariff) -> Fraction:
    """The cost, at the on-demand rate, of idle cards beyond unused reservations of their model, at each instant."""
    changes: dict[str, dict[int, list[Fraction]]] = defaultdict(lambda: defaultdict(lambda: [ZERO, ZERO]))
    for state in states:
        if state.idle:
            of_model = changes[scenario.fleet.devices[state.device].card.model]
            of_model[state.start][0] += state.idle
            of_model[state.end][0] -= state.idle
    for kept in unused:
        changes[kept.model][kept.start][1] += kept.gpus
        changes[kept.model][kept.end][1] -= kept.gpus
    cost = ZERO
    for model, at in changes.items():
        idle = reserved = ZERO
        times = sorted(at)
        for start, end in itertools.pairwise(times):
            idle += at[start][0]
            reserved += at[start][1]
            if idle > reserved:
                cost += (idle - reserved) * tariff.amount(model, "on_demand", start, end)
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
