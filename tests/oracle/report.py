"""The report of a replay directory, summed from the elementary intervals.

Readings
  T1. Without a period: from the first kept sample or run or outage to the end of the last (reach, run, outage);
      a running job without ElapsedRaw doesn't extend it.
  T2. A lease in the means is (tenant, lease, device): active = its hours × its mean, waste = what of its hours was not
      active at the on-demand rates of its hours. A lease without a price adds no waste.
  T3. `active` is null where a tenant has usage and none of its leases was observed.
  T4. `cost` is rounded once, over capacity, overheads and energy together. Rejected: each of them by itself.
  T5. A workload's cost is its largest-remainder part of the usage line plus its reserved hours' price, rounded by
      itself. Rejected: largest-remainder parts of the reservation line.
  T6. Unused reservations are netted from the period's idle of each model, reservations in file order, models by name;
      what remains of a model's idle is priced at the mean of its on-demand rates over its idle.
  T7. An overhead is rounded and shared by itself; a tenant's line is the sum of its parts. Under policy `owner` each
      tenant's idle is a line of its own, rounded once.
  T8. Reserved unused hours weigh at the on-demand rate of the first entry that matches the reservation's model text.
  T9. `even` is over tenants with allocated hours or a reservation (its time overlapping the period).
  T10. The unattributed are no tenant under `even`; under `proportional` they weigh by allocated hours × rate.
  T11. Credited is min(down of the tenant of matching models, reserved − in use), reservations in file order; where
      `credit_downtime` is off it is unused instead.
  T12. Energy is null where no board of what was held was ever measured then, 0 for a tenant without usage.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.oracle import fleet as fleet_module
from tests.oracle.leases import hold
from tests.oracle.ledger import Holding, Instant, Ledger
from tests.oracle.money import (
    classify,
    largest_remainder,
    model_matches,
    price_at,
    reservation_price,
    show,
    tenant_of,
    to_units,
)
from tests.oracle.reading import Inputs, read
from tests.oracle.samples import Observations, observe
from tests.oracle.settings import CLASSES, Settings, Tenant, iso, load, local_months

LINES = ("usage", "reservation", "idle", "energy", "overhead", "credit", "adjustment")
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
    joules: Fraction = Fraction(0)
    idle_hours: Amounts = field(default_factory=_amounts)
    idle_price: Amounts = field(default_factory=_amounts)
    owned_hours: dict[tuple[str, str], Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    owned_price: dict[tuple[str, str], Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    outside_peak: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unpriced: set[str] = field(default_factory=set)
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def replay(directory: str | Path) -> dict[str, Any]:
    """The whole report of a replay directory, as in the contract."""
    settings = load(Path(directory))
    inputs = read(settings)
    seen = observe(inputs.lines, settings)
    start, end = _period(settings, inputs, seen)
    inputs.runs = [run if run.end is not None else replace(run, end=max(end, run.start)) for run in inputs.runs]
    cards = fleet_module.assemble(seen, inputs.stock)
    ledger = Ledger(cards, hold(cards, seen, inputs.runs, settings), seen, inputs, settings)
    instants, placed = ledger.instants(start, end, _money_edges(settings))
    accounts = {t.id: Account() for t in settings.tenants}
    accounts[NOBODY] = Account()
    sums = Sums()
    for now in instants:
        _count_fleet(now, sums, settings)
        _count_tenants(now, accounts, sums, settings)
    counts = {**seen.counts, "counter_reset": ledger.boards.resets, "bad_line": inputs.bad_lines}
    counts["contradicting_series"] = sum(len(s) for s in ledger.contradicted.values())
    counts["conflicting_owner"] = len(placed.unfit) + len(ledger.pushed_out)
    counts["unknown_price"] = len(sums.unpriced)
    counts["gpus_not_tracked"] = inputs.untracked_jobs
    counts["missing_device"] = cards.unlisted + cards.unseen
    counts["unresolved_owner"] = len(accounts[NOBODY].workloads)
    return _report(settings, accounts, sums, (start, end), _card_count(ledger, start, end, sums), counts)


def _period(settings: Settings, inputs: Inputs, seen: Observations) -> tuple[int, int]:
    if settings.window:
        return settings.window
    scrapes = [scrape for all_scrapes in seen.scrapes.values() for scrape in all_scrapes]
    starts = [s.at for s in scrapes] + [r.start for r in inputs.runs] + [o.start for o in inputs.outages]
    ends = [s.end for s in scrapes] + [r.end for r in inputs.runs if r.end] + [o.end for o in inputs.outages]
    if not starts:
        raise ValueError("no data and no period")
    return min(starts), max([*ends, min(starts)])


def _money_edges(settings: Settings) -> set[int]:
    dated = [*settings.rates, *settings.reservations, *settings.spot, *(s for t in settings.tenants for s in t.match)]
    return {edge for entry in dated for edge in (entry.start, entry.end)}


def _count_fleet(now: Instant, sums: Sums, settings: Settings) -> None:
    hours = now.hours
    sums.joules += now.joules
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
    outside: dict[str, int] = defaultdict(int)
    for holding in now.holdings:
        if isinstance(holding.key, tuple):
            outside[holding.device_id] += int(holding.amount)
    for name, gpus in outside.items():
        sums.outside_peak[name] = max(sums.outside_peak[name], gpus)


def _count_tenants(now: Instant, accounts: dict[str, Account], sums: Sums, settings: Settings) -> None:
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
    down = [list(entry) for entry in now.tenant_down.get(tenant.id, [])] if settings.credit_downtime else []
    for reservation in settings.reservations:
        if reservation.tenant != tenant.id or not reservation.start <= now.start < reservation.end:
            continue
        account.has_reservation = True
        price = reservation_price(settings.rates, reservation, now.start) or Fraction(0)
        account.reservation += reservation.gpus * now.hours * price
        rest = reservation.gpus - in_use[reservation.id]
        for entry in down:
            model, gpus = str(entry[0]), Fraction(entry[1])
            if model_matches(reservation.model, model):
                credited = min(gpus, rest)
                entry[1], rest = gpus - credited, rest - credited
                account.credit -= credited * now.hours * price
        account.unused[reservation.id] += rest * now.hours
        weight = price_at(settings.rates, reservation.model, "on_demand", now.start) or Fraction(0)
        account.weight += rest * now.hours * weight


def _idle_lines(accounts: dict[str, Account], sums: Sums, settings: Settings) -> dict[str, int]:
    if settings.idle_policy == "owner":
        return _owner_idle(accounts, sums, settings)
    left = dict(sums.idle_hours)
    for reservation in settings.reservations:
        unused = accounts[reservation.tenant].unused[reservation.id] if reservation.tenant in accounts else Fraction(0)
        _net(unused, left, reservation.model)
    exact = sum((sums.idle_price[m] * left[m] / sums.idle_hours[m] for m in left if sums.idle_hours[m]), Fraction(0))
    return _share_out(to_units(exact, settings.currency), settings.idle_policy, accounts)


def _owner_idle(accounts: dict[str, Account], sums: Sums, settings: Settings) -> dict[str, int]:
    lines = {}
    for owner in {owner for owner, _ in sums.owned_hours} & {t.id for t in settings.tenants}:
        left = {model: hours for (who, model), hours in sums.owned_hours.items() if who == owner}
        for reservation in settings.reservations:
            if reservation.tenant == owner:
                _net(accounts[owner].unused[reservation.id], left, reservation.model)
        exact = sum(
            (sums.owned_price[owner, m] * left[m] / sums.owned_hours[owner, m] for m in left if left[m]), Fraction(0)
        )
        lines[owner] = to_units(exact, settings.currency)
    return lines


def _net(unused: Fraction, left: Amounts, glob: str) -> None:
    for model in sorted(left):
        if model_matches(glob, model):
            part = min(unused, left[model])
            left[model] -= part
            unused -= part


def _share_out(total: int, key: str, accounts: dict[str, Account]) -> dict[str, int]:
    """Minor units by tenant; NOBODY's part stays unbilled."""
    if key == "proportional":
        return largest_remainder(total, {name: a.weight for name, a in accounts.items() if a.weight})
    if key == "even":
        users = [n for n, a in accounts.items() if n != NOBODY and (a.allocated or a.has_reservation)]
        return largest_remainder(total, dict.fromkeys(users, Fraction(1)))
    return {}


