"""What a GPU-hour costs: held, active, and active on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import polars as pl

from pipelines.instants import HOUR_MS
from pipelines.rating import Held, TenantUse
from pipelines.report import Report


@dataclass(frozen=True)
class UnitCosts:
    """Money per GPU-hour, exact; None: no such hour, or it isn't known.

    Attributes:
        tenant: None: the fleet, whose cost also bears what nobody held.
    """

    tenant: str | None
    allocated: Fraction | None
    active: Fraction | None
    tensor_active: Fraction | None


def unit_costs(
    report: Report, tenants: Mapping[str | None, TenantUse], tensor: Mapping[str | None, Fraction]
) -> list[UnitCosts]:
    """Return the unit costs of the fleet and of each tenant in a period.

    A tenant's cost is its total without what was booked about other periods. Active hours count as in the report: of
    leases ever observed. Tensor activity is scaled from what was observed of it to those hours.

    Args:
        tensor: mean tensor activity of what was observed of it, by tenant; None: of the fleet.
    """
    whole = Held()
    for use in tenants.values():
        whole.add(use.held)
    found = [_costs(None, Decimal(report.fleet.cost), whole, tensor.get(None))]
    for row in report.tenants:
        cost = Decimal(row.charges.total) - Decimal(row.charges.adjustment)
        held = tenants.get(row.tenant, TenantUse()).held
        found.append(_costs(row.tenant, cost, held, tensor.get(row.tenant)))
    return found


def tensor_activity(leases: pl.DataFrame) -> dict[str | None, Fraction]:
    """Return the mean tensor activity of what was observed of it, by tenant; None: of the fleet.

    Args:
        leases: published_tables.LEASE_PERIOD of one period.
    """
    columns = ("tensor_active_ratio_gpu_hours", "tensor_active_ratio_observed_gpu_hours")
    of_tenants = leases.filter(pl.col("tenant").is_not_null()).group_by("tenant").agg(pl.col(columns).sum())
    rows = [*of_tenants.rows(), (None, *leases.select(pl.col(columns).sum()).row(0))]
    return {tenant: Fraction(active) / Fraction(seen) for tenant, active, seen in rows if seen}


def _costs(tenant: str | None, cost: Decimal, held: Held, tensor: Fraction | None) -> UnitCosts:
    exact = Fraction(cost)
    allocated, active = held.allocated / HOUR_MS, held.active / HOUR_MS
    on_tensor = None if tensor is None else held.observed_allocated / HOUR_MS * tensor
    return UnitCosts(tenant, _per(exact, allocated), _per(exact, active), _per(exact, on_tensor))


def _per(cost: Fraction, hours: Fraction | None) -> Fraction | None:
    return cost / hours if hours else None
