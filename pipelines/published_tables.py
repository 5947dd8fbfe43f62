"""Tables that readers aggregate in milliseconds: by month and by local day, from usage, charges and reports.

They repeat what the reports say and add nothing: lines, totals and their cents are the reports' own. A column named
``…_weight`` is price × hours before rounding: what a line is split by, never money itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import polars as pl

from pipelines.config import Config
from pipelines.instants import HOUR_MS
from pipelines.metering import Metered
from pipelines.observations import PPB, RATIOS
from pipelines.published_days import held_days, line_days
from pipelines.rates import RateCard
from pipelines.report import Report, TenantReport
from pipelines.tenancy import tenancy

MONEY: Final = pl.Decimal(38, 4)  # no currency has a finer minor unit
MONTH: Final = "%Y-%m"

CHARGES: Final = ("usage", "reservation", "idle", "energy", "overhead", "commitment", "credit", "adjustment", "total")
HOURS: Final = ("allocated", "active", "reserved", "on_demand", "overflow", "spot", "reserved_unused")
FLEET_HOURS: Final = ("capacity", "allocated", "idle", "stranded", "down", "unobserved")

PERIOD: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "start": pl.Datetime("ms", "UTC"),
    "end": pl.Datetime("ms", "UTC"),
}
"""grain: local month of the data; [start, end)."""

FLEET_PERIOD: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    **{f"{name}_gpu_hours": pl.Float64() for name in FLEET_HOURS},
    "unattributed_gpu_hours": pl.Float64(),
    "devices": pl.Int64(),
    "energy_kwh": pl.Float64(),
    **dict.fromkeys(("cost", "billed", "unbilled"), MONEY),
}
"""grain: month."""

TENANT_PERIOD: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    **{f"{name}_gpu_hours": pl.Float64() for name in HOURS},
    "utilization": pl.Float64(),
    "coverage": pl.Float64(),
    "energy_kwh": pl.Float64(),
    "co2e_kg": pl.Float64(),
    **dict.fromkeys(CHARGES, MONEY),
    "waste": MONEY,
}
"""grain: month × tenant."""

WORKLOAD_PERIOD: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "workload": pl.String(),
    "user": pl.String(),
    "start": pl.Datetime("ms", "UTC"),
    "end": pl.Datetime("ms", "UTC"),
    "gpu_hours": pl.Float64(),
    "utilization": pl.Float64(),
    "coverage": pl.Float64(),
    "cost": MONEY,
    "bottleneck": pl.String(),
}
"""grain: month × tenant × workload."""

DEVICE_DAY: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "day": pl.Date(),  # local
    "cluster": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "model": pl.String(),
    "state": pl.String(),
    "tenant": pl.String(),  # who pays, where allocated; null: unattributed
    "gpu_hours": pl.Float64(),
    "observed_gpu_hours": pl.Float64(),  # of the allocated: with a valid busy sample
    "busy_gpu_hours": pl.Float64(),  # of the observed
    "on_demand_weight": pl.Float64(),  # null: no price is known
}
"""grain: local day × card × state × tenant."""

CHARGE_DAY: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "day": pl.Date(),
    "tenant": pl.String(),
    "model": pl.String(),
    "class": pl.String(),
    "gpu_hours": pl.Float64(),
    "charge_weight": pl.Float64(),
}
"""grain: local day × tenant × model × class."""

LEASE_PERIOD: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "lease": pl.String(),
    "tenant": pl.String(),
    "first": pl.Int64(),  # ms, within the month
    "last": pl.Int64(),
    "gpu_hours": pl.Float64(),
    **{f"{name}_observed_gpu_hours": pl.Float64() for name in RATIOS},
    **{f"{name}_gpu_hours": pl.Float64() for name in RATIOS},  # ratio × hours, of the observed
    "memory_byte_hours": pl.Float64(),
    "energy_joules": pl.Float64(),
    "on_demand_weight": pl.Float64(),
}
"""grain: month × lease × tenant (a lease changes tenant where selectors are dated)."""

RESERVATION: Final[dict[str, pl.DataType]] = {
    "id": pl.String(),
    "tenant": pl.String(),
    "model": pl.String(),  # glob
    "gpus": pl.Int64(),
    "start": pl.Datetime("ms", "UTC"),
    "end": pl.Datetime("ms", "UTC"),
}
"""grain: reservation."""

RATE: Final[dict[str, pl.DataType]] = {
    "model": pl.String(),  # glob
    "start": pl.Datetime("ms", "UTC"),  # null: since ever
    "end": pl.Datetime("ms", "UTC"),  # null: until further notice
    **{name: pl.Decimal(38, 18) for name in ("on_demand", "reserved", "overflow", "spot")},
}
"""grain: entry of the rate card, in file order; the first that matches counts. Per GPU-hour; null: as on demand."""


def fleet_tables(
    metered: Metered, reports: Mapping[str, Report], charges: pl.DataFrame, config: Config
) -> dict[str, pl.DataFrame]:
    """Return the operator's tables.

    Args:
        reports: by month, as "2026-11".
        charges: publish.CHARGE.
    """
    usage = _priced(metered, config)
    bounds = [(month, report.period.from_, report.period.to) for month, report in reports.items()]
    device_day, lease_period = _device_day(usage), _lease_period(usage)
    return {
        "period": pl.DataFrame(bounds, schema=PERIOD, orient="row"),
        "fleet_period": _fleet_period(reports),
        "tenant_period": _tenant_period([(month, row) for month, report in reports.items() for row in report.tenants]),
        "workload_period": _workload_period(
            [(month, row) for month, report in reports.items() for row in report.tenants]
        ),
        "device_day": device_day,
        "charge_day": _charge_day(charges),
        "lease_period": lease_period,
        "line_day": line_days(reports, charges, device_day, config),
        "held_day": held_days(reports, charges, lease_period, config),
        "reservation": pl.DataFrame(
            [(r.id, r.tenant, r.model, r.gpus, r.from_, r.to) for r in config.reservations],
            schema=RESERVATION,
            orient="row",
        ),
        "rate": pl.DataFrame(
            [(r.model, r.from_, r.to, r.on_demand, r.reserved, r.overflow, r.spot) for r in config.rates_in_force],
            schema=RATE,
            orient="row",
        ),
    }


def tenant_tables(tenant: str, fleet: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return one tenant's part of `fleet_tables`: its own rows, and nothing of the fleet."""
    own = (
        *("tenant_period", "workload_period", "lease_period", "reservation"),
        *("device_day", "charge_day", "line_day", "held_day"),
    )
    shared = {name: fleet[name] for name in ("period", "rate")}
    return {**shared, **{name: fleet[name].filter(pl.col("tenant") == tenant) for name in own}}


