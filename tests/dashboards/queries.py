"""A board's queries as Grafana sends them: variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

ALL = ".*"
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>[a-z_]+)\)")
_QUERY_RESULT = re.compile(r"query_result\((?P<query>.+)\)", re.DOTALL)


def expressions(board: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where each panel query stands, and its text."""
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"{board['uid']}: {panel['title']} {target['refId']}", target["expr"]


def variables(board: Mapping[str, Any]) -> dict[str, str]:
    """Each query variable's query by name."""
    return {v["name"]: v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"}


def asked(query: str) -> tuple[str, str]:
    """The PromQL and the label by which a variable finds its values."""
    if found := _LABEL_VALUES.fullmatch(query):
        return f"group by ({found['label']}) ({found['series']})", found["label"]
    found = _QUERY_RESULT.fullmatch(query)
    assert found, query
    return found["query"], "workload"


def escaped(value: str) -> str:
    """A chosen value as Grafana puts it into a Prometheus regular expression."""
    return re.sub(r"([\\^$*+?.()|{}\[\]'])", r"\\\\\1", value)


def filled(expression: str, values: Mapping[str, str], *, minutes: int) -> str:
    """The expression with these variables; ``minutes`` is Grafana's rate interval."""
    for name, value in {
        "$__rate_interval": f"{minutes}m", "$__interval": f"{minutes}m", "$__range_s": "86400", "$__range": "1d",
    }.items():  # fmt: skip
        expression = expression.replace(name, value)
    for name, value in values.items():
        expression = re.sub(rf"\$\{{?{name}\b(:[a-z]+)?\}}?", lambda _, v=value: v, expression)
    assert "$" not in expression.replace('"$1"', ""), expression
    return expression
