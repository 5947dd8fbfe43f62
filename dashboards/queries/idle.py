"""Queries of the board of what is idle and could be had back."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, TENANT
from pipelines.promql.expressions import by
from pipelines.promql.normalise import DEVICE
from pipelines.promql.recorded import (
    BUSY,
    FREE_COST,
    HELD,
    IDLE_COST,
    MODEL_FREE,
    RESERVATION_COST,
    RESERVATION_USED,
    TENANT_HELD,
    TENANT_IDLE,
)

_OF: Final = f"{{{TENANT},{MODEL}}}"
_MODELS: Final = f"{{{CLUSTER},{MODEL}}}"
_ANY: Final = f"sum({TENANT_HELD})"

IDLE_MONEY: Final = f"sum({IDLE_COST}{_OF}) or 0 * {_ANY}"
FREE_MONEY: Final = f"sum({FREE_COST}{_MODELS})"
IDLE_GPUS: Final = f"sum({TENANT_IDLE}{_OF}) or 0 * {_ANY}"
FREE_GPUS: Final = f"sum({MODEL_FREE}{_MODELS})"
_UNUSED_PART: Final = f"(1 - {RESERVATION_USED}{{{TENANT}}})"
_RESERVATION_COST: Final = f"{RESERVATION_COST}{{{TENANT}}}"
UNUSED_BY_RESERVATION: Final = f"{_UNUSED_PART} * {_RESERVATION_COST}"
UNUSED_MONEY: Final = f"sum({UNUSED_BY_RESERVATION})"

IDLE_BY_TENANT: Final = f"sum by (tenant) ({IDLE_COST}{_OF})"
FREE_BY_MODEL: Final = f"sum by (model) ({FREE_COST}{_MODELS})"
_HOUR: Final = f"avg_over_time({BUSY}[1h])"
IDLE_DEVICES: Final = (
    f"sum by (node, gpu, gpu_instance, model, tenant) "
    f"({HELD}{{{CLUSTER},{MODEL},{TENANT}}} and on {by(*DEVICE)} ({_HOUR} < 0.05))"
)
