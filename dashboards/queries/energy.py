"""Queries of the energy board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, NODE
from pipelines.promql.expressions import number
from pipelines.promql.normalise import of_boards
from pipelines.promql.recorded import CONDITION, NODE_BUDGET, NODE_POWER, NODE_POWER_LIMIT, NODE_RACK

WHERE: Final = (CLUSTER, NODE, MODEL)
_ON: Final = f"{{{CLUSTER},{NODE}}}"
LEGEND: Final = "{{node}} {{gpu}}"

POWER: Final = f"sum({NODE_POWER}{_ON})"
# Mean power over the time shown, in kW, times its hours.
KWH: Final = f"sum(avg_over_time({NODE_POWER}{_ON}[$__range])) / 1000 * $__range_s / 3600"
BY_NODE: Final = f"sum by (node) ({NODE_POWER}{_ON})"
KWH_BY_NODE: Final = f"sum by (node) (avg_over_time({NODE_POWER}{_ON}[$__range])) / 1000 * $__range_s / 3600"
LIMIT_HEADROOM: Final = f"sum by (node) ({NODE_POWER_LIMIT}{_ON}) - on (node) {BY_NODE}"

_BUDGET: Final = f"sum by (node) ({NODE_BUDGET}{_ON})"
BUDGET_HEADROOM: Final = f"{_BUDGET} - on (node) {BY_NODE}"
_OF_RACK: Final = f"* on (cluster, node) group_left (rack) {NODE_RACK}"
BY_RACK: Final = f"sum by (rack) ({NODE_POWER}{_ON} {_OF_RACK})"
RACK_HEADROOM: Final = f"sum by (rack) ({NODE_BUDGET}{_ON} {_OF_RACK}) - on (rack) {BY_RACK}"

TEMPERATURE: Final = f"max by (node) ({of_boards('temperature_celsius', *WHERE)})"
_NOW: Final = of_boards("temperature_celsius", *WHERE)
_SLOWDOWN: Final = of_boards("temperature_slowdown_celsius", *WHERE)
HEAT_HEADROOM: Final = f"min by (node) (({_SLOWDOWN}) - on (cluster, uuid, node) ({_NOW}))"
SLOWED: Final = f"count by (condition) ({CONDITION}{{{','.join(WHERE)}}})"


def carbon_kg(pue: float, kg_per_kwh: float) -> str:
    """Operational carbon in the time shown: kWh × PUE × kg/kWh."""
    return f"{KWH} * {number(pue)} * {number(kg_per_kwh)}"


def energy_cost(pue: float, price_per_kwh: float) -> str:
    """What the energy of the time shown costs: kWh × PUE × price."""
    return f"{KWH} * {number(pue)} * {number(price_per_kwh)}"
