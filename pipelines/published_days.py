"""Each month's lines by local day, to the cent: what any range of days is billed is a sum of these.

A line is made once, for its month; a day has a largest-remainder part of it, by what was used, reserved or left idle on
that day. Lines that nothing on a day made (overheads, commitments, adjustments) go by the day's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Final

import polars as pl

from pipelines.config import Config
from pipelines.instants import HOUR_MS, to_ms
from pipelines.money import largest_remainder, round_money
from pipelines.periods import local_midnights
from pipelines.rates import RateCard
from pipelines.report import Report, TenantReport

LINE_DAY: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "day": pl.Date(),
    "tenant": pl.String(),
    "line": pl.String(),  # of LINES
    "amount": pl.Decimal(38, 4),
}
"""grain: local day × tenant × line, where there is an amount; a month's days add up to its report."""

HELD_DAY: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "day": pl.Date(),
    "tenant": pl.String(),
    "allocated_gpu_hours": pl.Float64(),
    "observed_gpu_hours": pl.Float64(),  # of leases that were ever observed in the month
    "active_gpu_hours": pl.Float64(),  # of those, by each lease's mean of the month
    "waste": pl.Decimal(38, 4),  # part of the month's; null: no lease of the day was observed
}
"""grain: local day × tenant that held something."""

LINES: Final = ("usage", "reserved", "unused", "idle", "energy", "overhead", "commitment", "credit", "adjustment")
"""A report's charges; its reservation is told apart into what was used of it and what was not."""

Days = dict[date, Fraction]
"""Something by local day."""


def line_days(
    reports: Mapping[str, Report], charges: pl.DataFrame, device_days: pl.DataFrame, config: Config
) -> pl.DataFrame:
    """Return LINE_DAY.

    Args:
        reports: by month, as "2026-11".
        charges: publish.CHARGE; device_days: published_tables.DEVICE_DAY.
    """
    used = _by_day(charges.filter(pl.col("reservation").is_null()))
    reserved = _by_day(charges.filter(pl.col("reservation").is_not_null()))
    lost = device_days.filter(pl.col("state").is_in(["idle", "stranded", "down"]))
    idle = _days_of(lost.group_by("period", "day").agg(weight=pl.col("on_demand_weight").sum()), "period")
    held = _days_of(
        device_days.filter(pl.col("tenant").is_not_null())
        .group_by("period", "tenant", "day")
        .agg(weight=pl.col("gpu_hours").sum()),
        "period",
        "tenant",
    )
    rows: list[tuple[str, date, str, str, Decimal]] = []
    for month, report in reports.items():
        lengths = _lengths(report, config)
        for tenant in report.tenants:
            key = (month, tenant.tenant)
            own_reserved = reserved.get(key, {})
            fees = _fees(tenant.tenant, report, config)
            weights: dict[str, Days] = {
                "usage": used.get(key, {}),
                "reserved": own_reserved,
                "unused": {
                    day: max(fee - own_reserved.get(day, Fraction(0)), Fraction(0)) for day, fee in fees.items()
                },
                "idle": idle.get((month,), {}),
                "energy": held.get(key, {}),
                "credit": fees,
            }
            for line, amount in lines_of(tenant, config.currency).items():
                parts = split(amount, weights.get(line, {}), lengths, config.currency)
                rows += [(month, day, tenant.tenant, line, part) for day, part in parts.items() if part]
    return pl.DataFrame(rows, schema=LINE_DAY, orient="row")


