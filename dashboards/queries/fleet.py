"""Queries of the fleet board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, NODE
from pipelines.promql.expressions import by
from pipelines.promql.normalise import DEVICE
from pipelines.promql.recorded import (
    BUSY,
    COVERAGE,
    HELD,
    MODEL_CAPACITY,
    MODEL_FREE,
    MODEL_HELD,
    NODE_EXPECTED,
    NODE_POWER,
    NODE_PRESENT,
    TENANT_COST,
)

_OF: Final = f"{{{CLUSTER},{MODEL}}}"
_ON: Final = f"{{{CLUSTER},{NODE}}}"
_HELD: Final = f"{HELD}{{{CLUSTER},{MODEL},{NODE}}}"
_ACTIVITY: Final = f"max by {by(*DEVICE)} ({BUSY})"

CAPACITY: Final = f"sum({MODEL_CAPACITY}{_OF})"
HELD_NOW: Final = f"sum({MODEL_HELD}{_OF})"
FREE_NOW: Final = f"sum({MODEL_FREE}{_OF})"
HELD_PART: Final = f"{HELD_NOW} / {CAPACITY}"
BUSY_PART: Final = (
    f"sum({_HELD} * on {by(*DEVICE)} group_left () {_ACTIVITY}) / sum({_HELD} and on {by(*DEVICE)} {BUSY})"
)
MISSING: Final = f"sum(({NODE_EXPECTED}{_ON} - on (cluster, node) ({NODE_PRESENT} or 0 * {NODE_EXPECTED})))"
COVERED: Final = f"min({COVERAGE}{{{CLUSTER}}})"
COST: Final = f"sum({TENANT_COST})"
HELD_BY_TENANT: Final = f"sum by (tenant) ({_HELD})"
FREE_BY_MODEL: Final = f"sum by (model) ({MODEL_FREE}{_OF})"
BUSY_BY_MODEL: Final = f"avg by (model) ({BUSY}{{{CLUSTER},{MODEL},{NODE}}})"
POWER_BY_CLUSTER: Final = f"sum by (cluster) ({NODE_POWER}{_ON})"

NODE_GPUS: Final = f"sum by (node) ({NODE_PRESENT}{_ON})"
NODE_GAP: Final = f"sum by (node) ({NODE_EXPECTED}{_ON} - on (cluster, node) ({NODE_PRESENT} or 0 * {NODE_EXPECTED}))"
NODE_HELD: Final = f"sum by (node) ({_HELD}) or 0 * {NODE_GPUS}"
NODE_BUSY: Final = f"avg by (node) ({BUSY}{{{CLUSTER},{NODE},{MODEL}}})"
NODE_WATTS: Final = f"sum by (node) ({NODE_POWER}{_ON})"