def _overhead_amounts(settings: Settings, start: int, end: int) -> list[tuple[str, Fraction]]:
    amounts = []
    for overhead in settings.overheads:
        months = local_months(start, end, settings.zone)
        share = sum((Fraction(max(0, min(end, b) - max(start, a)), b - a) for a, b in months), Fraction(0))
        amounts.append((overhead.split, overhead.monthly * share))
    return amounts


def _report(
    settings: Settings,
    accounts: dict[str, Account],
    sums: Sums,
    period: tuple[int, int],
    devices: int,
    counts: dict[str, int],
) -> dict[str, Any]:
    currency = settings.currency
    idle = _idle_lines(accounts, sums, settings)
    overhead: dict[str, int] = defaultdict(int)
    cost = sums.cost
    for split, amount in _overhead_amounts(settings, *period):
        cost += amount
        for name, part in _share_out(to_units(amount, currency), split, accounts).items():
            overhead[name] += part
    per_kwh = (settings.energy_price or Fraction(0)) * settings.pue if settings.energy_charged else Fraction(0)
    cost += _kwh(sums.joules) * per_kwh
    tenants, billed = [], 0
    for tenant in sorted(settings.tenants, key=lambda t: t.id):
        account = accounts[tenant.id]
        lines = {
            "usage": to_units(sum(account.usage.values(), Fraction(0)), currency),
            "reservation": to_units(account.reservation, currency),
            "idle": idle.get(tenant.id, 0),
            "energy": to_units(_kwh(account.joules or Fraction(0)) * per_kwh, currency),
            "overhead": overhead.get(tenant.id, 0),
            "credit": to_units(account.credit, currency),
            "adjustment": 0,
        }
        if account.allocated or account.has_reservation or any(lines.values()) or tenant.budgeted:
            tenants.append(_tenant(tenant.id, account, lines, sums, settings))
            billed += sum(lines.values())
    cost_units = to_units(cost, currency)
    fleet: dict[str, Any] = {
        f"{part}_gpu_hours": _number(sums.parts[part])
        for part in ("capacity", "allocated", "idle", "stranded", "down", "unobserved")
    }
    fleet |= {"devices": devices, "energy_kwh": _number(_kwh(sums.joules))}
    fleet |= {"cost": show(cost_units, currency), "billed": show(billed, currency)}
    fleet["unbilled"] = show(cost_units - billed, currency)
    return {
        "period": {"from": iso(period[0]), "to": iso(period[1]), "timezone": settings.zone.key},
        "currency": currency,
        "as_of": iso(period[1]),
        "config_hash": hashlib.sha256((settings.directory / "gpuledger.yaml").read_bytes()).hexdigest(),
        "fleet": fleet,
        "tenants": tenants,
        "unattributed_gpu_hours": _number(accounts[NOBODY].allocated),
        "findings": [{"code": c, "count": n, "detail": c} for c, n in sorted(counts.items()) if n],
    }


