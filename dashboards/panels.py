"""The kinds of panel that the boards are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from grafanalib import core as grafana

from dashboards.look import GREY, PLAIN, Steps, decimals_of

NO_VALUE: Final = "n/a"
"""What is shown where nothing was measured: never a zero."""


_UNKNOWN: Final = {"type": "special", "options": {"match": "null", "result": {"text": NO_VALUE, "color": GREY}}}
"""Without it, what is unknown has the colour of the lowest threshold."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are called in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        source: a label's name, or ``Value #A`` for the value of the first query.
        link: address behind its cells.
        decimals: None: two of money, else what Grafana finds right.
    """

    source: str
    title: str
    unit: str = ""
    steps: Steps = ()
    link: str = ""
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side under a heading; each takes an equal part of the width, unless it says another."""

    title: str
    panels: Sequence[grafana.Panel]
    height: int = 8
    widths: Sequence[int] = field(default=())


def _targets(queries: Sequence[Query], *, instant: bool = False, table: bool = False) -> list[grafana.Target]:
    form = grafana.TABLE_TARGET_FORMAT if table else grafana.TIME_SERIES_TARGET_FORMAT
    return [grafana.Target(expr=q.expr, legendFormat=q.legend, instant=instant, format=form) for q in queries]


def _defaults(unit: str, steps: Steps, **more: Any) -> dict[str, Any]:
    thresholds = {"mode": "absolute", "steps": [{"color": color, "value": bound} for color, bound in steps]}
    return {"fieldConfig": {"defaults": {"unit": unit, "noValue": NO_VALUE, "thresholds": thresholds, **more}}}


def stat(title: str, text: str, query: str, unit: str, steps: Steps = PLAIN, *, decimals: int | None = None) -> Any:
    """One number, as of now."""
    shown = decimals_of(unit) if decimals is None else decimals
    more = {"mappings": [_UNKNOWN]} | ({} if shown is None else {"decimals": shown})
    options = {"graphMode": "none", "colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return grafana.Stat(
        title=title,
        description=text,
        targets=_targets([Query(query)], instant=True),
        extraJson=_defaults(unit, steps, color={"mode": "thresholds"}, **more) | {"options": options},
    )


def lines(
    title: str, text: str, queries: Sequence[Query], unit: str, *, steps: Steps = PLAIN, stacked: bool = False,
    highest: float | None = None,
) -> Any:  # fmt: skip
    """Series over time."""
    shown = len(steps) > 1
    custom = {
        "fillOpacity": 30 if stacked else 0,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if shown else "off"},
    }
    bounds = {"min": 0} | ({} if highest is None else {"max": highest})
    legend = {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"], "showLegend": True}
    return grafana.TimeSeries(
        title=title,
        description=text,
        targets=_targets(queries),
        extraJson=_defaults(unit, steps, custom=custom, **bounds)
        | {"options": {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}},
    )


def bars(title: str, text: str, query: Query, unit: str, steps: Steps = PLAIN, *, highest: float | None = None) -> Any:
    """One bar per series, as of now."""
    bounds = {"min": 0} | ({} if highest is None else {"max": highest})
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "text": {"titleSize": 14, "valueSize": 16},
        "valueMode": "color",
    }
    return _BarGauge(
        title=title,
        description=text,
        targets=_targets([query], instant=True),
        extraJson=_defaults(unit, steps, color={"mode": "thresholds"}, **bounds) | {"options": options},
    )


def timeline(title: str, text: str, query: Query, states: Mapping[int, tuple[str, str]]) -> Any:
    """States over time: (text, colour) by value."""
    options = {str(value): {"text": name, "color": color, "index": value} for value, (name, color) in states.items()}
    mappings = [{"type": "value", "options": options}]
    return grafana.StateTimeline(
        title=title,
        description=text,
        targets=_targets([query]),
        extraJson=_defaults("short", PLAIN, mappings=mappings, color={"mode": "thresholds"})
        | {"options": {"mergeValues": True, "showValue": "auto", "legend": {"showLegend": True}}},
    )


def table(title: str, text: str, queries: Sequence[Query], columns: Sequence[Column]) -> Any:
    """One row per combination of labels, as of now; queries join by the labels that they share."""
    names = {column.source: column.title for column in columns}
    order = {column.source: place for place, column in enumerate(columns)}
    transformations = [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": list(names)}}},
        {"id": "organize", "options": {"renameByName": names, "indexByName": order, "excludeByName": {}}},
    ]
    return grafana.Table(
        title=title,
        description=text,
        targets=_targets(queries, instant=True, table=True),
        transformations=transformations,
        extraJson=_defaults("short", PLAIN)
        | {"options": {"showHeader": True, "cellHeight": "sm"}}
        | {"fieldConfig": _defaults("short", PLAIN)["fieldConfig"] | {"overrides": [_override(c) for c in columns]}},
    )


def _override(column: Column) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    if column.unit:
        properties.append({"id": "unit", "value": column.unit})
    decimals = decimals_of(column.unit) if column.decimals is None else column.decimals
    if decimals is not None:
        properties.append({"id": "decimals", "value": decimals})
    if column.steps:
        steps = [{"color": color, "value": bound} for color, bound in column.steps]
        properties.append({"id": "thresholds", "value": {"mode": "absolute", "steps": steps}})
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
        properties.append({"id": "mappings", "value": [_UNKNOWN]})
    if column.link:
        link = {"title": "Look closer", "url": column.link, "targetBlank": False}
        properties.append({"id": "links", "value": [link]})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


class _BarGauge(grafana.Panel):  # type: ignore[misc]  # grafanalib has no types
    """grafanalib's own BarGauge writes a shape that Grafana gave up in version 7."""

    def to_json_data(self) -> dict[str, Any]:
        """The panel's JSON."""
        made: dict[str, Any] = self.panel_json({"type": "bargauge", "options": {}})
        return made
