"""Who and what a month's bills are for: every line split by tenant, workload, model, class or kind, to the cent.

A line is the report's. Its parts are largest-remainder parts by what was charged for each, so however a bill is
split, the parts add up to it. What has no part in a split (an overhead has no model) stands beside it by its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from app.accounts import ZERO, exact
from app.scope import Month, Scope
from pipelines.money import largest_remainder, round_money

By = Literal["tenant", "parent", "workload", "user", "model", "class", "line"]
SPLITS: Final[tuple[By, ...]] = get_args(By)

LINES: Final = {
    "usage": "Usage",
    "reserved": "Reserved GPUs, used",
    "unused": "Reserved GPUs, not used",
    "idle": "Share of idle time",
    "energy": "Energy",
    "overhead": "Share of overheads",
    "commitment": "Shortfall of the commitment",
    "credit": "Credits for downtime",
    "adjustment": "Adjustments",
}
CLASSES: Final = {"reserved": "Reserved", "on_demand": "On demand", "overflow": "Overflow", "spot": "Spot"}


@dataclass(frozen=True)
class Share:
    """A part of the bills.

    Attributes:
        key: what it is the part of, as in the address; None: a line that this split doesn't reach.
        tenant: whose, where it is one tenant's.
        gpu_hours: None where it isn't made of hours.
    """

    key: str | None
    label: str
    amount: Decimal
    gpu_hours: float | None = None
    tenant: str | None = None


def lines(scope: Scope, month: Month) -> dict[str, dict[str, Decimal]]:
    """Return each tenant's lines by tenant and line; a reservation is told apart into used and not used."""
    rows = scope.reader.ask(
        """WITH held AS (SELECT tenant, sum(cost) AS cost FROM workload_period WHERE period = $period GROUP BY tenant)
        SELECT tenant, usage, coalesce(held.cost, 0) - usage AS reserved, reservation - (coalesce(held.cost, 0) - usage)
            AS unused, idle, energy, overhead, commitment, credit, adjustment
        FROM tenant_period LEFT JOIN held USING (tenant) WHERE period = $period ORDER BY tenant""",
        {"period": month.name},
    )
    return {
        row["tenant"]: {line: round_money(row[line], scope.currency) for line in LINES}
        for row in rows.iter_rows(named=True)
        if scope.tenant in (None, row["tenant"])
    }


def split(scope: Scope, by: By) -> list[Share]:
    """Return the bills in scope split by something, largest first, lines that it doesn't reach last."""
    owed = lines(scope, scope.month)
    match by:
        case "tenant" | "parent":
            shares = _by_tenant(scope, owed, by)
        case "line":
            shares = [Share(line, label, _added(t[line] for t in owed.values())) for line, label in LINES.items()]
            return [s for s in shares if s.amount]
        case "workload" | "user":
            shares = _by_workload(scope, by)
        case _:
            shares = _by_charge(scope, owed, by)
    shares = sorted((s for s in shares if s.amount or s.gpu_hours), key=lambda s: (-s.amount, s.label))
    reached = {"tenant": LINES.keys(), "parent": LINES.keys()}.get(by, {"usage", "reserved"})
    rest = [
        Share(None, label, amount)
        for line, label in LINES.items()
        if line not in reached and (amount := _added(t[line] for t in owed.values()))
    ]
    return shares + rest


def elsewhere(scope: Scope) -> Decimal:
    """Return what tenants pay that are not in scope."""
    if scope.tenant is None:
        return ZERO
    rows = scope.reader.ask(
        "SELECT coalesce(sum(total), 0) FROM tenant_period WHERE period = $period AND tenant <> $tenant",
        {"period": scope.month.name, "tenant": scope.tenant},
    )
    return round_money(rows.item(), scope.currency)


