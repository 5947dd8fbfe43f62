"""Who and what bills are for: every line split by tenant, workload, model, class or kind, to the cent.

A line is the report's. Its parts are largest-remainder parts by what was charged for each, so however a bill is
split, the parts add up to it. What has no part in a split (an overhead has no model) stands beside it by its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from app.accounts import ZERO
from app.scope import ALLOWED, IN_DAYS, WHOLE, Scope, Span
from pipelines.money import largest_remainder, round_money
from pipelines.published_days import exact

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


def lines(scope: Scope, span: Span) -> Mapping[str, Mapping[str, Decimal]]:
    """Return each tenant's lines by tenant and line; a reservation is told apart into used and not used."""
    every = _lines_of_all(scope, span)
    return every if scope.tenant is None else {t: own for t, own in every.items() if t == scope.tenant}


def _lines_of_all(scope: Scope, span: Span) -> Mapping[str, Mapping[str, Decimal]]:
    # Of all tenants at once: whoever chooses another tenant finds the answer there already.
    return scope.reader.once(("lines", span), lambda: _added_lines(scope, span))


def _added_lines(scope: Scope, span: Span) -> dict[str, dict[str, Decimal]]:
    rows = scope.ask(
        f"""SELECT t.tenant, d.line, sum(d.amount) AS amount
        FROM (SELECT DISTINCT tenant FROM tenant_period WHERE period BETWEEN $first_month AND $last_month) AS t
        LEFT JOIN (SELECT * FROM line_day WHERE {IN_DAYS}) AS d USING (tenant)
        GROUP BY ALL ORDER BY ALL""",
        span,
    )
    owed: dict[str, dict[str, Decimal]] = {}
    for tenant, line, amount in rows.iter_rows():
        own = owed.setdefault(tenant, dict.fromkeys(LINES, round_money(0, scope.currency)))
        if line is not None:
            own[line] = round_money(amount, scope.currency)
    return owed


def paid(scope: Scope, span: Span) -> dict[str, Decimal]:
    """Return what each tenant in scope pays."""
    return {tenant: _added(own.values()) for tenant, own in lines(scope, span).items()}


def split(scope: Scope, by: By) -> list[Share]:
    """Return the bills in scope split by something, largest first, lines that it doesn't reach last."""
    owed = lines(scope, scope.span)
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
    others = (own for tenant, own in _lines_of_all(scope, scope.span).items() if tenant != scope.tenant)
    return sum((amount for own in others for amount in own.values()), ZERO)


def leases_of(scope: Scope, workload: str) -> list[dict[str, Any]]:
    """Return a workload's charges, each with its part of the workload's cost: what a line is made of.

    Returns:
        lease, node, device, class, reservation, start, end, gpus, gpu_hours, rate, amount; grain: stretch of a lease
        in one class at one rate.
    """
    cost = _added(w.cost for w in workloads(scope, scope.span, workload))
    rows = scope.ask(
        f"""SELECT charge.lease, lease.node, lease.device, lease.instance, charge.class, charge.reservation,
            charge.rate, min(charge.start) AS start, max(charge."end") AS "end", sum(charge.gpu_hours) AS gpu_hours,
            sum(charge.gpu_hours * charge.rate::DOUBLE) AS weight
        FROM (SELECT * FROM charge WHERE {IN_DAYS} AND tenant = $tenant) AS charge
        JOIN lease ON lease.id = charge.lease
        WHERE $workload IN (charge.workload, lease.cluster || ':' || charge.workload)
        GROUP BY ALL ORDER BY start, lease.node, lease.device, charge.class, charge.rate""",
        workload=workload,
    ).to_dicts()
    weights = {n: exact(row["weight"]) for n, row in enumerate(rows)}
    if not any(weights.values()):
        return [{**row, "amount": ZERO} for row in rows]
    parts = largest_remainder(round_money(cost, scope.currency), weights, scope.currency)
    return [{**row, "amount": parts[n]} for n, row in enumerate(rows)]


@dataclass(frozen=True)
class Work:
    """What a workload held in a span, and what of its tenant's usage and reserved lines that is.

    Attributes:
        observed: GPU-hours in months in which it was observed at all; active: of those, by the month's utilization.
    """

    tenant: str
    workload: str
    user: str | None
    gpu_hours: float
    observed: float
    active: float
    cost: Decimal

    @property
    def utilization(self) -> float | None:
        """How busy it was; None: it was never observed."""
        return self.active / self.observed if self.observed else None


