"""A rated period and its report → one tenant's statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pipelines.book.breakdown import UNKNOWN_MODEL, Sums, costs, hours_by, sums_by_class_and_model, wastes
from pipelines.book.conversion import in_own_currency
from pipelines.book.document import Line, LinePart, Party, Past, Share, Spent, Statement
from pipelines.book.entries import Entry
from pipelines.book.notes import LATEST, notes
from pipelines.config import Config, Tenant
from pipelines.contract import Contract, Months
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.money import largest_remainder, plain, round_money
from pipelines.periods import Period
from pipelines.rated import quotient
from pipelines.rates import RateCard
from pipelines.rating import Charge, Rated, TenantUse
from pipelines.report import Report, TenantReport
from pipelines.sharing import Shared, shared_costs
from pipelines.statement import workload_names

ZERO: Final = Fraction(0)
DESCRIPTIONS: Final = {
    "usage": "GPU-hours outside reservations",
    "reservation": "Reserved GPUs, used or not",
    "idle": "Share of idle capacity",
    "energy": "Energy",
    "overhead": "Share of overheads",
    "commitment": "Shortfall of the minimum commitment",
    "credit": "Credit for reserved GPUs that were down",
    "adjustment": "Adjustments",
}
"""What each kind of charge is called, in the order of the lines."""
CAUSE_NAMES: Final = {
    "unallocated": "held by nobody",
    "reserved_unused": "reserved, not used",
    "stranded": "stranded by MIG layouts",
    "down": "down",
    "repair": "under repair",
}
"""What idle capacity was lost to."""


class StatementMaker:
    """Makes the statements of one rated period; what they have in common is looked at once."""

    def __init__(self, rated: Rated, report: Report, config: Config) -> None:
        self._rated, self._report, self._config = rated, report, config
        self._rows = {t.tenant: t for t in report.tenants}
        self._shared = shared_costs(rated, config, Period(report.period.from_, report.period.to))
        self._names = workload_names(rated)
        self._unpriced = any(f.code == "unknown_price" for f in report.findings)
        self._charges: dict[str | None, list[Charge]] = {}
        for charge in rated.charges:
            self._charges.setdefault(charge.tenant, []).append(charge)

    def of(
        self,
        tenant: str,
        *,
        label: str,
        entries: Sequence[Entry] = (),
        trend: Sequence[Past] = (),
        number: str | None = None,
        edition: int = LATEST,
    ) -> Statement:
        """Return the statement of a tenant that the report lists.

        Args:
            label: how the period is called ("2026-10").
            entries: what the book holds for this tenant in this period; they make up the report's `adjustment`.
            number: of a closed period's statement.
            edition: how its notes are worded.

        Raises:
            ConfigError: it is in a currency of which no rate of exchange holds in the period's last instant.
        """
        config, report, row = self._config, self._report, self._rows[tenant]
        settings = next((t for t in config.tenants if t.id == tenant), None)
        use = self._rated.tenants.get(tenant, TenantUse())
        charges = self._charges.get(tenant, [])
        made = Statement(
            number=number,
            status="closed" if number else "open",
            issuer=config.closing.issuer,
            tenant=_party(tenant, settings),
            label=label,
            period=report.period,
            currency=report.currency,
            as_of=report.as_of,
            config_hash=report.config_hash,
            lines=_lines(row, use, charges, config, report, label, entries, self._shared),
            total=row.charges.total,
            gpu_hours=row.gpu_hours,
            utilization=row.utilization,
            coverage=row.coverage,
            waste=row.waste,
            energy_kwh=row.energy_kwh,
            co2e_kg=row.co2e_kg,
            **_shares(row, use, charges, self._names, config),
            budget=_budget(row, settings),
            trend=list(trend),
            notes=notes(
                row.coverage,
                row.utilization,
                unpriced=self._unpriced,
                billing_hours=row.billing_hours,
                edition=edition,
            ),
        )
        return in_own_currency(made, config)


def make_statement(
    rated: Rated,
    report: Report,
    config: Config,
    tenant: str,
    *,
    label: str,
    entries: Sequence[Entry] = (),
    trend: Sequence[Past] = (),
) -> Statement:
    """Return one tenant's statement of an open period, as `StatementMaker.of`."""
    return StatementMaker(rated, report, config).of(tenant, label=label, entries=entries, trend=trend)


def _party(tenant: str, settings: Tenant | None) -> Party:
    if settings is None:
        return Party(id=tenant, name=tenant)
    return Party(
        id=tenant,
        name=settings.name,
        parent=settings.parent,
        cost_center=settings.cost_center,
        tags=dict(sorted(settings.tags.items())),
    )


