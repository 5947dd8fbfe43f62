"""The outlook as readers get it: `outlook` of the report."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.report_values import Hours, Instant, Money, Ratio

Kind = Literal["money", "gpu_hours"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProjectionReport(_Part):
    """Where a tenant's month is going; `low` to `high` holds 80 % of outcomes. Estimates, not bills."""

    tenant: str
    kind: Kind
    method: Literal["run_rate", "seasonal"]
    expected: str
    low: str
    high: str
    days: int = Field(description="whole days of history that it rests on")


class BudgetReport(_Part):
    """A budget, how much of it is spent, and the day on which it is at this month's run rate."""

    tenant: str
    kind: Kind
    budget: str
    spent: str = Field(description="fees and shares of the whole month, and what was used so far")
    spent_ratio: float | None = Field(description="to 6 decimals; below 0 where more was given back than charged")
    elapsed_ratio: Ratio
    exhausted_on: date | None


class CauseReport(_Part):
    """A workload, and how many GPU-hours more or less than usual it held."""

    workload: str
    gpu_hours: float


class AnomalyReport(_Part):
    """Hours on end in which a tenant held unusually much or little for the time of the week."""

    tenant: str
    start: Instant
    end: Instant
    gpu_hours: Hours
    usual_gpu_hours: Hours
    score: float = Field(description="modified z; beyond 3.5 is an anomaly, below 0 is too little")
    causes: list[CauseReport]


class UnitCostReport(_Part):
    """Money per GPU-hour; null: no such hour, or not known."""

    tenant: str | None = Field(description="null: the fleet")
    allocated: Money | None
    active: Money | None
    tensor_active: Money | None


class EntitlementReport(_Part):
    """How much of a quota or a reservation is used."""

    tenant: str
    kind: Literal["quota", "reservation"]
    name: str = Field(description="of the reservation")
    gpus: int
    mean_gpus: float
    peak_gpus: float
    utilization: Ratio | None


class Outlook(_Part):
    """Looking ahead from a month of which the data goes to `reached`."""

    reached: Instant
    budgets: list[BudgetReport]
    projections: list[ProjectionReport]
    anomalies: list[AnomalyReport]
    unit_costs: list[UnitCostReport]
    entitlements: list[EntitlementReport]
    fairness: Ratio | None = Field(description="Jain's index of hours per entitled GPU, across tenants")

    def of(self, tenant: str) -> Outlook:
        """Return what is one tenant's own; nothing of the fleet."""
        own = ("budgets", "projections", "anomalies", "unit_costs", "entitlements")
        rows = {name: [row for row in getattr(self, name) if row.tenant == tenant] for name in own}
        return self.model_copy(update={**rows, "fairness": None})
