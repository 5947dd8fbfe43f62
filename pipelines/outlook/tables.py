"""The outlook of every month as tables that readers open, and as `outlook` of the report.

They hold estimates beside the bill, and never the bill itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import duckdb
import polars as pl

from pipelines.config import Config
from pipelines.instants import from_ms, to_ms
from pipelines.money import plain, round_money
from pipelines.outlook.anomalies import HOURS_A_WEEK, USUAL_WEEKS, anomalies
from pipelines.outlook.burn import Burn, exhausted_on
from pipelines.outlook.entitlements import entitlement_use, fairness
from pipelines.outlook.history import DAY, by_day, by_hour, reached, whole_days
from pipelines.outlook.model import Outlook
from pipelines.outlook.projection import Projection, run_rate, seasonal, still_to_come
from pipelines.outlook.unit_costs import tensor_activity, unit_costs
from pipelines.rating import Rated
from pipelines.report import Report

TIME: Final = pl.Datetime("ms", "UTC")
MONEY: Final = pl.Decimal(38, 4)

BUDGET: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "kind": pl.String(),  # money | gpu_hours
    "budget": pl.Float64(),
    "spent": pl.Float64(),
    "spent_ratio": pl.Float64(),
    "elapsed_ratio": pl.Float64(),
    "exhausted_on": pl.Date(),
}
"""grain: month × tenant × kind of budget."""

PROJECTION: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "kind": pl.String(),  # money | gpu_hours
    "method": pl.String(),  # run_rate | seasonal
    "expected": pl.Float64(),
    "low": pl.Float64(),  # [low, high] holds 80 %
    "high": pl.Float64(),
    "days": pl.Int64(),
}
"""grain: running month × tenant × kind × method."""

ANOMALY: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "start": TIME,
    "end": TIME,
    "gpu_hours": pl.Float64(),
    "usual_gpu_hours": pl.Float64(),
    "score": pl.Float64(),
    "causes": pl.String(),  # JSON: [{workload, gpu_hours}], largest first
}
"""grain: tenant × hours on end, of the last JUDGED_DAYS."""

UNIT_COST: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),  # null: the fleet
    **dict.fromkeys(("allocated", "active", "tensor_active"), MONEY),
}
"""grain: month × tenant; money per GPU-hour."""

ENTITLEMENT: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "kind": pl.String(),  # quota | reservation
    "name": pl.String(),
    "gpus": pl.Int64(),
    "mean_gpus": pl.Float64(),
    "peak_gpus": pl.Float64(),
    "utilization": pl.Float64(),
}
"""grain: month × tenant × quota or reservation."""

FAIRNESS: Final[dict[str, pl.DataType]] = {"period": pl.String(), "fairness": pl.Float64(), "reached": TIME}
"""grain: month; Jain's index, and how far the data goes."""

TABLES: Final[Mapping[str, Mapping[str, pl.DataType]]] = {
    "tenant_day": DAY,
    "budget": BUDGET,
    "projection": PROJECTION,
    "anomaly": ANOMALY,
    "unit_cost": UNIT_COST,
    "entitlement": ENTITLEMENT,
}
"""Tables with a column ``tenant``; of `fairness` a tenant sees nothing."""

JUDGED_DAYS: Final = 35
Month = tuple[str, Rated, Report]


def outlook_tables(
    months: Sequence[Month],
    charges: pl.DataFrame,
    leases: pl.DataFrame,
    span: tuple[int, int] | None,
    config: Config,
    as_of: datetime,
) -> dict[str, pl.DataFrame]:
    """Return TABLES and `fairness` of all months.

    Args:
        charges: publish.CHARGE.
        leases: published_tables.LEASE_PERIOD.
    """
    until = reached(as_of, span)
    edge = to_ms(until)
    days = by_day(charges, [t.id for t in config.tenants], whole_days((span[0], edge), config.timezone) if span else [])
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ("budget", "projection", "unit_cost", "entitlement")}
    even: list[tuple[Any, ...]] = []
    for name, rated, report in months:
        start, end = to_ms(report.period.from_), min(to_ms(report.period.to), edge)
        if start >= end:
            continue
        ahead = _Ahead(name, report, days, until, config)
        rows["budget"] += ahead.budgets()
        rows["projection"] += ahead.projections()
        tensor = tensor_activity(leases.filter(pl.col("period") == name))
        for cost in unit_costs(report, rated.tenants, tensor):
            prices = (cost.allocated, cost.active, cost.tensor_active)
            rows["unit_cost"].append((name, cost.tenant, *(_price(p, config.currency) for p in prices)))
        rows["entitlement"] += [
            (name, u.tenant, u.kind, u.name, u.gpus, u.mean_gpus, u.peak_gpus, u.utilization)
            for u in entitlement_use(rated.charges, config, start, end)
        ]
        own = {t: use for t, use in rated.tenants.items() if t is not None}
        even.append((name, fairness(own, config), until))
    unusual = _anomalies(charges, span, edge)
    frames = {name: pl.DataFrame(r, schema=dict(TABLES[name]), orient="row") for name, r in rows.items()}
    return {
        "tenant_day": days,
        **frames,
        "anomaly": unusual,
        "fairness": pl.DataFrame(even, schema=FAIRNESS, orient="row"),
    }


