"""The report: what the contract promises to every reader, as one pydantic model.

Hours, kWh and ratios are numbers to six decimals; money is a string in the currency's minor unit; null is unknown.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from pipelines.outlook.model import Outlook
from pipelines.report_values import Hours, Instant, Money, Ratio, instant

__all__ = [
    "LINES",
    "BillingReport",
    "Charges",
    "FindingReport",
    "FleetReport",
    "GpuHours",
    "Hours",
    "Instant",
    "Money",
    "Ratio",
    "Report",
    "ReportPeriod",
    "TenantReport",
    "WorkloadReport",
    "instant",
    "json_schema",
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class ReportPeriod(_Part):
    """[from, to) in UTC, and the zone that it is a period of."""

    from_: Instant = Field(alias="from")
    to: Instant
    timezone: str


class FleetReport(_Part):
    """The whole fleet: every device-second and every cent, in exactly one place."""

    capacity_gpu_hours: Hours
    allocated_gpu_hours: Hours
    idle_gpu_hours: Hours
    stranded_gpu_hours: Hours
    down_gpu_hours: Hours
    unobserved_gpu_hours: Hours
    devices: int = Field(ge=0, description="cards, however they are cut")
    energy_kwh: float | None
    cost: Money
    billed: Money
    unbilled: Money


class GpuHours(_Part):
    """A tenant's GPU-hours; the four classes add up to `allocated`."""

    allocated: Hours
    active: Hours | None = Field(description="null: held, never observed")
    reserved: Hours
    on_demand: Hours
    overflow: Hours
    spot: Hours
    reserved_unused: Hours


class Charges(_Part):
    """A tenant's lines; they add up to `total`."""

    usage: Money
    reservation: Money
    idle: Money
    energy: Money
    overhead: Money
    commitment: Money = Field(description="what is missing to what the tenant committed to pay at least in a month")
    credit: Money
    adjustment: Money
    total: Money


LINES: Final = tuple(name for name in Charges.model_fields if name not in {"adjustment", "total"})
"""Kinds of charge that follow from a period's own usage."""


class WorkloadReport(_Part):
    """One workload: a pod, a Slurm job, or a name of an allocations file."""

    workload: str
    user: str | None
    start: Instant
    end: Instant
    gpu_hours: Hours
    utilization: Ratio | None
    coverage: Ratio | None
    cost: Money
    bottleneck: str | None = None


class BillingReport(_Part):
    """What jobs of a Slurm account billed by TRESBillingWeights, as `sreport` counts it; it prices nothing."""

    cluster: str
    account: str | None
    tenant: str | None = Field(description="null: no selector matches the jobs")
    billing_hours: Hours


class TenantReport(_Part):
    """What one tenant held, used, wasted and owes."""

    tenant: str
    gpu_hours: GpuHours
    utilization: Ratio | None
    coverage: Ratio | None
    availability: Ratio | None = Field(
        None, description="1 less the share that was down or in repair, of what was held, reserved or owned"
    )
    billing_hours: Hours | None = Field(
        None, description="of its Slurm jobs, with GPUs or without; null: no source has `billing`"
    )
    energy_kwh: float | None
    co2e_kg: float | None
    charges: Charges
    waste: Money | None
    workloads: list[WorkloadReport]


class FindingReport(_Part):
    """What was repaired, dropped or left open."""

    code: str
    count: int = Field(ge=1)
    detail: str


class Report(_Part):
    """The statement report of a period."""

    period: ReportPeriod
    currency: str
    as_of: Instant
    config_hash: str
    fleet: FleetReport
    tenants: list[TenantReport]
    unattributed_gpu_hours: Hours
    slurm_billing: list[BillingReport] = Field(default_factory=list)
    findings: list[FindingReport]
    outlook: Outlook | None = Field(None, description="of a local month in the ledger that is open, else null")

    def of(self, tenant: str) -> Report:
        """Return the report with one tenant's rows alone."""
        update: dict[str, Any] = {
            "tenants": [t for t in self.tenants if t.tenant == tenant],
            "slurm_billing": [row for row in self.slurm_billing if row.tenant == tenant],
        }
        if self.outlook is not None:
            update["outlook"] = self.outlook.of(tenant)
        return self.model_copy(update=update)

    def to_json(self) -> str:
        """Return the report as the contract's JSON."""
        return self.model_dump_json(indent=2)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `to_json` writes: docs/report.schema.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Report.model_json_schema(mode="serialization"),
        "title": "GPULedger report",
    }