def _fleet_period(reports: Mapping[str, Report]) -> pl.DataFrame:
    rows = [
        (
            month,
            *(getattr(report.fleet, f"{name}_gpu_hours") for name in FLEET_HOURS),
            report.unattributed_gpu_hours,
            report.fleet.devices,
            report.fleet.energy_kwh,
            *(Decimal(amount) for amount in (report.fleet.cost, report.fleet.billed, report.fleet.unbilled)),
        )
        for month, report in reports.items()
    ]
    return pl.DataFrame(rows, schema=FLEET_PERIOD, orient="row")


def _tenant_period(tenants: Sequence[tuple[str, TenantReport]]) -> pl.DataFrame:
    rows = [
        (
            month,
            t.tenant,
            *(getattr(t.gpu_hours, name) for name in HOURS),
            t.utilization,
            t.coverage,
            t.energy_kwh,
            t.co2e_kg,
            *(Decimal(getattr(t.charges, name)) for name in CHARGES),
            None if t.waste is None else Decimal(t.waste),
        )
        for month, t in tenants
    ]
    return pl.DataFrame(rows, schema=TENANT_PERIOD, orient="row")


def _workload_period(tenants: Sequence[tuple[str, TenantReport]]) -> pl.DataFrame:
    rows = [
        (
            month, t.tenant, w.workload, w.user, w.start, w.end, w.gpu_hours, w.utilization, w.coverage,
            Decimal(w.cost), w.bottleneck,
        )
        for month, t in tenants
        for w in t.workloads
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=WORKLOAD_PERIOD, orient="row")


