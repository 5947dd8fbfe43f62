"""Queries of the health board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, NODE
from pipelines.promql.expressions import by
from pipelines.promql.normalise import of_boards
from pipelines.promql.recorded import (
    CONDITION,
    ECC_LOST,
    MODEL_CAPACITY,
    NODE_EXPECTED,
    NODE_PRESENT,
    NVLINK_ERRORS,
    XID_LAST,
    XID_RECENT,
)

WHERE: Final = (CLUSTER, NODE, MODEL)
_W: Final = f"{{{','.join(WHERE)}}}"
_ON: Final = f"{{{CLUSTER},{NODE}}}"
_NONE: Final = f"0 * sum({MODEL_CAPACITY}{{{CLUSTER}}})"
_CARD: Final = by("node", "gpu", "uuid", "model")
LEGEND: Final = "{{node}} {{gpu}}"


def flagged(key: str) -> str:
    """How many cards have a flag or count above 0; n/a where no exporter shows it."""
    cards = of_boards(key, *WHERE)
    return f"count(({cards}) > 0) or 0 * count({cards})"


XIDS: Final = f"count({XID_RECENT}{_W}) or {_NONE}"
MISSING: Final = f"sum({NODE_EXPECTED}{_ON} - on (cluster, node) ({NODE_PRESENT} or 0 * {NODE_EXPECTED}))"
REMAP_FAILED: Final = flagged("row_remap_failed")
REMAP_PENDING: Final = flagged("row_remap_pending")
ACTION: Final = flagged("recovery_action")
ECC_CARDS: Final = f"count({ECC_LOST}{_W}) or {_NONE}"

RECENT: Final = f"max by (node, gpu, uuid, model, xid) ({XID_RECENT}{_W})"
LAST: Final = f"max by {_CARD} ({XID_LAST}{_W})"
RECENT_BY_NODE: Final = f"count by (node, xid) ({XID_RECENT}{_W})"
ECC: Final = f"max by (node, gpu) ({ECC_LOST}{_W})"
NVLINK: Final = f"max by (node, gpu) ({NVLINK_ERRORS}{_W})"
ROWS_UNCORRECTED: Final = f"max by {_CARD} ({of_boards('remapped_rows_uncorrected_total', *WHERE)})"
ROWS_CORRECTED: Final = f"max by {_CARD} ({of_boards('remapped_rows_corrected_total', *WHERE)})"
REPLAYS: Final = f"max by {_CARD} ({of_boards('pcie_replays_total', *WHERE)})"
CONDITIONS: Final = f"count by (condition) ({CONDITION}{_W})"