class _Ahead:
    """One month, looked at from where the data goes."""

    def __init__(self, name: str, report: Report, days: pl.DataFrame, until: datetime, config: Config) -> None:
        self._name, self._report, self._config = name, report, config
        zone = config.timezone
        start, end = report.period.from_, report.period.to
        self._running = until < end
        self._today = min(until, end - timedelta(microseconds=1)).astimezone(zone).date()
        first, after = start.astimezone(zone).date(), end.astimezone(zone).date()
        length = (end - start) / timedelta(days=1)
        self._elapsed = min(max((until - start) / (end - start), 0.0), 1.0)
        self._left = length * (1 - self._elapsed)
        whole_left = (after - self._today).days - 1
        self._to_come = still_to_come(self._today, min(max(self._left - whole_left, 0.0), 1.0), after)
        self._days, self._first = days, first

    def budgets(self) -> list[tuple[Any, ...]]:
        found = []
        for tenant in self._config.tenants:
            for kind, budget, spent in self._spent(tenant.id):
                if budget is None:
                    continue
                projected = self._projected(tenant.id, kind, spent)[0] if self._running else None
                gone = exhausted_on(budget, spent, projected, self._today, self._left)
                burn = Burn(tenant.id, kind, budget, spent, self._elapsed, gone)
                found.append(
                    (
                        self._name, burn.tenant, burn.kind, burn.budget, burn.spent, burn.spent_ratio,
                        burn.elapsed_ratio, burn.exhausted_on,
                    )
                )  # fmt: skip
        return found

    def projections(self) -> list[tuple[Any, ...]]:
        if not self._running:
            return []
        return [
            (self._name, row.tenant, kind, p.method, p.expected, p.low, p.high, p.days)
            for row in self._report.tenants
            for kind, _, spent in self._spent(row.tenant)
            for p in self._projected(row.tenant, kind, spent)
            if p is not None
        ]

    def _spent(self, tenant: str) -> list[tuple[Any, float | None, float]]:
        row = next((t for t in self._report.tenants if t.tenant == tenant), None)
        settings = next((t for t in self._config.tenants if t.id == tenant), None)
        budget = settings.budget if settings else None
        money = None if budget is None or budget.monthly is None else float(budget.monthly)
        hours = None if budget is None or budget.gpu_hours is None else float(budget.gpu_hours)
        return [
            ("money", money, float(row.charges.total) if row else 0.0),
            ("gpu_hours", hours, row.gpu_hours.allocated if row else 0.0),
        ]

    def _projected(self, tenant: str, kind: str, spent: float) -> tuple[Projection | None, Projection | None]:
        column = "spend" if kind == "money" else "gpu_hours"
        own = self._days.filter(pl.col("tenant") == tenant)
        history: dict[date, float] = dict(own.select("day", column).iter_rows())
        this_month = [amount for day, amount in history.items() if self._first <= day < self._today]
        before = {day: amount for day, amount in history.items() if day < self._today}
        return run_rate(spent, this_month, self._left), seasonal(spent, before, self._to_come)


def _anomalies(charges: pl.DataFrame, span: tuple[int, int] | None, edge: int) -> pl.DataFrame:
    rows = []
    if span is not None:
        since = edge - JUDGED_DAYS * 24 * 3_600_000
        start = max(span[0], since - USUAL_WEEKS * HOURS_A_WEEK * 3_600_000)
        recent = charges.filter(pl.col("end") > from_ms(start))
        rows = [
            (
                a.tenant, from_ms(a.start), from_ms(a.end), a.gpu_hours, a.usual_gpu_hours, a.score,
                json.dumps([{"workload": c.workload, "gpu_hours": round(c.gpu_hours, 6)} for c in a.causes]),
            )
            for a in anomalies(by_hour(recent), start, edge, since=since)
        ]  # fmt: skip
    return pl.DataFrame(rows, schema=ANOMALY, orient="row")


def _price(price: Fraction | None, currency: str) -> Decimal | None:
    return None if price is None else round_money(price, currency)


def read_outlook(
    connection: duckdb.DuckDBPyConnection, month: str, start: datetime, end: datetime, currency: str
) -> Outlook | None:
    """Return a month's outlook from a published fleet file; None: the file holds none of it."""

    def rows(table: str, where: str = "period = ?", values: Sequence[Any] = (month,)) -> list[dict[str, Any]]:
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY ALL"  # noqa: S608
        found: list[dict[str, Any]] = connection.sql(query, params=list(values)).pl().to_dicts()
        return [{k: v for k, v in row.items() if k != "period"} for row in found]

    try:
        even = rows("fairness")
    except duckdb.CatalogException:
        return None  # published by an older release
    if not even:
        return None
    costs = ("allocated", "active", "tensor_active")
    return Outlook.model_validate(
        {
            "reached": even[0]["reached"],
            "budgets": [_amounts(row, ("budget", "spent"), currency) for row in rows("budget")],
            "projections": [_amounts(row, ("expected", "low", "high"), currency) for row in rows("projection")],
            "anomalies": [
                {**_rounded(row), "causes": json.loads(row["causes"])}
                for row in rows("anomaly", 'start < ? AND "end" > ?', (end, start))
            ],
            "unit_costs": [
                {"tenant": row["tenant"], **{k: _shown(row[k], currency) for k in costs}} for row in rows("unit_cost")
            ],
            "entitlements": [_rounded(row) for row in rows("entitlement")],
            "fairness": None if even[0]["fairness"] is None else round(even[0]["fairness"], 6),
        }
    )


def _amounts(row: Mapping[str, Any], columns: Sequence[str], currency: str) -> dict[str, Any]:
    """Return money in the minor unit and hours to six decimals, both as text."""
    money = row["kind"] == "money"
    text = {c: _shown(Decimal(repr(row[c])), currency) if money else f"{row[c]:.6f}" for c in columns}
    return {**_rounded(row), **text}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}


def _shown(amount: Decimal | None, currency: str) -> str | None:
    return None if amount is None else plain(round_money(amount, currency))
