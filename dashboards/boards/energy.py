"""Energy, carbon, and how far power and heat are from their limits."""

from __future__ import annotations

from typing import Any

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, lines, stat, table
from dashboards.queries import energy as q

_HEADROOM: look.Steps = ((look.RED, None), (look.AMBER, 5), (look.GREEN, 10))


def energy(context: Context) -> Board:
    """For whoever runs the room. Racks and power budgets come from the inventory's columns rack and power_watts."""
    now = [
        stat("Power", "Draw of all cards.", q.POWER, look.WATTS),
        stat("Energy", "In the time shown, at the cards.", q.KWH, "kwatth", decimals=1),
        *_priced(context),
    ]
    nodes = table(
        "Nodes", "Headroom to the limits in force and to what the inventory grants.",
        [Query(q.BY_NODE), Query(q.LIMIT_HEADROOM), Query(q.BUDGET_HEADROOM), Query(q.TEMPERATURE),
         Query(q.HEAT_HEADROOM), Query(q.KWH_BY_NODE)],
        [
            Column("node", "Node", link=link_to("gpuledger-node", node=clicked("Node"))),
            Column("Value #A", "Power", look.WATTS),
            Column("Value #B", "Below the cards' limits", look.WATTS),
            Column("Value #C", "Below the granted power", look.WATTS, ((look.RED, None), (look.GREEN, 0))),
            Column("Value #D", "Hottest core", look.CELSIUS, look.HOT),
            Column("Value #E", "Below slowdown", look.CELSIUS, _HEADROOM),
            Column("Value #F", "Energy", "kwatth"),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-energy",
        title="Energy and heat",
        description="Power, energy and carbon by node and rack, and what is left below the limits.",
        audience="operators",
        variables=[variables.cluster(), variables.node(), variables.model()],
        app_page="overview",
        rows=[
            Row("Now", now, height=4),
            Row("Power", [
                lines("By node", "Draw of a node's cards.", [Query(q.BY_NODE, "{{node}}")], look.WATTS, stacked=True),
                lines("By rack", "Draw of a rack's cards.", [Query(q.BY_RACK, "{{rack}}")], look.WATTS, stacked=True),
                lines("Below the granted power of racks", "What the inventory grants, less the draw.",
                      [Query(q.RACK_HEADROOM, "{{rack}}")], look.WATTS),
            ]),
            Row("Heat", [
                lines("Hottest core by node", "Temperature of the hottest core.", [Query(q.TEMPERATURE, "{{node}}")],
                      look.CELSIUS, steps=look.HOT),
                lines("Below slowdown", "Distance of the hottest core to where clocks are cut.",
                      [Query(q.HEAT_HEADROOM, "{{node}}")], look.CELSIUS),
                lines("Slowed or hot", "Cards in a condition; capped is normal under full load.",
                      [Query(q.SLOWED, "{{condition}}")], look.COUNT),
            ]),
            Row("Nodes", [nodes], height=12),
        ],
    )  # fmt: skip


def _priced(context: Context) -> list[Any]:
    """Carbon and money, where the configuration has their factors."""
    terms = context.config.energy
    panels = []
    if terms.carbon_g_per_kwh is not None:
        query = q.carbon_kg(float(terms.pue), float(terms.carbon_g_per_kwh / 1000))
        text = "Operational carbon in the time shown: kWh × PUE × g/kWh."
        panels.append(stat("Carbon", text, query, "masskg", decimals=1))
    if terms.price_per_kwh is not None:
        query = q.energy_cost(float(terms.pue), float(terms.price_per_kwh))
        text = "Energy in the time shown: kWh × PUE × price."
        panels.append(stat("Energy costs", text, query, look.money_unit(context.currency), decimals=2))
    return panels