def _lines(
    row: TenantReport,
    use: TenantUse,
    charges: list[Charge],
    config: Config,
    report: Report,
    label: str,
    entries: Sequence[Entry],
    shared: Shared,
) -> list[Line]:
    parts = {
        "usage": _usage_parts(charges, Decimal(row.charges.usage), config),
        "idle": _shared_parts(row.tenant, {CAUSE_NAMES[cause]: s for cause, s in shared.idle.items()}),
        "overhead": _shared_parts(row.tenant, shared.overheads),
        "reservation": _reservation_parts(use.fees, Decimal(row.charges.reservation), config, report),
        "credit": _reservation_parts(use.credits, Decimal(row.charges.credit), config, None),
    }
    quantities: dict[str, tuple[float | None, str | None]] = {
        "usage": (
            _number(sum(hours_by((c for c in charges if c.reservation is None), lambda _: 0).values(), ZERO)),
            "GPU-h",
        ),
        "reservation": (_sum_quantities(parts["reservation"]), "GPU-h"),
        "energy": (row.energy_kwh, "kWh"),
    }
    lines: list[Line] = []
    for kind, description in DESCRIPTIONS.items():
        amount = getattr(row.charges, kind)
        if kind == "adjustment" or not (Decimal(amount) or parts.get(kind)):
            continue
        quantity, unit = quantities.get(kind, (None, None))
        lines.append(
            Line(
                number=len(lines) + 1, kind=kind, description=description, charge_period=label, quantity=quantity,
                unit=unit, amount=amount, parts=parts.get(kind, []),
            )
        )  # fmt: skip
    for entry in entries:
        lines.append(
            Line(
                number=len(lines) + 1, kind="adjustment", description=entry.described(),
                charge_period=entry.charge_period, amount=plain(entry.amount), reference=entry.id,
                quantity=entry.gpu_hours, unit=None if entry.gpu_hours is None else "GPU-h",
            )
        )  # fmt: skip
    return lines


def _shared_parts(tenant: str, shared: Mapping[str, Mapping[str, Decimal]]) -> list[LinePart]:
    """Part a line by what is shared."""
    return [
        LinePart(description=name, amount=plain(shares[tenant])) for name, shares in shared.items() if tenant in shares
    ]


def _usage_parts(charges: list[Charge], line: Decimal, config: Config) -> list[LinePart]:
    """Part the usage line by model, class and rate; where a rate changed, a part says from when it is."""
    own = [charge for charge in charges if charge.reservation is None]
    rates_by_id = {id(charge.rate): charge.rate or ZERO for charge in own}
    firsts: dict[tuple[str, str, int], int] = {}
    for charge in own:
        at = (charge.model or UNKNOWN_MODEL, charge.class_, id(charge.rate))
        firsts[at] = min(firsts.get(at, charge.start), charge.start)
    hours: dict[tuple[str, str, Fraction], Fraction] = {}
    since: dict[tuple[str, str, Fraction], int] = {}
    by_id = hours_by(own, lambda c: (c.model or UNKNOWN_MODEL, c.class_, id(c.rate)))
    for at, amount in by_id.items():
        key: tuple[str, str, Fraction] = (at[0], at[1], rates_by_id[at[2]])
        hours[key] = hours.get(key, ZERO) + amount
        since[key] = min(since.get(key, firsts[at]), firsts[at])
    amounts = largest_remainder(line, {key: h * key[2] for key, h in hours.items()}, config.currency)
    rates = Counter((model, class_) for model, class_, _ in hours)
    terms = _Terms(config, charges[0].tenant) if charges else None
    parts = []
    for model, class_, rate in sorted(hours, key=lambda k: (k[:2], since[k])):
        part = (model, class_, rate)
        changed = f", from {from_ms(since[part]).astimezone(config.timezone):%m-%d}" if rates[model, class_] > 1 else ""
        agreed = terms.named(None if model == UNKNOWN_MODEL else model, class_, since[part]) if terms else ""
        parts.append(
            LinePart(
                description=f"{model}, {class_.replace('_', ' ')}{changed}{agreed}",
                model=model,
                class_=class_,
                quantity=_number(hours[part]),
                rate=_rate(rate),
                amount=plain(amounts[part]),
            )
        )
    return parts


class _Terms:
    """What is agreed with a tenant about the price of its usage."""

    def __init__(self, config: Config, tenant: str | None) -> None:
        settings = next((t for t in config.tenants if t.id == tenant), None)
        self._card = RateCard(config)
        self._contract = Contract(self._card, settings.discounts_in_force if settings else (), Months([0]))

    def named(self, model: str | None, class_: str, t: int) -> str:
        entry, discount = self._card.entry(model, t), self._contract.discount(model, class_, t)
        volume = ", by volume" if entry is not None and entry.tiers and entry.by_volume(class_) else ""
        return volume + (f", less {discount.percent.normalize():f} %" if discount is not None else "")