def _priced(metered: Metered, config: Config) -> pl.DataFrame:
    """Add to usage its local day and month, who pays, its part of the card and its on-demand price."""
    stretches = tenancy(metered.leases, config).select("lease", "from", "to", payer="tenant")
    usage = metered.usage.join(stretches, on="lease", how="left").filter(
        pl.col("from").is_null() | ((pl.col("start") >= pl.col("from")) & (pl.col("start") < pl.col("to")))
    )
    card = RateCard(config)
    stretch = np.searchsorted(np.array(card.edges, np.int64), usage["start"].to_numpy(), side="right")
    usage = usage.with_columns(pl.Series("stretch", stretch))
    at = usage.group_by("model", "stretch").agg(pl.col("start").min())
    prices = [
        (model, nth, None if (price := card.price(model, "on_demand", start)) is None else float(price))
        for model, nth, start in at.iter_rows()
    ]
    schema = pl.Schema({"model": pl.String(), "stretch": usage.schema["stretch"], "price": pl.Float64()})
    day = pl.from_epoch("start", "ms").dt.replace_time_zone("UTC").dt.convert_time_zone(config.timezone.key).dt.date()
    return (
        usage.join(
            pl.DataFrame(prices, schema=schema, orient="row"), on=["model", "stretch"], how="left", nulls_equal=True
        )
        .with_columns(
            day=day,
            period=day.dt.strftime(MONTH),
            part=pl.col("weight_num") / pl.col("weight_den") / HOUR_MS,  # hours of a whole card per ms
        )
        .with_columns(gpu_hours=(pl.col("end") - pl.col("start")) * pl.col("part"))
        .with_columns(on_demand_weight=pl.col("gpu_hours") * pl.col("price"))
        .rename({"payer": "tenant"})
    )


def _device_day(usage: pl.DataFrame) -> pl.DataFrame:
    grain = ("period", "day", "cluster", "node", "device", "model", "state", "tenant")
    return (
        usage.group_by(*grain)
        .agg(
            pl.col("gpu_hours").sum(),
            observed_gpu_hours=(pl.col("busy_observed_ms") * pl.col("part")).sum(),
            busy_gpu_hours=(pl.col("busy_ppb_ms") * pl.col("part") / PPB).sum(),
            on_demand_weight=_sum_known("on_demand_weight"),
        )
        .sort(*grain)
        .select(pl.col(c).cast(t) for c, t in DEVICE_DAY.items())
    )


def _lease_period(usage: pl.DataFrame) -> pl.DataFrame:
    grain = ("period", "lease", "tenant")
    return (
        usage.filter(pl.col("state") == "allocated")
        .group_by(*grain)
        .agg(
            pl.col("gpu_hours").sum(),
            pl.col("start").min().alias("first"),
            pl.col("end").max().alias("last"),
            *((pl.col(f"{r}_observed_ms") * pl.col("part")).sum().alias(f"{r}_observed_gpu_hours") for r in RATIOS),
            *((pl.col(f"{r}_ppb_ms") * pl.col("part") / PPB).sum().alias(f"{r}_gpu_hours") for r in RATIOS),
            (pl.col("memory_byte_ms") / HOUR_MS).sum().alias("memory_byte_hours"),
            _sum_known("energy_joules").alias("energy_joules"),
            _sum_known("on_demand_weight").alias("on_demand_weight"),
        )
        .sort(*grain)
        .select(pl.col(c).cast(t) for c, t in LEASE_PERIOD.items())
    )


def _charge_day(charges: pl.DataFrame) -> pl.DataFrame:
    grain = ("period", "day", "tenant", "model", "class")
    return (
        charges.group_by(*grain)
        .agg(
            pl.col("gpu_hours").sum(),
            charge_weight=(pl.col("gpu_hours") * pl.col("rate").cast(pl.Float64)).sum(),
        )
        .sort(*grain)
        .select(pl.col(c).cast(t) for c, t in CHARGE_DAY.items())
    )


def _sum_known(column: str) -> pl.Expr:
    """Sum what is known; null where nothing is."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())
