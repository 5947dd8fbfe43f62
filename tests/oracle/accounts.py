"""What each tenant and the fleet have in the period, summed from the elementary intervals.

Readings
  A1. A lease in the means is (tenant, lease, device): active = its hours × its mean, waste = what of its hours was not
      active at the on-demand rates of its hours. A lease without a price adds no waste.
  A2. Reserved unused hours weigh at the on-demand rate of the first entry that matches the reservation's model text.
  A3. Credited is min(down of the tenant of matching models, reserved − in use), reservations in file order; where
      `credit_downtime` is off it is unused instead.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.ledger import Holding, Instant
from tests.oracle.money import classify, price_at, reservation_price, tenant_of
from tests.oracle.settings import Settings, Tenant, model_matches

NOBODY = ""
Amounts = dict[str, Fraction]


def _amounts() -> Amounts:
    return defaultdict(Fraction)


@dataclass
class LeaseSum:
    """GPU-hours of one lease on one device, and what they would cost on demand."""

    hours: Fraction = Fraction(0)
    observed: Fraction = Fraction(0)
    busy: Fraction = Fraction(0)
    on_demand: Fraction = Fraction(0)


@dataclass
class Account:
    """What one tenant has in the period, exact."""

    classes: Amounts = field(default_factory=_amounts)
    usage: Amounts = field(default_factory=_amounts)
    reserved_price: Amounts = field(default_factory=_amounts)
    leases: dict[object, LeaseSum] = field(default_factory=lambda: defaultdict(LeaseSum))
    workloads: dict[str, dict[object, LeaseSum]] = field(default_factory=lambda: defaultdict(dict))
    spans: dict[str, tuple[int, int, str | None]] = field(default_factory=dict)
    joules: Fraction | None = None
    unused: Amounts = field(default_factory=_amounts)
    reservation: Fraction = Fraction(0)
    credit: Fraction = Fraction(0)
    weight: Fraction = Fraction(0)
    has_reservation: bool = False

    @property
    def allocated(self) -> Fraction:
        return sum(self.classes.values(), Fraction(0))


@dataclass
class Sums:
    """The fleet's totals over the period, exact GPU-hours and money."""

    parts: Amounts = field(default_factory=_amounts)
    cost: Fraction = Fraction(0)
    joules: Fraction | None = None
    idle_hours: Amounts = field(default_factory=_amounts)
    idle_price: Amounts = field(default_factory=_amounts)
    owned_hours: dict[tuple[str, str], Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    owned_price: dict[tuple[str, str], Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    outside_peak: Amounts = field(default_factory=_amounts)
    unpriced: set[str] = field(default_factory=set)
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def count_fleet(now: Instant, sums: Sums, settings: Settings) -> None:
    hours = now.hours
    if now.joules is not None:
        sums.joules = (sums.joules or 0) + now.joules
    sums.parts["stranded"] += now.stranded * hours
    sums.parts["down"] += now.down * hours
    sums.parts["allocated"] += sum((h.amount for h in now.holdings), Fraction(0)) * hours
    for model, gpus in now.capacity.items():
        sums.parts["capacity"] += gpus * hours
        price = price_at(settings.rates, model, "on_demand", now.start)
        if price is None:
            sums.unpriced.add(model)
        sums.cost += gpus * hours * (price or 0)
    for piece in now.free:
        sums.parts[piece.state] += piece.amount * hours
        if piece.state == "idle":
            model, owner = piece.card.model, piece.card.owner
            price = price_at(settings.rates, model, "on_demand", now.start) or Fraction(0)
            sums.idle_hours[model] += piece.amount * hours
            sums.idle_price[model] += piece.amount * hours * price
            if owner:
                sums.owned_hours[owner, model] += piece.amount * hours
                sums.owned_price[owner, model] += piece.amount * hours * price
    outside = _amounts()
    for holding in now.holdings:
        if isinstance(holding.key, tuple):
            outside[holding.device_id] += holding.amount
    for name, gpus in outside.items():
        sums.outside_peak[name] = max(sums.outside_peak[name], gpus)


def count_tenants(now: Instant, accounts: dict[str, Account], sums: Sums, settings: Settings) -> None:
    hours = now.hours
    by_tenant: dict[str, list[Holding]] = defaultdict(list)
    for holding in now.holdings:
        by_tenant[tenant_of(holding, settings.tenants, now.start) or NOBODY].append(holding)
    for tenant_id, holdings in by_tenant.items():
        for holding in holdings:
            _count_holding(accounts[tenant_id], holding, now, sums, settings)
    for holding in by_tenant[NOBODY]:
        accounts[NOBODY].classes["on_demand"] += holding.amount * hours
    for tenant in settings.tenants:
        _count_classes(accounts[tenant.id], tenant, by_tenant[tenant.id], now, sums, settings)


def _count_holding(account: Account, holding: Holding, now: Instant, sums: Sums, settings: Settings) -> None:
    gpu_hours = holding.amount * now.hours
    name = f"{holding.cluster}:{holding.workload}"
    sums.names[holding.workload].add(holding.cluster)
    lease = account.leases[holding.start, name, holding.key]
    account.workloads[name][holding.start, holding.key] = lease
    first, last, user = account.spans.get(name, (holding.start, holding.end, None))
    user = user or (holding.run.user if holding.run else None)
    account.spans[name] = (min(first, holding.start), max(last, holding.end), user)
    lease.hours += gpu_hours
    if holding.busy is not None:
        lease.observed += gpu_hours
        lease.busy += gpu_hours * holding.busy
    price = price_at(settings.rates, holding.model, "on_demand", now.start) or Fraction(0)
    lease.on_demand += gpu_hours * price
    account.weight += gpu_hours * price
    if holding.joules is not None:
        account.joules = (account.joules or 0) + holding.joules


def _count_classes(
    account: Account, tenant: Tenant, holdings: list[Holding], now: Instant, sums: Sums, settings: Settings
) -> None:
    in_use: Amounts = defaultdict(Fraction)
    for portion in classify(tenant, holdings, settings.reservations, settings.spot, now.start):
        holding, hours = portion.holding, portion.gpus * now.hours
        name = f"{holding.cluster}:{holding.workload}"
        account.classes[portion.lease_class] += hours
        if portion.reservation:
            in_use[portion.reservation.id] += portion.gpus
            price = reservation_price(settings.rates, portion.reservation, now.start) or Fraction(0)
            account.reserved_price[name] += hours * price
            continue
        found = price_at(settings.rates, holding.model, portion.lease_class, now.start)
        if found is None:
            sums.unpriced.add(holding.model)
        account.usage[name] += hours * (found or 0)
    down = dict(enumerate(now.tenant_down.get(tenant.id, []))) if settings.credit_downtime else {}
    for reservation in settings.reservations:
        if reservation.tenant != tenant.id or not reservation.start <= now.start < reservation.end:
            continue
        account.has_reservation = True
        price = reservation_price(settings.rates, reservation, now.start) or Fraction(0)
        account.reservation += reservation.gpus * now.hours * price
        rest = reservation.gpus - in_use[reservation.id]
        for number, (model, gpus) in down.items():
            if model_matches(reservation.model, model):
                credited = min(gpus, rest)
                down[number], rest = (model, gpus - credited), rest - credited
                account.credit -= credited * now.hours * price
        account.unused[reservation.id] += rest * now.hours
        weight = price_at(settings.rates, reservation.model, "on_demand", now.start) or Fraction(0)
        account.weight += rest * now.hours * weight
