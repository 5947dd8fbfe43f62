"""Small pieces of PromQL, quoted right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal


def quote(text: str) -> str:
    """A PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def number(value: Decimal | float) -> str:
    """A number literal, exact where the value is a Decimal."""
    text = f"{value:f}" if isinstance(value, Decimal) else repr(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def by(*labels: str) -> str:
    """A label list in parentheses."""
    return f"({', '.join(labels)})"


def replaced(expression: str, target: str, value: str, source: str, pattern: str) -> str:
    """``label_replace`` of one label."""
    return f"label_replace({expression}, {quote(target)}, {quote(value)}, {quote(source)}, {quote(pattern)})"


def labelled(expression: str, labels: Mapping[str, str]) -> str:
    """The expression with labels of fixed value added."""
    for name, value in labels.items():
        expression = replaced(expression, name, value.replace("$", "$$"), "", "")
    return expression


def selector(name: str, *matchers: str) -> str:
    """A vector selector; empty matchers are left out."""
    kept = ",".join(matcher for matcher in matchers if matcher)
    return f"{name}{{{kept}}}" if kept else name


def named(names: Iterable[str], *matchers: str) -> str:
    """A selector of all series with one of the names."""
    several = tuple(names)
    if len(several) == 1:
        return selector(several[0], *matchers)
    return selector("", f"__name__=~{quote('|'.join(several))}", *matchers)


def anchored(glob: str, any_text: str = ".") -> str:
    """A glob as the RE2 pattern that PromQL anchors, ignoring case.

    Args:
        any_text: the class of characters that ``*`` and ``?`` stand for.
    """
    pieces = []
    for piece in re.split(r"([*?]|\[[^\]]+\])", glob):
        if piece == "*":
            pieces.append(f"{any_text}*")
        elif piece == "?":
            pieces.append(any_text)
        elif piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
            inside = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            pieces.append(re.sub(r"([\\.+*?^$|(){}\[\]])", r"\\\1", piece))
    return "(?i)" + "".join(pieces)


def model_is(glob: str) -> str:
    """The matcher for a model glob; "" for ``*``."""
    return "" if glob == "*" else f"model=~{quote(anchored(glob))}"


def lasting(series: str) -> str:
    """What a series was last, for up to five minutes: one scrape that failed mustn't start an alert's `for` anew."""
    return f"last_over_time({series}[5m])"


def during(expression: str, start: datetime | None, end: datetime | None) -> str:
    """The expression while the evaluation time is in [start, end); None is open."""
    if start is None and end is None:
        return expression
    since = "" if start is None else f" >= {start.timestamp():.0f}"
    until = "" if end is None else f" < {end.timestamp():.0f}"
    return f"({expression} and on () (vector(time()){since}{until}))"
