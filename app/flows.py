"""Pictures of parts of a whole: where the fleet's cost flows, and what bills are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from app import words
from app.accounts import ZERO, Place
from app.palette import BUSY, DOWN, IDLE, OTHER, QUIET, STRANDED, UNKNOWN, series_colours
from app.shares import Share

COLOURS: Final = {
    "allocated": BUSY.colour,
    "unattributed": QUIET.colour,
    "idle": IDLE.colour,
    "stranded": STRANDED.colour,
    "down": DOWN.colour,
    "unobserved": UNKNOWN.colour,
    "overhead": OTHER,
    "commitment": OTHER,
    "adjustment": OTHER,
}
PAID, UNPAID = "Tenants pay", "Unbilled"
SHOWN: Final = 56
TOLD: Final = Decimal("0.03")
"""Part of the whole from which on a place has its name beside it: below, names lie on each other."""


def cost_flow(found: Sequence[Place], currency: str, ink: str) -> dict[str, Any]:
    """Return the flow from the fleet's cost over where it is to who pays it, for ECharts.

    What tenants pay beyond a place's cost (a surcharge) can't flow, and is left out of the picture.
    """
    nodes: list[dict[str, Any]] = [{"name": "Fleet cost", "itemStyle": {"color": OTHER}}]
    links: list[dict[str, Any]] = []
    whole = sum((place.cost for place in found), ZERO)
    for place in found:
        if place.cost <= 0:
            continue
        told = {"show": place.cost >= whole * TOLD}
        nodes.append({"name": place.label, "itemStyle": {"color": COLOURS[place.key]}, "label": told})
        links.append({"source": "Fleet cost", "target": place.label, "value": float(place.cost)})
        paid = max(min(place.billed, place.cost), ZERO)
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
                "right": 90,
                "top": 10,
                "bottom": 10,
                "draggable": False,
                "label": {"color": ink, "fontSize": 12},
                "lineStyle": {"color": "source", "opacity": 0.3},
            }
        ],
    }


def treemap(
    shares: Sequence[Share], currency: str, tenant_name: Callable[[str | None], str], ink: str
) -> dict[str, Any]:
    """Return what bills are made of, each part as large as its amount, within its tenant, for ECharts."""
    by_tenant: dict[str, list[Share]] = {}
    for share in shares:
        if share.amount > 0:
            by_tenant.setdefault(tenant_name(share.tenant), []).append(share)
    each = max(SHOWN // max(len(by_tenant), 1), 3)
    colours = series_colours(list(by_tenant))
    areas = []
    for tenant, own in by_tenant.items():
        children = [{"name": s.label, "value": float(s.amount)} for s in own[:each]]
        if rest := sum(float(s.amount) for s in own[each:]):
            children.append({"name": f"{len(own) - each:,} more", "value": rest})
        areas.append({"name": tenant, "itemStyle": {"color": colours[tenant]}, "children": children})
    outlined = {"color": "#fff", "textBorderColor": "rgba(0,0,0,0.7)", "textBorderWidth": 2, "overflow": "truncate"}
    return {
        "tooltip": {"trigger": "item", "valueFormatter": f"{currency} {words.money_format(currency)}"},
        "series": [
            {
                "type": "treemap",
                "data": areas,
                "roam": False,
                "nodeClick": False,
                "breadcrumb": {"show": False},
                **dict.fromkeys(("left", "right", "top", "bottom"), 0),
                "label": {"fontSize": 11, **outlined},
                "upperLabel": {"show": True, "height": 22, "fontSize": 12, "color": ink, "overflow": "truncate"},
                "levels": [
                    {"itemStyle": {"gapWidth": 3, "borderWidth": 0}, "upperLabel": {"show": False}},
                    {"itemStyle": {"gapWidth": 1, "borderWidth": 0}},
                ],
            }
        ],
    }
