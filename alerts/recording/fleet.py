"""Nodes, models and the fleet: what there is, what should be, what is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from alerts.rule import RecordingRule
from alerts.stock import Stock
from exporter.catalog import PREFIX
from pipelines.promql.expressions import by, labelled
from pipelines.promql.normalise import BOARD, DEVICE, boards, of_boards
from pipelines.promql.recorded import (
    BUSY,
    COVERAGE,
    HELD,
    IDENTITY,
    MODEL_CAPACITY,
    MODEL_FREE,
    MODEL_HELD,
    NODE_BUDGET,
    NODE_EXPECTED,
    NODE_POWER,
    NODE_POWER_LIMIT,
    NODE_PRESENT,
    NODE_RACK,
    WEIGHT,
)

_NODE: Final = ("cluster", "node")
_MODEL: Final = ("cluster", "model")


def fleet(stock: Stock) -> Iterator[RecordingRule]:
    """Counts, power and coverage."""
    cards = boards()
    silent = f"({PREFIX}device_up == 0)"
    yield RecordingRule(NODE_PRESENT, f"count by {by(*_NODE)} ({cards} unless on {by(*BOARD)} {silent})")
    yield RecordingRule(NODE_EXPECTED, _expected())
    yield RecordingRule(NODE_POWER, f"sum by {by(*_NODE)} ({of_boards('power_watts')})")
    yield RecordingRule(NODE_POWER_LIMIT, f"sum by {by(*_NODE)} ({of_boards('power_limit_enforced_watts')})")
    if stock.racks:
        yield RecordingRule(NODE_RACK, _racks(stock.racks))
    if stock.power_watts:
        yield RecordingRule(NODE_BUDGET, _budgets(stock.power_watts))
    yield RecordingRule(MODEL_CAPACITY, f"count by {by(*_MODEL)} ({cards})")
    held = f"sum by {by(*_MODEL)} ({HELD})"
    yield RecordingRule(MODEL_HELD, f"{held} or 0 * {MODEL_CAPACITY}")
    # What a MIG layout can't hand out is not free.
    holdable = f"sum by {by(*_MODEL)} (topk by {by(*DEVICE)} (1, {WEIGHT} or on {by(*DEVICE)} {IDENTITY}))"
    yield RecordingRule(MODEL_FREE, f"clamp_min({holdable} - on {by(*_MODEL)} {MODEL_HELD}, 0)")
    holding = f"group by {by(*DEVICE)} ({HELD})"
    seen = f"count by (cluster) ({holding} and on {by(*DEVICE)} {BUSY})"
    yield RecordingRule(COVERAGE, f"({seen} or 0 * count by (cluster) ({holding})) / count by (cluster) ({holding})")


def _expected() -> str:
    """What our exporter remembers, else the most that were there in the last day."""
    said = f"max by {by(*_NODE)} ({PREFIX}devices_expected)"
    return f"{said} or on {by(*_NODE)} max_over_time({NODE_PRESENT}[1d])"


def _racks(racks: Mapping[str, str]) -> str:
    by_rack: dict[str, list[str]] = {}
    for node, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(node)
    return " or ".join(
        labelled(f'group by {by(*_NODE)} ({IDENTITY}{{node=~"{"|".join(names)}"}})', {"rack": rack})
        for rack, names in sorted(by_rack.items())
    )


def _budgets(power_watts: Mapping[str, int]) -> str:
    by_power: dict[int, list[str]] = {}
    for node, watts in sorted(power_watts.items()):
        by_power.setdefault(watts, []).append(node)
    return " or ".join(
        f'(0 * group by {by(*_NODE)} ({IDENTITY}{{node=~"{"|".join(names)}"}}) + {watts})'
        for watts, names in sorted(by_power.items())
    )
