"""A span over closed months: what each of them was closed with, and what else it holds, added up.

A closed month was charged by its own prices and usage, and what came later about it is booked where it was found.
Rating the whole span by what is configured and known today would charge the difference twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from exporter.errors import WorkError
from pipelines.analysis.losses import CauseUse
from pipelines.config import Config
from pipelines.findings import merge_findings
from pipelines.money import round_money
from pipelines.periods import Period
from pipelines.rated import ZERO, ByModel, FleetUse, Rated, TenantUse, WorkloadUse
from pipelines.report import Charges, FindingReport, Report, ReportPeriod, TenantReport
from pipelines.statement import fleet_report, slurm_billing, tenant_report, unattributed_hours, workload_names
from pipelines.tables import Finding

Key = TypeVar("Key")


@dataclass(frozen=True)
class Piece:
    """A part of a span that was rated by itself.

    Attributes:
        config: that it was rated by.
    """

    config: Config
    rated: Rated
    report: Report


def added(pieces: Sequence[Piece], config: Config, period: Period, as_of: datetime, cards: int) -> tuple[Rated, Report]:
    """Return what pieces come to: hours and ratios of all their time, and every sum of money the sum of theirs.

    Args:
        config: today's.
        cards: in all of them.

    Raises:
        WorkError: a piece is in another currency.
    """
    for piece in pieces:
        if piece.report.currency != config.currency:
            raise WorkError(
                f"{piece.report.period.from_:%Y-%m-%d} is in {piece.report.currency}, not {config.currency}:"
                " choose a period of one currency"
            )
    rated = _rated([piece.rated for piece in pieces], cards)
    names = workload_names(rated)
    rows: dict[str, list[_Row]] = defaultdict(list)
    for piece in pieces:
        keys = {name: key for key, name in workload_names(piece.rated).items()}
        for row in piece.report.tenants:
            rows[row.tenant].append((row, keys))
    report = Report(
        period=ReportPeriod.model_validate({"from": period.start, "to": period.end, "timezone": config.timezone.key}),
        currency=config.currency,
        as_of=as_of,
        config_hash=config.config_hash,
        fleet=fleet_report(
            rated.fleet,
            cost=_money((piece.report.fleet.cost for piece in pieces), config),
            billed=_money((piece.report.fleet.billed for piece in pieces), config),
        ),
        tenants=[_tenant(t, rows[t], rated.tenants.get(t, TenantUse()), names, config) for t in sorted(rows)],
        unattributed_gpu_hours=unattributed_hours(rated),
        slurm_billing=slurm_billing(rated),
        findings=_findings(pieces),
    )
    return rated, report


_Row = tuple[TenantReport, Mapping[str, tuple[str, str]]]
"""A tenant in one piece, and the cluster and workload of each name that its report gives to a workload."""


def _tenant(
    tenant: str, rows: Sequence[_Row], use: TenantUse, names: Mapping[tuple[str, str], str], config: Config
) -> TenantReport:
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for row, keys in rows:
        for workload in row.workloads:
            costs[names[keys[workload.workload]]] += Decimal(workload.cost)
    lines = {name: _money((getattr(row.charges, name) for row, _ in rows), config) for name in Charges.model_fields}
    billing = [row.billing_hours for row, _ in rows if row.billing_hours is not None]
    carbon = [row.co2e_kg for row, _ in rows if row.energy_kwh is not None]
    return tenant_report(
        tenant,
        use,
        lines,
        waste=_money((row.waste for row, _ in rows if row.waste is not None), config),
        co2e=None if not carbon or None in carbon else sum((Fraction(str(kg)) for kg in carbon if kg), ZERO),
        billing_hours=sum((Fraction(str(hours)) for hours in billing), ZERO) if billing else None,
        costs=costs,
        names=names,
    )


def _findings(pieces: Sequence[Piece]) -> list[FindingReport]:
    found = merge_findings(Finding(f.code, f.count, f.detail) for piece in pieces for f in piece.report.findings)
    return [FindingReport(code=f.code, count=f.count, detail=f.detail) for f in found]


def _money(amounts: Iterable[str], config: Config) -> Decimal:
    return sum(map(Decimal, amounts), round_money(0, config.currency))


def _rated(parts: Sequence[Rated], cards: int) -> Rated:
    tenants: dict[str | None, TenantUse] = {}
    for part in parts:
        for tenant, use in part.tenants.items():
            _add_use(tenants.setdefault(tenant, TenantUse()), use)
    billed = [part.billed for part in parts if part.billed is not None]
    return Rated(
        _fleet([part.fleet for part in parts], cards),
        tenants,
        [charge for part in parts for charge in part.charges],
        [finding for part in parts for finding in part.findings],
        _summed(billed) if billed else None,
    )


def _add_use(total: TenantUse, use: TenantUse) -> None:
    total.held.add(use.held)
    for name in ("usage", "reservation", "credit", "list_price", "unused_list_price", "out"):
        setattr(total, name, getattr(total, name) + getattr(use, name))
    for name in ("hours", "unused", "fees", "credits", "unused_fees", "spent", "fees_spent"):
        setattr(total, name, _summed([getattr(total, name), getattr(use, name)]))
    total.means.update(use.means)  # of a lease that goes on in the next month that month's
    total.has_reservation |= use.has_reservation
    for key, other in use.workloads.items():
        mine = total.workloads.get(key)
        if mine is None:
            mine = total.workloads[key] = WorkloadUse(other.cluster, other.workload, other.user, other.start, other.end)
        mine.user = mine.user if mine.user is not None else other.user
        mine.start, mine.end = min(mine.start, other.start), max(mine.end, other.end)
        mine.held.add(other.held)
        mine.usage += other.usage
        mine.reserved_cost += other.reserved_cost
        for cause, of_cause in other.causes.items():
            known = mine.causes.get(cause, CauseUse())
            mine.causes[cause] = CauseUse(known.gpu_ms + of_cause.gpu_ms, known.waste + of_cause.waste)


def _fleet(parts: Sequence[FleetUse], cards: int) -> FleetUse:
    metered = [part.joules for part in parts if part.joules is not None]
    return FleetUse(
        hours=_summed(part.hours for part in parts),
        capacity_price=sum((part.capacity_price for part in parts), ZERO),
        devices=cards,
        joules=sum(metered) if metered else None,
        lost=_by_model(part.lost for part in parts),
        owned={
            owner: _by_model(part.owned.get(owner, {}) for part in parts)
            for owner in {owner for part in parts for owner in part.owned}
        },
    )


def _by_model(tables: Iterable[Mapping[str, ByModel]]) -> dict[str, ByModel]:
    found: dict[str, ByModel] = defaultdict(dict)
    for table in tables:
        for state, of_state in table.items():
            for model, (hours, price) in of_state.items():
                known = found[state].get(model, (ZERO, ZERO))
                found[state][model] = known[0] + hours, known[1] + price
    return found


def _summed(tables: Iterable[Mapping[Key, Fraction]]) -> dict[Key, Fraction]:
    found: dict[Key, Fraction] = {}
    for table in tables:
        for key, amount in table.items():
            found[key] = found.get(key, ZERO) + amount
    return found
