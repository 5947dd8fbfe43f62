"""Queries of the capacity board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, TENANT
from exporter.catalog import PREFIX
from pipelines.promql.expressions import by
from pipelines.promql.normalise import DEVICE
from pipelines.promql.recorded import (
    HELD,
    IDENTITY,
    MODEL_CAPACITY,
    MODEL_FREE,
    MODEL_HELD,
    RESERVATION_END,
    RESERVED,
    RESERVED_USED,
)

_OF: Final = f"{{{CLUSTER},{MODEL}}}"

FREE: Final = f"sum({MODEL_FREE}{_OF})"
HELD_PART: Final = f"sum({MODEL_HELD}{_OF}) / sum({MODEL_CAPACITY}{_OF})"
RESERVED_NOW: Final = f"sum({RESERVED}{{{TENANT}}})"
_WHOLE_FREE: Final = (
    f'count by (node, model) (({IDENTITY}{{{CLUSTER},{MODEL},gpu_instance=""}}) unless on {by(*DEVICE)} {HELD})'
)
LARGEST_FREE: Final = f"max({_WHOLE_FREE})"

FREE_BY_MODEL: Final = f"sum by (model) ({MODEL_FREE}{_OF})"
HELD_BY_MODEL: Final = f"sum by (model) ({MODEL_HELD}{_OF})"
CAPACITY_BY_MODEL: Final = f"sum by (model) ({MODEL_CAPACITY}{_OF})"
FREE_BY_NODE: Final = f"max by (node, model) ({_WHOLE_FREE})"
TREND: Final = f"sum by (model) (predict_linear({MODEL_FREE}{_OF}[6h], 86400))"
# Hours until none is free, where what is free shrinks.
EXHAUSTED: Final = f"sum by (model) ({MODEL_FREE}{_OF} / (-(deriv({MODEL_FREE}{_OF}[6h]) < 0) * 3600))"

RESERVATION_GPUS: Final = f"sum by (tenant, reservation) ({RESERVED}{{{TENANT}}})"
RESERVATION_USED: Final = f"sum by (tenant, reservation) ({RESERVED_USED}{{{TENANT}}}) or 0 * {RESERVATION_GPUS}"
RESERVATION_ENDS: Final = f"max by (tenant, reservation) ({RESERVATION_END}{{{TENANT}}}) * 1000"

# As the ledger's last pass had it: what schedulers and calendars say too, which no exporter sees.
_LEDGER: Final = f"{PREFIX}capacity"
_PROMISED: Final = "by (tenant, reservation, source, model)"


def ledger_cards(state: str) -> str:
    """Cards by model in a state of the ledger."""
    return f'max by (model) ({_LEDGER}_cards{{{MODEL},state="{state}"}})'


OUT_BY_NODE: Final = f"max by (cluster, node, state) ({_LEDGER}_troubled_cards{{{CLUSTER}}}) > 0"
WHOLE_FREE: Final = f"max by (model) ({_LEDGER}_whole_free_cards{{{MODEL}}})"
LARGEST_BLOCK: Final = f"max by (model) ({_LEDGER}_largest_block_cards{{{MODEL}}})"
PROMISED_GPUS: Final = f"max {_PROMISED} ({_LEDGER}_reservation_gpus{{{TENANT}}})"
PROMISED_FROM: Final = f"max {_PROMISED} ({_LEDGER}_reservation_start_timestamp_seconds{{{TENANT}}}) * 1000"
PROMISED_TO: Final = f"max {_PROMISED} ({_LEDGER}_reservation_end_timestamp_seconds{{{TENANT}}}) * 1000"
PROMISED_FITS: Final = f"min {_PROMISED} ({_LEDGER}_reservation_fits{{{TENANT}}})"