def held_days(
    reports: Mapping[str, Report], charges: pl.DataFrame, lease_periods: pl.DataFrame, config: Config
) -> pl.DataFrame:
    """Return HELD_DAY.

    Args:
        lease_periods: published_tables.LEASE_PERIOD.
    """
    seen = pl.col("busy_observed_gpu_hours") > 0
    mean = pl.when(seen).then(pl.col("busy_gpu_hours") / pl.col("busy_observed_gpu_hours"))
    leases = lease_periods.select("period", "tenant", "lease", mean=mean, price=_per_hour("on_demand_weight"))
    hours, known = pl.col("gpu_hours"), pl.col("mean").is_not_null()
    days = (
        charges.filter(pl.col("tenant").is_not_null())
        .join(leases, on=["period", "tenant", "lease"], how="left")
        .group_by("period", "tenant", "day")
        .agg(
            allocated_gpu_hours=hours.sum(),
            observed_gpu_hours=hours.filter(known).sum(),
            active_gpu_hours=(hours * pl.col("mean")).filter(known).sum(),
            weight=(hours * (1 - pl.col("mean")) * pl.col("price")).filter(known).sum().clip(0),
        )
        .sort("period", "tenant", "day")
    )
    weights = _days_of(days.filter(pl.col("observed_gpu_hours") > 0), "period", "tenant")
    wastes: dict[tuple[str, str, date], Decimal] = {}
    for month, report in reports.items():
        for tenant in (t for t in report.tenants if t.waste is not None):
            own = weights.get((month, tenant.tenant), {})
            even = dict.fromkeys(own, Fraction(1))
            parts = split(Decimal(tenant.waste or 0), own, even, config.currency)
            wastes |= {(month, tenant.tenant, day): parts.get(day, Decimal(0)) for day in own}
    keys = days.select("period", "tenant", "day").iter_rows()
    amounts = pl.Series("waste", [wastes.get(key) for key in keys], dtype=HELD_DAY["waste"])
    return days.with_columns(amounts).select(pl.col(c).cast(t) for c, t in HELD_DAY.items())


def lines_of(tenant: TenantReport, currency: str) -> dict[str, Decimal]:
    """Return a tenant's charges by LINES; they add up to its total."""
    charges = tenant.charges
    worked = sum((Decimal(w.cost) for w in tenant.workloads), Decimal(0))
    reserved = worked - Decimal(charges.usage)
    found = {
        "reserved": reserved,
        "unused": Decimal(charges.reservation) - reserved,
        **{n: Decimal(getattr(charges, n)) for n in LINES if n not in ("reserved", "unused")},
    }
    return {name: round_money(found[name], currency) for name in LINES}


def split(amount: Decimal, weights: Days, lengths: Days, currency: str) -> dict[date, Decimal]:
    """Return a line by day, by its own weights where there are any, else by the days' lengths."""
    if not amount:
        return {}
    chosen = weights if any(weights.values()) else lengths
    return largest_remainder(amount, chosen, currency) if any(chosen.values()) else {}


def exact(weight: float | None) -> Fraction:
    """Return a weight without the noise of its floating-point sum, so that equal parts tie."""
    return Fraction(0) if weight is None else Fraction(f"{weight:.9f}")


def _by_day(charges: pl.DataFrame) -> dict[tuple[str, ...], Days]:
    weight = (pl.col("gpu_hours") * pl.col("rate").cast(pl.Float64)).sum()
    return _days_of(charges.group_by("period", "tenant", "day").agg(weight=weight), "period", "tenant")


def _days_of(rows: pl.DataFrame, *keys: str) -> dict[tuple[str, ...], Days]:
    found: dict[tuple[str, ...], Days] = {}
    for *key, day, weight in rows.select(*keys, "day", "weight").iter_rows():
        found.setdefault(tuple(key), {})[day] = exact(weight)
    return found


def _per_hour(column: str) -> pl.Expr:
    return pl.when(pl.col("gpu_hours") > 0).then(pl.col(column) / pl.col("gpu_hours"))


def _spans(report: Report, config: Config) -> Iterator[tuple[date, int, int]]:
    """Yield the local days of a report's period with their bounds in ms."""
    start, end = report.period.from_, report.period.to
    edges = [start, *local_midnights(start, end, config.timezone), end]
    for first, last in pairwise(edges):
        yield first.astimezone(config.timezone).date(), to_ms(first), to_ms(last)


def _lengths(report: Report, config: Config) -> Days:
    return {day: Fraction(end - start, HOUR_MS) for day, start, end in _spans(report, config)}


def _fees(tenant: str, report: Report, config: Config) -> Days:
    """Return what a tenant's reservations cost by day, before discounts; only their proportions matter."""
    card = RateCard(config)
    fees: Days = {}
    own = [r for r in config.reservations if r.tenant == tenant]
    for day, start, end in _spans(report, config) if own else ():
        for reservation in own:
            first, last = max(start, to_ms(reservation.from_)), min(end, to_ms(reservation.to))
            if first < last:
                fee = reservation.gpus * Fraction(last - first, HOUR_MS) * card.reserved(reservation, first)
                fees[day] = fees.get(day, Fraction(0)) + fee
    return fees