_WHOLE_WORK: Final = f"""
    -- grain: tenant × workload, of the months that lie whole in the span
    SELECT tenant, workload, max("user") AS "user", sum(gpu_hours) AS gpu_hours,
           coalesce(sum(gpu_hours) FILTER (utilization IS NOT NULL), 0) AS observed,
           coalesce(sum(gpu_hours * utilization), 0) AS active, sum(cost) AS cost
    FROM workload_period WHERE {WHOLE} AND {ALLOWED} AND ($workload IS NULL OR workload = $workload)
    GROUP BY ALL ORDER BY cost DESC, workload, tenant LIMIT $most
"""
_CUT_WORK: Final = f"""
    -- grain: month × tenant × workload, of the days in months of which the span holds a part
    WITH part AS (
        SELECT charge.period, charge.tenant, lease.cluster || ':' || charge.workload AS full_name, charge.workload,
               sum(charge.gpu_hours) AS gpu_hours,
               sum(charge.gpu_hours * charge.rate::DOUBLE) FILTER (reservation IS NULL) AS used,
               sum(charge.gpu_hours * charge.rate::DOUBLE) FILTER (reservation IS NOT NULL) AS reserved
        FROM (SELECT * FROM charge WHERE {IN_DAYS} AND NOT {WHOLE} AND tenant IS NOT NULL AND {ALLOWED}) AS charge
        JOIN lease ON lease.id = charge.lease
        GROUP BY ALL
    )
    SELECT part.period, part.tenant, w.workload, w."user", w.utilization, sum(part.gpu_hours) AS gpu_hours,
           coalesce(sum(used), 0) AS used, coalesce(sum(reserved), 0) AS reserved
    FROM part JOIN workload_period AS w
        ON w.period = part.period AND w.tenant = part.tenant AND w.workload IN (part.workload, part.full_name)
    GROUP BY ALL ORDER BY ALL
"""
_CUT_LINES: Final = f"""
    -- grain: month × tenant
    SELECT period, tenant, coalesce(sum(amount) FILTER (line = 'usage'), 0) AS used,
           coalesce(sum(amount) FILTER (line = 'reserved'), 0) AS reserved
    FROM line_day WHERE {IN_DAYS} AND NOT {WHOLE} AND {ALLOWED} GROUP BY ALL
"""


def workloads(scope: Scope, span: Span, workload: str | None = None, *, most: int = 1 << 31) -> list[Work]:
    """Return the workloads of a span (`most` of them), the dearest first.

    Their costs add up to the usage and reserved lines.

    Of whole months they are the reports' own; days have their parts of a month's lines, split by what was charged.
    """
    limit = 1 << 31 if span.cut else most
    rows = scope.ask(_WHOLE_WORK, span, workload=workload, most=limit).iter_rows(named=True) if span.whole else ()
    found = [Work(**row) for row in rows]
    if span.cut:
        found = _merged([*found, *(w for w in _of_days(scope, span) if workload in (None, w.workload))])
    return found[:most]


def _of_days(scope: Scope, span: Span) -> Iterator[Work]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in scope.ask(_CUT_WORK, span).iter_rows(named=True):
        rows[row["period"], row["tenant"]].append(row)
    for month, tenant, *amounts in scope.ask(_CUT_LINES, span).iter_rows():
        own = rows[month, tenant]
        costs = dict.fromkeys(range(len(own)), ZERO)
        for name, amount in zip(("used", "reserved"), amounts, strict=True):
            weights = {n: exact(row[name]) for n, row in enumerate(own)}
            if any(weights.values()):
                parts = largest_remainder(round_money(amount, scope.currency), weights, scope.currency)
                costs = {n: costs[n] + parts[n] for n in costs}
        for n, row in enumerate(own):
            hours, busy = row["gpu_hours"], row["utilization"]
            seen, active = (0.0, 0.0) if busy is None else (hours, hours * busy)
            yield Work(tenant, row["workload"], row["user"], hours, seen, active, costs[n])


def _merged(found: Iterable[Work]) -> list[Work]:
    sums: dict[tuple[str, str], Work] = {}
    for work in found:
        key = (work.tenant, work.workload)
        was = sums.get(key)
        sums[key] = work if was is None else _added_up(was, work)
    return sorted(sums.values(), key=lambda w: (-w.cost, w.workload, w.tenant))


def _added_up(one: Work, other: Work) -> Work:
    return replace(
        one,
        gpu_hours=one.gpu_hours + other.gpu_hours,
        observed=one.observed + other.observed,
        active=one.active + other.active,
        cost=one.cost + other.cost,
    )


def _by_tenant(scope: Scope, owed: Mapping[str, Mapping[str, Decimal]], by: str) -> list[Share]:
    hours = dict(
        scope.ask(
            f"SELECT tenant, sum(allocated_gpu_hours) FROM held_day WHERE {IN_DAYS} AND {ALLOWED} GROUP BY tenant"
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
    found = workloads(scope, scope.span)
    if by == "workload":
        return [Share(w.workload, w.workload, w.cost, w.gpu_hours, w.tenant) for w in found]
    sums: dict[tuple[str | None, str], Share] = {}
    for w in found:
        was = sums.get((w.user, w.tenant), Share(w.user or "", w.user or "User not known", ZERO, 0.0, w.tenant))
        hours = (was.gpu_hours or 0.0) + w.gpu_hours
        sums[w.user, w.tenant] = replace(was, amount=was.amount + w.cost, gpu_hours=hours)
    return list(sums.values())


def _by_charge(scope: Scope, owed: Mapping[str, Mapping[str, Decimal]], by: Literal["model", "class"]) -> list[Share]:
    rows = scope.ask(
        f"""SELECT tenant, "{by}" AS key, reservation IS NOT NULL AS reserved, sum(gpu_hours) AS gpu_hours,
            sum(gpu_hours * rate::DOUBLE) AS weight
        FROM charge WHERE {IN_DAYS} AND tenant IS NOT NULL AND {ALLOWED} GROUP BY ALL ORDER BY ALL"""
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
