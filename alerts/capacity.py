"""Alerts on GPUs running out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.rule import Alert
from pipelines.promql.expressions import lasting
from pipelines.promql.recorded import MODEL_FREE, MODEL_HELD

HORIZON_SECONDS: Final = 86_400
_FREE: Final = lasting(MODEL_FREE.name)


def capacity() -> Iterator[Alert]:
    """Alerts by model."""
    labels = ("cluster", "model")
    yield Alert(
        name="GpusExhausted",
        # Of a card that a MIG layout cuts less than one is free even while nobody holds any of it.
        expr=f"{_FREE} < 1 and {lasting(MODEL_HELD.name)} > 0",
        for_="1h",
        severity="warning",
        audience="platform",
        summary="No {{ $labels.model }} is free",
        description="For an hour less than one card was free: new work waits. Reclaim what is held idle first.",
        dashboard="gpuledger-capacity",
        labels=labels,
    )
    yield Alert(
        name="GpusRunningOut",
        expr=f"predict_linear({MODEL_FREE}[6h], {HORIZON_SECONDS}) < 1 and {_FREE} >= 1",
        for_="1h",
        severity="info",
        audience="platform",
        summary="At this pace no {{ $labels.model }} is free a day from now",
        description="The trend of the last six hours, drawn on. Look at who is growing, and at what is held idle.",
        dashboard="gpuledger-capacity",
        labels=labels,
    )
