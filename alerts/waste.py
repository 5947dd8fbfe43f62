"""Alerts on money that buys nothing: held and idle, free, reserved and unused."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.rule import Alert
from pipelines.config import Config
from pipelines.promql.expressions import lasting, number
from pipelines.promql.recorded import FREE_COST, IDLE_COST, RESERVATION_USED, RESERVED


def waste(config: Config) -> Iterator[Alert]:
    """Alerts by tenant, and on the fleet; from which amounts is configured."""
    currency, limits = config.currency, config.alerts
    yield Alert(
        name="TenantGpusIdle",
        expr=f"sum by (tenant) (max_over_time({IDLE_COST}[10m])) > {number(limits.idle_per_hour)}",
        for_="30m",
        severity="warning",
        audience="tenant",
        summary="{{ $labels.tenant }} holds idle GPUs worth {{ $value | printf `%.2f` }} " + currency + " an hour",
        description="They were under 5 % busy for an hour. End what has finished, or ask for fewer GPUs.",
        dashboard="gpuledger-idle",
        labels=("tenant",),
    )
    yield Alert(
        name="FleetGpusFree",
        expr=f"{lasting(FREE_COST.name)} > {number(limits.free_per_hour)}",
        for_="6h",
        severity="info",
        audience="platform",
        summary="{{ $labels.model }} worth {{ $value | printf `%.2f` }} " + currency + " an hour is free",
        description="Nobody has held these cards for six hours: raise quotas, start queued work, or power them down.",
        dashboard="gpuledger-idle",
        labels=("cluster", "model"),
    )
    yield Alert(
        name="ReservationUnused",
        expr=f"1 - avg_over_time({RESERVATION_USED}[1d]) > {number(limits.reservation_unused)} and {RESERVED}",
        for_="1h",
        severity="info",
        audience="tenant",
        summary="{{ $value | humanizePercentage }} of reservation {{ $labels.reservation }} was unused for a day",
        description="{{ $labels.tenant }} pays for it all the same. Use it, or give a part of it back.",
        dashboard="gpuledger-capacity",
        labels=("tenant", "reservation"),
    )
