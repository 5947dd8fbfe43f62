"""One reading of a catalogue metric, whichever exporter named it.

Our exporter says ``uuid``, ``node``, ``model``, ``gpu_instance``; dcgm-exporter says ``UUID``, ``Hostname`` (or
``hostname``), ``modelName``, ``GPU_I_ID``, under names of DCGM before and since 4.6, in its own units, with blank
values, and with the labels of whoever holds the card. A normalised value has only the labels that say which device it
is of, so a change of holder is no new series; who and what the device is comes by a join with the recorded identity.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

from exporter.catalog import BY_KEY, Metric
from pipelines.promql.expressions import by, named, number, replaced, selector
from pipelines.promql.recorded import IDENTITY

BOARD: Final = ("cluster", "uuid")
"""Labels that name a card."""
DEVICE: Final = ("cluster", "uuid", "gpu_instance")
"""Labels that name what can be held: a card, or a MIG instance of one."""
BOARD_IDENTITY: Final = ("node", "gpu", "model")
DEVICE_IDENTITY: Final = ("node", "gpu", "model", "gpu_profile")

FOREIGN_LABELS: Final = {
    "uuid": ("UUID",),
    "gpu_instance": ("GPU_I_ID",),
    "gpu_profile": ("GPU_I_PROFILE",),
    "model": ("modelName",),
    "node": ("hostname", "Hostname"),
}
"""dcgm-exporter's labels by ours."""


def with_our_labels(expression: str, *names: str) -> str:
    """dcgm-exporter's series under our label names."""
    for name in names:
        for foreign in FOREIGN_LABELS.get(name, ()):
            expression = replaced(expression, name, "$1", foreign, "(.+)")
    return expression


def reading(key: str, labels: tuple[str, ...]) -> str:
    """One value of a metric per ``labels`` (BOARD or DEVICE), in base units; two exporters of a card count once."""
    metric = BY_KEY[key]
    ours = f"max by {by(*labels)} ({metric.name})"
    theirs = _dcgm(metric, labels)
    return f"({ours} or {theirs})" if theirs else f"({ours})"


def _dcgm(metric: Metric, labels: tuple[str, ...]) -> str:
    by_scale: dict[float, list[str]] = {}
    for name in metric.dcgm:
        by_scale.setdefault(name.scale, []).append(name.name)
    parts = []
    for scale, names in by_scale.items():
        measured = named(names) + _valid(metric, scale)
        part = f"max by {by(*labels)} ({with_our_labels(measured, *labels)})"
        parts.append(part if scale == 1 else f"{part} * {number(scale)}")
    return " or ".join(parts)


def _valid(metric: Metric, scale: float) -> str:
    """A filter against DCGM's blanks and readings that no board can give."""
    # A card that answers is never at 0 °C: that is how some drivers say "unknown".
    low = " > 0" if metric.unit == "celsius" and metric.minimum == 0 else ""
    return low + (f" <= {number(metric.maximum / scale)}" if isfinite(metric.maximum) else "")


def boards(*matchers: str) -> str:
    """Each card once, with node, gpu and model, for the cards whose identity fits the matchers."""
    # A card that changes its host or layout has two identities for as long as samples look back: one is picked.
    cards = f"group by {by(*BOARD, *BOARD_IDENTITY)} ({selector(IDENTITY.name, *matchers)})"
    return f"topk by {by(*BOARD)} (1, {cards})"


def devices(*matchers: str) -> str:
    """Each device once, with its identity."""
    return f"topk by {by(*DEVICE)} (1, {selector(IDENTITY.name, *matchers)})"


def of_boards(key: str, *matchers: str) -> str:
    """A metric per card, with node, gpu and model."""
    return f"{reading(key, BOARD)} * on {by(*BOARD)} group_left {by(*BOARD_IDENTITY)} {boards(*matchers)}"


def of_devices(key: str, *matchers: str) -> str:
    """A metric per device (a MIG instance where there are some), with its identity."""
    return f"{reading(key, DEVICE)} * on {by(*DEVICE)} group_left {by(*DEVICE_IDENTITY)} {devices(*matchers)}"
