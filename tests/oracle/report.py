"""The report of a replay directory, summed from the elementary intervals.

Readings
  T1. Without a period: from the first kept sample or run or outage to the end of the last (reach, run, outage);
      a running job without ElapsedRaw doesn't extend it.
  T2. `active` is null where a tenant has usage and none of its leases was observed.
  T3. `cost` is rounded once, over capacity, overheads and energy together. Rejected: each of them by itself.
  T4. A workload's cost is its largest-remainder part of the usage line plus its reserved hours' price, rounded by
      itself. Rejected: largest-remainder parts of the reservation line.
  T5. Energy is null where no board (of what a tenant held) was measured then; 0 for a tenant without usage.
  T6. Counts of findings: `gap` holes of devices; `conflicting_owner` runs that didn't fit plus label leases pushed out;
      `unknown_price` models; `missing_device` listed and never seen plus seen and not listed; `unresolved_owner`
      workloads that no tenant matches.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.oracle import fleet as fleet_module
from tests.oracle.accounts import NOBODY, Account, LeaseSum, Sums, count_fleet, count_tenants
from tests.oracle.leases import hold
from tests.oracle.ledger import Ledger
from tests.oracle.money import largest_remainder, show, to_units
from tests.oracle.reading import Inputs, read
from tests.oracle.samples import Observations, observe
from tests.oracle.settings import CLASSES, Settings, iso, load
from tests.oracle.sharing import idle_lines, overhead_amounts, share_out

LINES = ("usage", "reservation", "idle", "energy", "overhead", "credit", "adjustment")


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
        count_fleet(now, sums, settings)
        count_tenants(now, accounts, sums, settings)
    counts = {**seen.counts, "counter_reset": ledger.boards.resets, "bad_line": inputs.bad_lines}
    counts["contradicting_series"] = sum(len(s) for s in ledger.contradicted.values())
    counts["conflicting_owner"] = sum(
        any(max(a, start) < min(b, end) for a, b in spans) for spans in placed.unfit.values()
    )
    counts["conflicting_owner"] += len(ledger.pushed_out)
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
    spans = [(r.start, r.end) for r in settings.rates] + [(r.start, r.end) for r in settings.reservations]
    selectors = [*settings.spot, *(s for t in settings.tenants for s in t.match)]
    return {edge for span in [*spans, *((s.start, s.end) for s in selectors)] for edge in span}


def _report(
    settings: Settings,
    accounts: dict[str, Account],
    sums: Sums,
    period: tuple[int, int],
    devices: int,
    counts: dict[str, int],
) -> dict[str, Any]:
    currency = settings.currency
    idle = idle_lines(accounts, sums, settings)
    overhead: dict[str, int] = defaultdict(int)
    cost = sums.cost
    for split, amount in overhead_amounts(settings, *period):
        cost += amount
        for name, part in share_out(to_units(amount, currency), split, accounts).items():
            overhead[name] += part
    per_kwh = (settings.energy_price or Fraction(0)) * settings.pue if settings.energy_charged else Fraction(0)
    cost += _kwh(sums.joules or Fraction(0)) * per_kwh
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
    fleet |= {"devices": devices, "energy_kwh": None if sums.joules is None else _number(_kwh(sums.joules))}
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
    return len(existing) + int(sum(sums.outside_peak.values()))


def _kwh(joules: Fraction) -> Fraction:
    return joules / 3_600_000


def _number(value: Fraction) -> float:
    return float(round(value, 6))