def _reservation_parts(
    exact: dict[str, Fraction], line: Decimal, config: Config, report: Report | None
) -> list[LinePart]:
    """Part a line by reservation."""
    present = {name: amount for name, amount in exact.items() if amount}
    amounts = largest_remainder(line, present, config.currency)
    found = []
    for reservation in config.reservations:
        if reservation.id not in present:
            continue
        hours, rate = None, None
        if report is not None:
            start = max(to_ms(reservation.from_), to_ms(report.period.from_))
            end = min(to_ms(reservation.to), to_ms(report.period.to))
            exact_hours = Fraction(reservation.gpus * (end - start), HOUR_MS)
            hours, rate = _number(exact_hours), _rate(present[reservation.id] / exact_hours)
        found.append(
            LinePart(
                description=f"{reservation.id}: {reservation.gpus} × {reservation.model}",
                reservation=reservation.id,
                class_="reserved",
                quantity=hours,
                rate=rate,
                amount=plain(amounts[reservation.id]),
            )
        )
    return found


def _shares(
    row: TenantReport, use: TenantUse, charges: list[Charge], names: Mapping[tuple[str, str], str], config: Config
) -> dict[str, list[Share] | str]:
    card = RateCard(config)
    by_class, by_model = sums_by_class_and_model(charges, use, card)
    held_cost = sum((Decimal(w.cost) for w in row.workloads), round_money(0, config.currency))
    waste = _workload_waste(row, use, names, config)
    workloads = [
        Share(
            name=w.workload, user=w.user, start=w.start, end=w.end, gpu_hours=w.gpu_hours,
            active_gpu_hours=waste[w.workload][1], utilization=w.utilization, coverage=w.coverage, cost=w.cost,
            waste=waste[w.workload][0],
        )
        for w in row.workloads
    ]  # fmt: skip
    return {
        "held_cost": plain(held_cost),
        "classes": _by_name(by_class, config.currency),
        "models": _by_name(by_model, config.currency),
        "workloads": workloads,
    }


def _by_name(sums: dict[str, Sums], currency: str) -> list[Share]:
    cost, waste = costs(sums, currency), wastes(sums, currency)
    return [
        Share(
            name=name,
            gpu_hours=_number(s.hours),
            active_gpu_hours=_number(s.active) if s.observed else None,
            utilization=_number(s.active / s.observed) if s.observed else None,
            cost=plain(cost[name]),
            waste=_maybe_plain(waste[name]),
        )
        for name, s in sums.items()
    ]


def _workload_waste(
    row: TenantReport, use: TenantUse, names: Mapping[tuple[str, str], str], config: Config
) -> dict[str, tuple[str | None, float | None]]:
    """Return by the report's workload name its part of the tenant's waste, and its active hours."""
    held = {names[key]: w.held for key, w in use.workloads.items()}
    known = {name: h.waste for name, h in held.items() if h.observed_leases}
    parts = largest_remainder(Decimal(row.waste or 0), known, config.currency) if known else {}
    return {
        name: (plain(parts[name]), round(quotient(h.active, HOUR_MS), 6) + 0.0) if name in parts else (None, None)
        for name, h in held.items()
    }


def _budget(row: TenantReport, settings: Tenant | None) -> Spent | None:
    if settings is None or settings.budget is None:
        return None
    monthly, hours = settings.budget.monthly, settings.budget.gpu_hours
    return Spent(
        monthly=None if monthly is None else plain(monthly),
        gpu_hours=None if hours is None else float(hours),
        spent_ratio=_number(Fraction(row.charges.total) / Fraction(monthly)) if monthly else None,
        gpu_hours_ratio=_number(Fraction(row.gpu_hours.allocated) / Fraction(hours)) if hours else None,
    )


def past_of(rows: Iterable[tuple[str, float, Decimal]], currency: str) -> list[Past]:
    """Return the trend from (period, GPU-hours, total)."""
    return [
        Past(period=period, gpu_hours=round(hours, 6), total=plain(round_money(total, currency)))
        for period, hours, total in rows
    ]


def _sum_quantities(parts: Sequence[LinePart]) -> float | None:
    return round(sum(p.quantity or 0.0 for p in parts), 6) if parts else None


def _rate(rate: Fraction) -> str:
    """Return a rate to the millionth, without trailing zeros beyond the cents."""
    whole = Decimal(round(rate * 1_000_000)) / 1_000_000
    text = f"{whole:.6f}".rstrip("0")
    digits = len(text.partition(".")[2])
    return text + "0" * max(0, 2 - digits)


def _number(value: Fraction) -> float:
    return round(float(value), 6) + 0.0


def _maybe_plain(value: Decimal | None) -> str | None:
    return None if value is None else plain(value)
