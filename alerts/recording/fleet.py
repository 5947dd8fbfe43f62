"""Nodes, models and the fleet: what there is, what should be, what is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from alerts.rule import RecordingRule
from alerts.stock import Stock
from exporter.catalog import BY_KEY, PREFIX
from pipelines.promql.expressions import by, labelled, number
from pipelines.promql.normalise import BOARD, DEVICE, boards, of_boards, reading, with_our_labels
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
    UNIT_CHECK,
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
    yield from _unit_checks()
    yield RecordingRule(COVERAGE, f"({seen} or 0 * count by (cluster) ({holding})) / count by (cluster) ({holding})")


def _unit_checks() -> Iterator[RecordingRule]:
    """Two measures of one thing, divided: far from 1, one of them has changed its unit."""
    power = f"sum by (cluster) (avg_over_time({NODE_POWER}[10m]))"
    yield RecordingRule(UNIT_CHECK, f"{_energy_rate()} / on (cluster) ({power} > 0)", {"check": "energy"})
    driver = f"max by (cluster) ({reading('gpu_util_ratio', BOARD)})"
    # Engines that hardly run say nothing about units.
    engine = f"(max by (cluster) ({reading('engine_active_ratio', DEVICE)}) > 0.3)"
    yield RecordingRule(UNIT_CHECK, f"{driver} / on (cluster) {engine}", {"check": "utilisation"})


def _energy_rate() -> str:
    metric = BY_KEY["energy_joules_total"]
    ours = f"max by {by(*BOARD)} (rate({metric.name}[10m]))"
    (dcgm,) = metric.dcgm
    theirs = f"max by {by(*BOARD)} ({with_our_labels(f'rate({dcgm.name}[10m])', *BOARD)}) * {number(dcgm.scale)}"
    return f"sum by (cluster) ({ours} or {theirs})"


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