def leases_of(scope: Scope, workload: str) -> list[dict[str, Any]]:
    """Return a workload's charges, each with its part of the workload's cost: what a line is made of.

    Returns:
        lease, node, device, class, reservation, start, end, gpus, gpu_hours, rate, amount; grain: stretch of a lease
        in one class at one rate.
    """
    cost = scope.reader.ask(
        """SELECT coalesce(sum(cost), 0) FROM workload_period
        WHERE period = $period AND workload = $workload AND tenant = $tenant""",
        {"period": scope.month.name, "workload": workload, "tenant": scope.tenant},
    ).item()
    rows = scope.reader.ask(
        """SELECT charge.lease, lease.node, lease.device, lease.instance, charge.class, charge.reservation,
            charge.rate, min(charge.start) AS start, max(charge."end") AS "end", sum(charge.gpu_hours) AS gpu_hours,
            sum(charge.gpu_hours * charge.rate::DOUBLE) AS weight
        FROM charge JOIN lease ON lease.id = charge.lease
        WHERE charge.period = $period AND charge.tenant = $tenant
            AND $workload IN (charge.workload, lease.cluster || ':' || charge.workload)
        GROUP BY ALL ORDER BY start, lease.node, lease.device, charge.class, charge.rate""",
        {"period": scope.month.name, "tenant": scope.tenant, "workload": workload},
    ).to_dicts()
    weights = {n: exact(row["weight"]) for n, row in enumerate(rows)}
    if not any(weights.values()):
        return [{**row, "amount": ZERO} for row in rows]
    parts = largest_remainder(round_money(cost, scope.currency), weights, scope.currency)
    return [{**row, "amount": parts[n]} for n, row in enumerate(rows)]


def _by_tenant(scope: Scope, owed: Mapping[str, Mapping[str, Decimal]], by: str) -> list[Share]:
    hours = dict(
        scope.reader.ask(
            "SELECT tenant, allocated_gpu_hours FROM tenant_period WHERE period = $period", {"period": scope.month.name}
        ).iter_rows()
    )
    if by == "tenant":
        return [
            Share(t, scope.tenant_name(t), _added(own.values()), hours.get(t, 0.0), tenant=t) for t, own in owed.items()
        ]
    above: dict[str, list[str]] = defaultdict(list)
    for tenant in owed:
        above[_top(scope, tenant)].append(tenant)
    return [
        Share(
            top,
            scope.tenant_name(top),
            _added(a for t in below for a in owed[t].values()),
            sum(hours.get(t, 0.0) for t in below),
        )
        for top, below in above.items()
    ]


def _top(scope: Scope, tenant: str) -> str:
    seen = set()
    while tenant in scope.tenants and (parent := scope.tenants[tenant].parent) and tenant not in seen:
        seen.add(tenant)
        tenant = parent
    return tenant


def _by_workload(scope: Scope, by: str) -> list[Share]:
    column = '"user"' if by == "user" else "workload"
    rows = scope.reader.ask(
        f"""SELECT {column} AS key, tenant, sum(gpu_hours) AS gpu_hours, sum(cost) AS cost FROM workload_period
        WHERE period = $period AND ($tenant IS NULL OR tenant = $tenant) GROUP BY ALL""",  # noqa: S608
        {"period": scope.month.name, "tenant": scope.tenant},
    )
    return [
        Share(row["key"], row["key"] or "User not known", Decimal(row["cost"]), row["gpu_hours"], row["tenant"])
        for row in rows.iter_rows(named=True)
    ]


def _by_charge(scope: Scope, owed: Mapping[str, Mapping[str, Decimal]], by: Literal["model", "class"]) -> list[Share]:
    rows = scope.reader.ask(
        f"""SELECT tenant, "{by}" AS key, "class" = 'reserved' AS reserved, sum(gpu_hours) AS gpu_hours,
            sum(charge_weight) AS weight
        FROM charge_day WHERE period = $period AND tenant IS NOT NULL AND ($tenant IS NULL OR tenant = $tenant)
        GROUP BY ALL ORDER BY ALL""",  # noqa: S608
        {"period": scope.month.name, "tenant": scope.tenant},
    )
    weights: dict[tuple[str, str], dict[str, Fraction]] = defaultdict(dict)
    hours: dict[str, float] = defaultdict(float)
    for tenant, key, reserved, gpu_hours, weight in rows.iter_rows():
        weights[tenant, "reserved" if reserved else "usage"][key or ""] = exact(weight)
        hours[key or ""] += gpu_hours
    amounts = dict.fromkeys(hours, ZERO)
    for (tenant, line), parts in weights.items():
        if any(parts.values()):
            for key, part in largest_remainder(owed[tenant][line], parts, scope.currency).items():
                amounts[key] += part
    labels = CLASSES if by == "class" else {}
    return [Share(k, labels.get(k, k or "unknown model"), amounts[k], hours[k]) for k in hours]


def _added(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, ZERO)
