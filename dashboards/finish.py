"""The one post-processor: grafanalib's output made right for Grafana 11 to 13.

grafanalib 0.7.1 writes the schema of years ago: empty keys that Grafana no longer knows, ``"null"`` as text for the
base of a threshold, fixed ``maxDataPoints`` and ``step``, targets without a data source. What is kept is listed here,
so that nothing unknown gets through; identifiers and references are set for every panel.
"""

from __future__ import annotations

import json
from typing import Any, Final

from grafanalib._gen import DashboardEncoder
from grafanalib.core import Dashboard

SCHEMA_VERSION: Final = 42
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
REFRESH_INTERVALS: Final = ["30s", "1m", "5m", "15m", "1h"]

_DASHBOARD_KEYS: Final = (
    "uid", "title", "description", "tags", "timezone", "editable", "graphTooltip", "time", "refresh", "schemaVersion",
    "version", "links",
)  # fmt: skip
_PANEL_KEYS: Final = (
    "type", "title", "description", "gridPos", "datasource", "targets", "fieldConfig", "options", "transformations",
    "interval", "timeFrom", "links", "collapsed", "panels", "repeat", "repeatDirection", "maxPerRow",
)  # fmt: skip
_TARGET_KEYS: Final = ("expr", "legendFormat", "format", "instant", "interval")
_DEFAULTS_KEYS: Final = (
    "unit", "min", "max", "decimals", "color", "custom", "mappings", "thresholds", "noValue", "links", "displayName",
)  # fmt: skip
_VARIABLE_KEYS: Final = ("name", "label", "type", "hide", "multi", "includeAll", "allValue", "refresh", "regex", "sort")


def finish(board: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana's JSON model."""
    raw = json.loads(json.dumps(board.to_json_data(), cls=DashboardEncoder))
    made = _kept(raw, _DASHBOARD_KEYS) | {
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "timepicker": {"refresh_intervals": REFRESH_INTERVALS},
        "templating": {"list": [_variable(variable) for variable in raw["templating"]["list"]]},
        "annotations": raw["annotations"],
        "links": [_kept(link, tuple(link)) for link in raw["links"]],
    }
    made["panels"] = [_panel(panel) for panel in raw["panels"]]
    for number, panel in enumerate(made["panels"], 1):
        panel["id"] = number
    return made


def as_text(model: dict[str, Any]) -> str:
    """The file's text: the same board, the same bytes."""
    return json.dumps(model, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _kept(raw: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: raw[key] for key in keys if raw.get(key) is not None}


def _panel(raw: dict[str, Any]) -> dict[str, Any]:
    panel = _kept(raw, _PANEL_KEYS)
    if not panel.get("links"):
        panel.pop("links", None)
    if raw["type"] == "row":
        return {key: panel[key] for key in ("type", "title", "gridPos", "collapsed", "panels")}
    if raw["type"] == "text":
        return {key: panel[key] for key in ("type", "title", "gridPos", "options") if key in panel}
    panel["datasource"] = DATASOURCE
    panel["targets"] = [_target(target, place) for place, target in enumerate(raw["targets"])]
    panel["fieldConfig"] = _field_config(raw["fieldConfig"])
    return panel


def _target(raw: dict[str, Any], place: int) -> dict[str, Any]:
    target = _kept(raw, _TARGET_KEYS)
    if not target.get("interval"):
        target.pop("interval", None)
    instant = bool(target.get("instant"))
    return target | {
        "refId": chr(ord("A") + place),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "instant": instant,
        "range": not instant,
    }


def _field_config(raw: dict[str, Any]) -> dict[str, Any]:
    defaults = _kept(raw["defaults"], _DEFAULTS_KEYS)
    if "custom" in defaults:
        defaults["custom"] = {key: value for key, value in defaults["custom"].items() if value is not None}
    if "thresholds" in defaults:
        steps = [{"color": step["color"], "value": step["value"]} for step in defaults["thresholds"]["steps"]]
        if steps:
            steps[0]["value"] = None  # the base step has no bound
        defaults["thresholds"] = {"mode": defaults["thresholds"].get("mode", "absolute"), "steps": steps}
    return {"defaults": defaults, "overrides": raw.get("overrides", [])}


def _variable(raw: dict[str, Any]) -> dict[str, Any]:
    variable = _kept(raw, _VARIABLE_KEYS) | {"options": []}
    if raw["type"] == "datasource":
        return variable | {"query": raw["query"]}
    everything = {"text": ["All"], "value": ["$__all"]} if raw["multi"] else {"text": "All", "value": "$__all"}
    asked = {
        "datasource": DATASOURCE,
        "query": {"query": raw["query"], "refId": f"variable-{raw['name']}", "qryType": 1},
    }
    return variable | asked | ({"current": everything} if raw["includeAll"] else {})
