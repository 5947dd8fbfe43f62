"""Pictures of parts of a whole: where the fleet's cost flows, and what bills are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import words
from app.accounts import Place
from app.palette import BUSY, DOWN, IDLE, OTHER, QUIET, STRANDED, UNKNOWN, series_colours
from app.shares import Share

COLOURS = {
    "allocated": BUSY.colour,
    "unattributed": QUIET.colour,
    "idle": IDLE.colour,
    "stranded": STRANDED.colour,
    "down": DOWN.colour,
    "unobserved": UNKNOWN.colour,
    "overhead": OTHER,
}
PAID, UNPAID = "Tenants pay", "Unbilled"
SHOWN = 40


def cost_flow(found: Sequence[Place], currency: str, ink: str) -> dict[str, Any]:
    """Return the flow from the fleet's cost over where it is to who pays it, for ECharts.

    What tenants pay beyond a place's cost (a surcharge) can't flow, and is left out of the picture.
    """
    nodes: list[dict[str, Any]] = [{"name": "Fleet cost", "itemStyle": {"color": OTHER}}]
    links: list[dict[str, Any]] = []
    for place in found:
        if place.cost <= 0:
            continue
        nodes.append({"name": place.label, "itemStyle": {"color": COLOURS[place.key]}})
        links.append({"source": "Fleet cost", "target": place.label, "value": float(place.cost)})
        paid = max(min(place.billed, place.cost), place.cost * 0)
        for target, amount in ((PAID, paid), (UNPAID, place.cost - paid)):
            if amount:
                links.append({"source": place.label, "target": target, "value": float(amount)})
    ends = [(PAID, BUSY.colour), (UNPAID, DOWN.colour)]
    nodes += [{"name": n, "itemStyle": {"color": c}} for n, c in ends if any(li["target"] == n for li in links)]
    return {
        "tooltip": {"trigger": "item", "valueFormatter": f"{currency} {words.money_format(currency)}"},
        "series": [
            {
                "type": "sankey",
                "data": nodes,
                "links": links,
                "left": 0,
                "right": 130,
                "top": 10,
                "bottom": 10,
                "draggable": False,
                "label": {"color": ink, "fontSize": 12},
                "lineStyle": {"color": "source", "opacity": 0.3},
            }
        ],
    }


def treemap(shares: Sequence[Share], currency: str) -> dict[str, Any]:
    """Return what bills are made of, each part as large as its amount, for ECharts."""
    parts = [s for s in shares if s.amount > 0][:SHOWN]
    colours = series_colours([s.label for s in parts])
    rest = sum((float(s.amount) for s in shares if s.amount > 0), 0.0) - sum(float(s.amount) for s in parts)
    cells = [
        {
            "name": s.label,
            "value": float(s.amount),
            "itemStyle": {"color": colours[s.label]},
            "label": {"color": "#fff"},
        }
        for s in parts
    ]
    if rest > 0:
        cells.append({"name": "Other", "value": rest, "itemStyle": {"color": OTHER}, "label": {"color": "#1B232B"}})
    return {
        "tooltip": {"trigger": "item", "valueFormatter": f"{currency} {words.money_format(currency)}"},
        "series": [
            {
                "type": "treemap",
                "data": cells,
                "roam": False,
                "nodeClick": False,
                "breadcrumb": {"show": False},
                "left": 0,
                "right": 0,
                "top": 0,
                "bottom": 0,
                "label": {
                    "fontSize": 12,
                    "overflow": "truncate",
                    "textBorderColor": "rgba(0,0,0,0.55)",
                    "textBorderWidth": 2,
                },
                "itemStyle": {"gapWidth": 2, "borderWidth": 0},
            }
        ],
    }
