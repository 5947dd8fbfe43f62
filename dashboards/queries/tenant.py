"""Queries of the tenant board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, TENANT
from pipelines.promql.recorded import (
    BUDGET_PACE,
    BUDGET_USED,
    BY_CLASS,
    HELD,
    IDLE_COST,
    QUOTA,
    RESERVED,
    RESERVED_USED,
    TENANT_ACTIVE,
    TENANT_COST,
    TENANT_HELD,
    TENANT_IDLE,
)

_OF: Final = f"{{{TENANT},{MODEL}}}"
_T: Final = f"{{{TENANT}}}"

HELD_NOW: Final = f"sum({TENANT_HELD}{_OF})"
ACTIVE_PART: Final = f"sum({TENANT_ACTIVE}{_OF}) / sum({TENANT_HELD}{_OF})"
IDLE_NOW: Final = f"sum({TENANT_IDLE}{_OF}) or 0 * {HELD_NOW}"
IDLE_MONEY: Final = f"sum({IDLE_COST}{_OF}) or 0 * {HELD_NOW}"
COST: Final = f"sum({TENANT_COST}{_T})"
QUOTA_PART: Final = f"sum(sum by (tenant) ({TENANT_HELD}{_T}) and on (tenant) {QUOTA}) / sum({QUOTA}{_T})"
PACE: Final = f"max({BUDGET_PACE}{_T})"
USED: Final = f"max({BUDGET_USED}{_T})"

BY_MODEL: Final = f"sum by (tenant, model) ({TENANT_HELD}{_OF})"
CLASSES: Final = f"sum by (class) ({BY_CLASS}{_OF})"
RESERVED_NOW: Final = f"sum({RESERVED}{_T})"
RESERVED_IN_USE: Final = f"sum({RESERVED_USED}{{{TENANT}}}) or 0 * {RESERVED_NOW}"
ACTIVE: Final = f"sum by (tenant) ({TENANT_ACTIVE}{_OF})"
HELD_BY_TENANT: Final = f"sum by (tenant) ({TENANT_HELD}{_OF})"
IDLE_BY_TENANT: Final = f"sum by (tenant) ({TENANT_IDLE}{_OF})"
COST_BY_TENANT: Final = f"sum by (tenant) ({TENANT_COST}{_T})"
DEVICES: Final = f"sum by (node, gpu, gpu_instance, model, tenant) ({HELD}{{{CLUSTER},{TENANT},{MODEL}}})"
