"""Grafana's hours and money against the ledger's, on the simulated fleet."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl
import pytest

from pipelines.operations import replay
from pipelines.promql.recorded import TENANT_COST, TENANT_HELD
from tests.alerts.fleet import INTERVAL, Fleet
from tests.alerts.prometheus import Span

CLOSE = 0.01


@pytest.fixture
def observed(fleet: Fleet) -> tuple[datetime, datetime]:
    """The longest stretch in which every node was scraped: what Prometheus didn't see it can't count."""
    times = pl.read_parquet(fleet.folder / "samples.parquet", columns=["time", "node"]).unique()
    counted = times.group_by("time").len().sort("time")
    whole = counted.filter(pl.col("len") == counted["len"].max())["time"]
    runs = (whole.diff().dt.total_seconds().fill_null(INTERVAL) != INTERVAL).cum_sum()
    longest = pl.DataFrame({"time": whole, "run": runs}).group_by("run").agg(
        pl.col("time").min().alias("start"), pl.col("time").max().alias("end"), pl.len()
    ).sort("len").row(-1, named=True)  # fmt: skip
    return longest["start"], longest["end"]


def hours(fleet: Fleet, expression: str, start: datetime, end: datetime) -> Mapping[str, float]:
    """Σ value × step by tenant, in units × hours."""
    span = Span(start.timestamp(), end.timestamp() - INTERVAL, INTERVAL)
    found: dict[str, float] = {}
    for labels, values in fleet.server.range(expression, span):
        found[labels["tenant"]] = found.get(labels["tenant"], 0) + sum(v for _, v in values) * INTERVAL / 3600
    return found


def test_gpu_hours_and_cost_equal_the_ledgers(fleet: Fleet, observed: tuple[datetime, datetime]) -> None:
    ours = bool(fleet.server.query("gpuledger_device_up", fleet.span.start + 3600))
    start, end = observed
    assert (end - start).total_seconds() > 8 * 3600
    report = replay(fleet.folder, start=start.astimezone(UTC), end=end.astimezone(UTC))
    held = hours(fleet, f"sum by (tenant) ({TENANT_HELD})", start, end)
    cost = hours(fleet, f"sum by (tenant) ({TENANT_COST})", start, end)
    named = set(pl.read_parquet(fleet.folder / "samples.parquet", columns=["job"])["job"].drop_nulls())
    compared = 0
    for tenant in report.tenants:
        if not ours and any(w.workload.isdigit() for w in tenant.workloads):
            continue  # dcgm-exporter names no Slurm account: whose a job is isn't known there
        # A job that no sample names is known from accounting alone.
        unseen = [w for w in tenant.workloads if w.workload.isdigit() and w.workload not in named]
        allocated = tenant.gpu_hours.allocated - sum(w.gpu_hours for w in unseen)
        money = float(tenant.charges.usage) + float(tenant.charges.reservation) - sum(float(w.cost) for w in unseen)
        assert held.get(tenant.tenant, 0) == pytest.approx(allocated, rel=CLOSE, abs=0.05), tenant.tenant
        assert cost.get(tenant.tenant, 0) == pytest.approx(money, rel=CLOSE, abs=0.15), tenant.tenant
        compared += allocated > 1
    assert compared >= (4 if ours else 2)
