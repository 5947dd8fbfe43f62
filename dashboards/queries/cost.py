"""Queries of the cost board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import MODEL, TENANT
from pipelines.promql.recorded import (
    BUDGET,
    BUDGET_PACE,
    BUDGET_USED,
    PRICE,
    RESERVATION_COST,
    TENANT_COST,
    TENANT_HELD,
    USAGE_COST,
)

_T: Final = f"{{{TENANT}}}"
_OF: Final = f"{{{TENANT},{MODEL}}}"

NOW: Final = f"sum({TENANT_COST}{_T})"
RESERVATIONS: Final = f"sum({RESERVATION_COST}{_T}) or 0 * {NOW}"
USAGE: Final = f"sum({USAGE_COST}{_OF}) or 0 * {NOW}"
# The mean over the time range shown, times its hours.
SPENT: Final = f"sum(avg_over_time({TENANT_COST}{_T}[$__range])) * $__range_s / 3600"
SPENT_BY_TENANT: Final = f"sum by (tenant) (avg_over_time({TENANT_COST}{_T}[$__range])) * $__range_s / 3600"
GPU_HOURS: Final = f"sum by (tenant) (avg_over_time({TENANT_HELD}{_OF}[$__range])) * $__range_s / 3600"

BY_TENANT: Final = f"sum by (tenant) ({TENANT_COST}{_T})"
BY_CLASS: Final = f"sum by (class) ({USAGE_COST}{_OF})"
RESERVED: Final = f"sum({RESERVATION_COST}{_T})"
BY_MODEL: Final = f"sum by (model) ({USAGE_COST}{_OF})"
USED: Final = f"sum by (tenant) ({BUDGET_USED}{_T})"
PACE: Final = f"sum by (tenant) ({BUDGET_PACE}{_T})"
BUDGETS: Final = f"sum by (tenant) ({BUDGET}{_T})"
PRICES: Final = f"sum by (model, class) ({PRICE}{{{MODEL}}})"
