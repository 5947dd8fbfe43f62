"""A rated period → the report: lines are made, and rounded, here and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pipelines.analysis.losses import main_cause
from pipelines.config import Config
from pipelines.findings import merge_findings
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.money import largest_remainder, plain, round_money
from pipelines.periods import Period
from pipelines.rated import FleetUse, quotient
from pipelines.rating import Held, Rated, TenantUse, kwh
from pipelines.report import (
    BillingReport,
    Charges,
    FindingReport,
    FleetReport,
    GpuHours,
    Report,
    ReportPeriod,
    TenantReport,
    WorkloadReport,
)
from pipelines.sharing import shared_costs, shortfalls, users
from pipelines.tables import Finding
from pipelines.uncollected import uncollected

ZERO = Fraction(0)


@uncollected()
def make_report(
    rated: Rated,
    config: Config,
    period: Period,
    findings: Iterable[Finding],
    as_of: datetime,
    *,
    adjustments: Mapping[str, Decimal] | None = None,
) -> Report:
    """Return the report of a rated period.

    Args:
        adjustments: what the book adds, by tenant.
    """
    booked = adjustments or {}
    common = shared_costs(rated, config, period)
    missing = shortfalls(rated, config, period)
    listed = {*users(rated), *(t.id for t in config.tenants if t.budget is not None), *common.tenants, *missing}
    names = workload_names(rated)
    tenants = [
        _tenant(
            tenant,
            rated.tenants.get(tenant, TenantUse()),
            common.idle_of(tenant),
            common.overhead_of(tenant),
            missing.get(tenant, Decimal(0)),
            booked.get(tenant, Decimal(0)),
            names,
            config,
            None if rated.billed is None else sum((h for (t, *_), h in rated.billed.items() if t == tenant), ZERO),
        )
        for tenant in sorted({*listed, *booked})
    ]
    energy = _energy_price(rated.fleet.joules, config)
    found = merge_findings(findings)
    cost = round_money(rated.fleet.capacity_price + common.overhead_cost + energy, config.currency)
    billed = sum((Decimal(t.charges.total) for t in tenants), round_money(0, config.currency))
    return Report(
        period=ReportPeriod.model_validate({"from": period.start, "to": period.end, "timezone": config.timezone.key}),
        currency=config.currency,
        as_of=as_of,
        config_hash=config.config_hash,
        fleet=fleet_report(rated.fleet, cost=cost, billed=billed),
        tenants=tenants,
        unattributed_gpu_hours=unattributed_hours(rated),
        slurm_billing=slurm_billing(rated),
        findings=[FindingReport(code=f.code, count=f.count, detail=f.detail) for f in found],
    )


def fleet_report(fleet: FleetUse, *, cost: Decimal, billed: Decimal) -> FleetReport:
    """Return where the fleet's time went, and what it cost and was billed."""
    hours = fleet.hours
    return FleetReport(
        capacity_gpu_hours=_number(sum(hours.values(), ZERO)),
        allocated_gpu_hours=_number(hours.get("allocated", ZERO)),
        idle_gpu_hours=_number(hours.get("idle", ZERO)),
        stranded_gpu_hours=_number(hours.get("stranded", ZERO)),
        down_gpu_hours=_number(hours.get("down", ZERO)),
        unobserved_gpu_hours=_number(hours.get("unobserved", ZERO)),
        devices=fleet.devices,
        energy_kwh=_maybe(kwh(fleet.joules)),
        cost=plain(cost),
        billed=plain(billed),
        unbilled=plain(cost - billed),
    )


def unattributed_hours(rated: Rated) -> float:
    """Return the GPU-hours that no tenant owns."""
    return _number(rated.tenants.get(None, TenantUse()).held.allocated / HOUR_MS)


def slurm_billing(rated: Rated) -> list[BillingReport]:
    """Return what accounts billed, in order."""
    rows = [
        BillingReport(cluster=cluster, account=account, tenant=tenant, billing_hours=_number(hours))
        for (tenant, cluster, account), hours in (rated.billed or {}).items()
    ]
    return sorted(rows, key=lambda row: (row.cluster, row.account or "", row.tenant or ""))


def _energy_price(joules: float | None, config: Config) -> Fraction:
    energy = config.energy
    if not energy.charge or joules is None or energy.price_per_kwh is None:
        return ZERO
    return (kwh(joules) or ZERO) * Fraction(energy.pue) * Fraction(energy.price_per_kwh)


