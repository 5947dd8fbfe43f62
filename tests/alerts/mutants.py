"""Small wrong changes to an alert's rule: thresholds, operators, matchers, ranges, durations and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_COMPARED = re.compile(r"(?P<operator>>=|<=|==|!=|>|<) (?P<number>[0-9.]+)")
_OTHER = {">": (">=", "<"), ">=": (">", "<"), "<": ("<=", ">"), "<=": ("<", ">"), "==": ("!=",), "!=": ("==",)}
_MATCHER = re.compile(r'(?P<name>[a-z_]+)(?P<operator>=~|=)"(?P<value>[^"]*)"')
_LENGTH = re.compile(r"(?:\[|offset )(?P<amount>[0-9]+)(?P<unit>[mhd])")
_JOINED = re.compile(r" (and|unless|or) ")
_OPPOSITE = {"and": "unless", "unless": "and", "or": "and"}


def mutants(rule: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each change's name, and the rule with it."""
    expr = rule["expr"]
    for found in _COMPARED.finditer(expr):
        for other in _OTHER[found["operator"]]:
            yield _changed(rule, found.start("operator"), found.end("operator"), other)
        for number in _near(found["number"]):
            yield _changed(rule, found.start("number"), found.end("number"), number)
    for found in _MATCHER.finditer(expr):
        negated = {"=~": "!~", "=": "!="}[found["operator"]]
        yield _changed(rule, found.start("operator"), found.end("operator"), negated)
        alternatives = found["value"].split("|")
        if found["operator"] == "=~" and "(" not in found["value"] and len(alternatives) > 1:
            for fewer in (alternatives[1:], alternatives[:-1]):
                yield _changed(rule, found.start("value"), found.end("value"), "|".join(fewer))
    for found in _LENGTH.finditer(expr):
        yield _changed(rule, found.start("amount"), found.end("amount"), f"{found['amount']}0")
    for found in _JOINED.finditer(expr):
        yield _changed(rule, found.start(1), found.end(1), _OPPOSITE[found[1]])
    if "for" in rule:
        amount, unit = int(rule["for"][:-1]), rule["for"][-1]
        for length in (amount * 3, 0):
            yield f"for: {length}{unit}", {**rule, "for": f"{length}{unit}"}
    for name, value in rule["labels"].items():
        yield f"without its {name}", {**rule, "labels": {k: v for k, v in rule["labels"].items() if k != name}}
        yield f"another {name}", {**rule, "labels": {**rule["labels"], name: f"not-{value}"}}


def _near(text: str) -> list[str]:
    number = float(text)
    step = max(abs(number) * 0.1, 0.02) if "." in text else max(round(abs(number) * 0.1), 1)
    return [f"{number + step:g}" if "." in text else str(int(number + step))] + (
        [f"{number - step:g}" if "." in text else str(int(number - step))] if number else []
    )


def _changed(rule: Mapping[str, Any], start: int, end: int, text: str) -> tuple[str, dict[str, Any]]:
    expr = rule["expr"]
    name = f"{expr[max(0, start - 30) : start]}[{expr[start:end]} → {text}]{expr[end : end + 20]}"
    return name, {**rule, "expr": expr[:start] + text + expr[end:]}