def _tenant(name: str, account: Account, lines: dict[str, int], sums: Sums, settings: Settings) -> dict[str, Any]:
    currency = settings.currency
    active, utilization, coverage, wasted = _means(list(account.leases.values()))
    hours: dict[str, Any] = {"allocated": _number(account.allocated), "active": active}
    hours |= {c: _number(account.classes[c]) for c in CLASSES}
    hours["reserved_unused"] = _number(sum(account.unused.values(), Fraction(0)))
    joules = account.joules if account.leases else Fraction(0)
    kwh = None if joules is None else _kwh(joules)
    carbon = None if kwh is None or settings.carbon is None else kwh * settings.pue * settings.carbon / 1000
    charges = {line: show(lines[line], currency) for line in LINES}
    charges["total"] = show(sum(lines.values()), currency)
    shown = {full: _shown(full, sums) for full in account.workloads}
    parts = largest_remainder(lines["usage"], {shown[full]: amount for full, amount in account.usage.items()})
    workloads = []
    for full, leases in sorted(account.workloads.items()):
        _, used, seen, _ = _means(list(leases.values()))
        start, end, user = account.spans[full]
        workloads.append(
            {
                "workload": shown[full],
                "user": user,
                "start": iso(start),
                "end": iso(end),
                "gpu_hours": _number(sum((lease.hours for lease in leases.values()), Fraction(0))),
                "utilization": used,
                "coverage": seen,
                "cost": show(parts.get(shown[full], 0) + to_units(account.reserved_price[full], currency), currency),
                "bottleneck": None,
            }
        )
    return {
        "tenant": name,
        "gpu_hours": hours,
        "utilization": utilization,
        "coverage": coverage,
        "energy_kwh": None if kwh is None else _number(kwh),
        "co2e_kg": None if carbon is None else _number(carbon),
        "charges": charges,
        "waste": None if wasted is None else show(to_units(wasted, currency), currency),
        "workloads": workloads,
    }


def _shown(full: str, sums: Sums) -> str:
    short = full.partition(":")[2]
    return full if len(sums.names[short]) > 1 else short


def _means(leases: list[LeaseSum]) -> tuple[float | None, float | None, float | None, Fraction | None]:
    """Active hours, utilization, coverage and waste of some leases; unknown is None."""
    hours = sum((lease.hours for lease in leases), Fraction(0))
    if not hours:
        return 0.0, None, None, Fraction(0)
    coverage = _number(sum((lease.observed for lease in leases), Fraction(0)) / hours)
    observed = [lease for lease in leases if lease.observed]
    if not observed:
        return None, None, coverage, None
    active = sum((lease.hours * lease.busy / lease.observed for lease in observed), Fraction(0))
    wasted = sum(((1 - lease.busy / lease.observed) * lease.on_demand for lease in observed), Fraction(0))
    return _number(active), _number(active / sum(lease.hours for lease in observed)), coverage, wasted


def _card_count(ledger: Ledger, start: int, end: int, sums: Sums) -> int:
    existing = [c for c in ledger.fleet.cards if any(max(a, start) < min(b, end) for a, b in c.spans)]
    return len(existing) + sum(sums.outside_peak.values())


def _kwh(joules: Fraction) -> Fraction:
    return joules / 3_600_000


def _number(value: Fraction) -> float:
    return float(round(value, 6))