def _tenant(
    tenant: str,
    use: TenantUse,
    idle: Decimal,
    overhead: Decimal,
    commitment: Decimal,
    adjustment: Decimal,
    names: Mapping[tuple[str, str], str],
    config: Config,
    billing_hours: Fraction | None,
) -> TenantReport:
    currency = config.currency
    lines = {
        "usage": round_money(use.usage, currency),
        "reservation": round_money(use.reservation, currency),
        "idle": round_money(idle, currency),
        "energy": round_money(_energy_price(use.held.joules, config), currency),
        "overhead": round_money(overhead, currency),
        "commitment": round_money(commitment, currency),
        "credit": round_money(-use.credit, currency),
        "adjustment": round_money(adjustment, currency),
    }
    lines["total"] = sum(lines.values(), round_money(0, currency))
    energy = _energy_used(use)
    carbon = config.energy.carbon_g_per_kwh
    co2e = None if energy is None or carbon is None else energy * Fraction(config.energy.pue) * Fraction(carbon) / 1000
    return tenant_report(
        tenant,
        use,
        lines,
        waste=round_money(use.held.waste, currency),
        co2e=co2e,
        billing_hours=billing_hours,
        costs=_costs(use, lines["usage"], names, config),
        names=names,
    )


def tenant_report(
    tenant: str,
    use: TenantUse,
    lines: Mapping[str, Decimal],
    *,
    waste: Decimal,
    co2e: Fraction | None,
    billing_hours: Fraction | None,
    costs: Mapping[str, Decimal],
    names: Mapping[tuple[str, str], str],
) -> TenantReport:
    """Return a tenant's row: hours and ratios as it used them, money as given.

    Args:
        lines: rounded, by kind of charge, with their total.
        waste: counts where it is known.
        co2e: kg.
        costs: of workloads, by their names.
        names: of workloads, by cluster and workload.
    """
    held = use.held
    return TenantReport(
        tenant=tenant,
        gpu_hours=GpuHours(
            allocated=_number(held.allocated / HOUR_MS),
            active=_number(held.active / HOUR_MS) if _known(held) else None,
            **{name: _number(h) for name, h in use.hours.items()},
            reserved_unused=_number(sum(use.unused.values(), ZERO)),
        ),
        utilization=_maybe(held.utilization),
        coverage=_maybe(held.coverage),
        availability=_maybe(use.availability),
        billing_hours=_maybe(billing_hours),
        energy_kwh=_maybe(_energy_used(use)),
        co2e_kg=_maybe(co2e),
        charges=Charges(**{name: plain(amount) for name, amount in lines.items()}),
        waste=plain(waste) if _known(held) else None,
        workloads=_workloads(use, costs, names),
    )


def _energy_used(use: TenantUse) -> Fraction | None:
    return kwh(use.held.joules if use.held.leases else 0.0)


def _known(held: Held) -> bool:
    """Whether active and waste are known: nothing was held, or some of it was observed."""
    return held.observed_leases > 0 or not held.leases


def _costs(use: TenantUse, line: Decimal, names: Mapping[tuple[str, str], str], config: Config) -> dict[str, Decimal]:
    """Break the usage line down to workloads, to the cent; reserved hours stand at the reservation's rate."""
    named = {names[key]: w for key, w in use.workloads.items()}
    usage = largest_remainder(line, {name: w.usage for name, w in named.items()}, config.currency)
    return {name: usage[name] + round_money(w.reserved_cost, config.currency) for name, w in named.items()}


def _workloads(
    use: TenantUse, costs: Mapping[str, Decimal], names: Mapping[tuple[str, str], str]
) -> list[WorkloadReport]:
    named = {names[key]: w for key, w in use.workloads.items()}
    return [
        WorkloadReport(
            workload=name,
            user=w.user,
            start=from_ms(w.start),
            end=from_ms(w.end),
            gpu_hours=_quotient(w.held.allocated, HOUR_MS),
            utilization=_quotient(w.held.active, w.held.observed_allocated) if w.held.observed_allocated else None,
            coverage=_quotient(w.held.seen, w.held.allocated) if w.held.allocated else None,
            cost=plain(costs[name]),
            bottleneck=main_cause(w.causes),
        )
        for name, w in sorted(named.items())
    ]


def workload_names(rated: Rated) -> dict[tuple[str, str], str]:
    """Return by cluster and workload what reports call it: a name in two clusters is prefixed by its own."""
    keys = {key for use in rated.tenants.values() for key in use.workloads}
    if len({cluster for cluster, _ in keys}) < 2:
        return {key: key[1] for key in keys}
    clusters = Counter(workload for _, workload in keys)
    return {
        (cluster, workload): f"{cluster}:{workload}" if clusters[workload] > 1 else workload
        for cluster, workload in keys
    }


def _number(value: Fraction) -> float:
    return round(float(value), 6) + 0.0


def _quotient(amount: Fraction, by: Fraction | int) -> float:
    return round(quotient(amount, by), 6) + 0.0


def _maybe(value: Fraction | None) -> float | None:
    return None if value is None else _number(value)


def within_of(period: Period) -> tuple[int, int]:
    """Return a period as ms."""
    return to_ms(period.start), to_ms(period.end)
