"""A tenant's statement as one model: every format of it is made from this, and a closed one is kept as its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.outlook.model import Outlook
from pipelines.report import GpuHours, Hours, Instant, Money, Ratio, ReportPeriod


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, populate_by_name=True)


class Party(_Part):
    """The tenant that a statement is for."""

    id: str
    name: str
    parent: str | None = None
    cost_center: str | None = None
    tags: Mapping[str, str] = Field(default_factory=dict)


class LinePart(_Part):
    """What a line is made of; the parts of a line add up to it.

    `quantity` × `rate` is the amount before rounding, where a rate is named.
    """

    description: str
    model: str | None = None
    class_: str | None = Field(None, alias="class")
    reservation: str | None = None
    quantity: float | None = None
    rate: str | None = None
    amount: Money


class Line(_Part):
    """One line; the lines add up to the total. A correction carries the charge period that it corrects."""

    number: int
    kind: str
    description: str
    charge_period: str
    quantity: float | None = None
    unit: str | None = None
    amount: Money
    reference: str | None = Field(None, description="the entry of the book that a correction was booked as")
    parts: list[LinePart] = Field(default_factory=list)


class Share(_Part):
    """What was held, used and wasted under one name: a class, a model or a workload.

    The shares of each kind add up to the same hours, cost and waste.
    """

    name: str
    user: str | None = None
    start: Instant | None = None
    end: Instant | None = None
    gpu_hours: Hours
    active_gpu_hours: Hours | None
    utilization: Ratio | None
    coverage: Ratio | None = None
    cost: Money
    waste: Money | None


class Spent(_Part):
    """A budget, and how much of it is spent."""

    monthly: Money | None = None
    gpu_hours: float | None = None
    spent_ratio: float | None = None
    gpu_hours_ratio: float | None = None


class Past(_Part):
    """An earlier period's total."""

    period: str
    gpu_hours: Hours
    total: Money


class Stamp(_Part):
    """The rate of exchange that a statement was converted by, and what it comes to in the ledger's currency."""

    currency: str = Field(description="the ledger's")
    total: Money = Field(description="in the ledger's currency")
    rate: str = Field(description="units of the statement's currency for one of the ledger's")
    since: Instant | None = Field(description="from when the rate holds")
    source: str | None = None


class Statement(_Part):
    """One tenant's statement of one period."""

    schema_: Literal["gpuledger.statement/1"] = Field("gpuledger.statement/1", alias="schema")
    number: str | None = Field(None, description="null: the period is open, and this is a draft")
    status: Literal["open", "closed"]
    issuer: str | None = None
    tenant: Party
    label: str
    period: ReportPeriod
    currency: str
    exchange: Stamp | None = Field(None, description="null: in the ledger's own currency")
    as_of: Instant
    config_hash: str
    lines: list[Line]
    total: Money
    gpu_hours: GpuHours
    utilization: Ratio | None
    coverage: Ratio | None
    waste: Money | None
    energy_kwh: float | None
    co2e_kg: float | None
    held_cost: Money = Field(description="usage, and the reserved hours used at their reservations' rates")
    classes: list[Share]
    models: list[Share]
    workloads: list[Share]
    budget: Spent | None
    trend: list[Past]
    notes: list[str]
    outlook: Outlook | None = Field(
        None,
        description="the tenant's own, of a local month that is open, else null; estimates in the ledger's currency",
    )

    def to_json(self) -> str:
        """Return the statement as JSON, the same bytes each time."""
        return self.model_dump_json(indent=2) + "\n"
