"""What a rule or a panel query must keep to, checked on its syntax tree.

- each metric is in the catalogue, an exporter's own, or recorded;
- ``rate`` and its kin see at least four scrapes;
- every label that is named can be there;
- the "one" side of a join is one series per key, so that no hand-over makes it many-to-many;
- no label that comes and goes with pods, jobs or scrape targets survives into what is recorded or alerted.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import promql_parser as promql

from pipelines.promql.recorded import RECORDED
from pipelines.promql.vocabulary import VOLATILE, labels_of

SCRAPE: Final = timedelta(minutes=1)
LEAST_SCRAPES: Final = 4
_NEEDS_SCRAPES: Final = frozenset(
    {"rate", "irate", "increase", "deriv", "delta", "idelta", "predict_linear", "changes"}
)
_SET_OPERATORS: Final = frozenset({"and", "or", "unless"})
_NO_LABELS: Final = frozenset({"vector", "scalar", "time", "pi"})
_PICKING: Final = frozenset({"topk", "bottomk", "limitk"})
_TEMPLATE_LABEL: Final = re.compile(r"\$labels\.([a-zA-Z_][a-zA-Z0-9_]*)")
_VARIABLES: Final = {
    "$__rate_interval": "4m", "$__interval": "1m", "$__range_s": "3600", "$__range": "1h",
}  # fmt: skip
_VARIABLE: Final = re.compile(r"\$\{?[a-zA-Z_][a-zA-Z0-9_]*(:[a-z]+)?\}?")

Labels = frozenset[str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def lint(expression: str, where: str, *, also: Collection[str] = (), stable: bool = True) -> list[Fault]:
    """The faults of one expression.

    Args:
        also: names that count as recorded although the catalogue doesn't know them.
        stable: whether labels that come and go are a fault: in rules they are, in a panel they may be the point.
    """
    try:
        tree = promql.parse(without_variables(expression))
    except ValueError as error:
        return [Fault(where, f"is no PromQL: {error}")]
    linter = _Linter(also)
    labels = linter.labels(tree)
    faults = list(dict.fromkeys(linter.faults))
    if stable and labels is not None and (gone := sorted(labels & VOLATILE)):
        faults.append(f"keeps {', '.join(gone)}, which come and go; aggregate them away")
    return [Fault(where, what) for what in faults]


def result_labels(expression: str) -> Labels | None:
    """Labels that the result may have; None: unknown."""
    return _Linter(()).labels(promql.parse(without_variables(expression)))


def undefined_labels(text: str, labels: Labels | None) -> list[str]:
    """Labels that a template (``{{ $labels.x }}``) uses and the result can't have."""
    return [] if labels is None else sorted({name for name in _TEMPLATE_LABEL.findall(text) if name not in labels})


def without_variables(expression: str) -> str:
    """A panel's query with a value for each of Grafana's variables."""
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return _VARIABLE.sub(".*", expression) if "=~" in expression else expression


class _Linter:
    """Walks a tree bottom-up; ``faults`` fill on the way."""

    def __init__(self, also: Collection[str]) -> None:
        self.faults: list[str] = []
        self._also = frozenset(also)

    def labels(self, node: Any) -> Labels | None:
        """Labels of a node's result; None: unknown."""
        if isinstance(node, promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
            return self.labels(node.expr)
        if isinstance(node, promql.MatrixSelector):
            return self._selected(node.vector_selector)
        walk = {
            promql.VectorSelector: self._selected,
            promql.AggregateExpr: self._aggregated,
            promql.BinaryExpr: self._combined,
            promql.Call: self._called,
        }.get(type(node))
        return frozenset() if walk is None else walk(node)

    def _selected(self, node: Any) -> Labels | None:
        matchers = [(m.name, m.value) for m in node.matchers.matchers]
        names = [node.name] if node.name else [v for name, v in matchers if name == "__name__"]
        known: Labels | None = frozenset()
        for name in (part for text in names for part in text.split("|")):
            found = labels_of(name)
            if found is None and name not in self._also:
                self.faults.append(f"reads {name}, which is neither in the catalogue nor recorded")
            known = None if found is None or known is None else known | found
        if known is not None:
            self._expect([name for name, _ in matchers if name != "__name__"], known, "matches on")
        return known

    def _aggregated(self, node: Any) -> Labels | None:
        inner = self.labels(node.expr)
        operator = str(node.op)
        if operator in _PICKING:
            return inner
        listed = frozenset(node.modifier.labels) if node.modifier else frozenset()
        without = node.modifier is not None and node.modifier.type == promql.AggModifierType.Without
        if without:
            return None if inner is None else inner - listed
        if inner is not None:
            self._expect(sorted(listed), inner, "groups by")
        return listed | ({node.param.val} if operator == "count_values" else set())

    def _called(self, node: Any) -> Labels | None:
        name = node.func.name
        if name in _NEEDS_SCRAPES:
            self._enough_scrapes(name, node.args[0])
        inner: Labels | None = frozenset()
        for argument in node.args:
            found = self.labels(argument)
            inner = None if found is None or inner is None else inner | found
        if name in _NO_LABELS:
            return frozenset()
        if name in {"label_replace", "label_join"}:
            texts = [argument.val for argument in node.args[1:]]
            return None if inner is None else inner | {texts[0]}
        return inner

    def _enough_scrapes(self, name: str, argument: Any) -> None:
        if isinstance(argument, promql.MatrixSelector) and argument.range < LEAST_SCRAPES * SCRAPE:
            self.faults.append(
                f"{name} over {promql.display_duration(argument.range)} sees fewer than {LEAST_SCRAPES} scrapes"
            )

    def _combined(self, node: Any) -> Labels | None:
        left, right = self.labels(node.lhs), self.labels(node.rhs)
        modifier, operator = node.modifier, str(node.op)
        matching = modifier.matching if modifier else None
        on = frozenset(matching.labels) if matching and matching.type == promql.LabelModifierType.Include else None
        if on is not None:
            for side, labels in (("left", left), ("right", right)):
                if labels is not None and labels and not _is_constant(node.lhs if side == "left" else node.rhs):
                    self._expect(sorted(on), labels, "joins on")
        if operator in _SET_OPERATORS:
            if operator == "or":
                return None if left is None or right is None else left | right
            return left
        if _is_number(node.lhs) or _is_number(node.rhs):
            return right if _is_number(node.lhs) else left
        return self._joined(node, left, right, on)

    def _joined(self, node: Any, left: Labels | None, right: Labels | None, on: Labels | None) -> Labels | None:
        card = node.modifier.card if node.modifier else promql.VectorMatchCardinality.OneToOne
        included = frozenset(node.modifier.group_labels or ()) if node.modifier else frozenset()
        if card == promql.VectorMatchCardinality.ManyToOne:
            self._one(node.rhs, right, on, included)
            return None if left is None else left | included
        if card == promql.VectorMatchCardinality.OneToMany:
            self._one(node.lhs, left, on, included)
            return None if right is None else right | included
        if on is not None:
            self._one(node.lhs, left, on, frozenset())
            self._one(node.rhs, right, on, frozenset())
            return on
        return left

    def _one(self, side: Any, labels: Labels | None, on: Labels | None, included: Labels) -> None:
        key = _key(side)
        if on is None or labels is None or key is None or key <= on | included:
            return
        extra = ", ".join(sorted(key - on))
        self.faults.append(f"joins on ({', '.join(sorted(on))}) with a side that has one series per {extra} too")

    def _expect(self, wanted: Collection[str], labels: Labels, doing: str) -> None:
        for name in wanted:
            if name not in labels:
                self.faults.append(f"{doing} {name}, a label that isn't there")


def _key(node: Any) -> Labels | None:
    """Labels by which a side has one series; None: by all that it has, or unknown."""
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        return _key(node.expr)
    if isinstance(node, promql.MatrixSelector):
        return _key(node.vector_selector)
    rule = {
        promql.AggregateExpr: _key_of_aggregate,
        promql.VectorSelector: _key_of_selector,
        promql.Call: _key_of_call,
        promql.BinaryExpr: _key_of_binary,
    }.get(type(node))
    return frozenset() if rule is None else rule(node)


def _key_of_aggregate(node: Any) -> Labels | None:
    operator = str(node.op)
    if operator in _PICKING:
        return frozenset(node.modifier.labels) if node.modifier and _is_one(node.param) else None
    if node.modifier and node.modifier.type == promql.AggModifierType.Without:
        return None
    named = frozenset(node.modifier.labels) if node.modifier else frozenset()
    return named | ({node.param.val} if operator == "count_values" else set())


def _key_of_selector(node: Any) -> Labels | None:
    recorded = RECORDED.get(node.name or "")
    if recorded is None:
        return None
    return frozenset(recorded.key) - {m.name for m in node.matchers.matchers if m.op == promql.MatchOp.Equal}


def _key_of_call(node: Any) -> Labels | None:
    if node.func.name in _NO_LABELS:
        return frozenset()
    return next((_key(argument) for argument in node.args if not _is_number(argument)), frozenset())


def _key_of_binary(node: Any) -> Labels | None:
    if _is_number(node.lhs) or _is_number(node.rhs):
        return _key(node.rhs if _is_number(node.lhs) else node.lhs)
    left, right = _key(node.lhs), _key(node.rhs)
    if str(node.op) == "or":
        return None if left is None or right is None else left | right | _unlike(node)
    if str(node.op) in _SET_OPERATORS:
        return left
    card = node.modifier.card if node.modifier else None
    return right if card == promql.VectorMatchCardinality.OneToMany else left


def _unlike(node: Any) -> Labels:
    """Where the sides of a plain ``or`` differ in their labels, both give a series for one key."""
    if node.modifier is not None and node.modifier.matching is not None:
        return frozenset()
    walker = _Linter(())
    left, right = walker.labels(node.lhs), walker.labels(node.rhs)
    return frozenset() if left == right else frozenset({"side of its `or`"})


def _is_one(node: Any) -> bool:
    return isinstance(node, promql.NumberLiteral) and node.val == 1


def _is_number(node: Any) -> bool:
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        return _is_number(node.expr)
    if isinstance(node, promql.BinaryExpr):
        return _is_number(node.lhs) and _is_number(node.rhs)
    scalar = isinstance(node, promql.Call) and node.func.name in {"scalar", "time", "pi"}
    return scalar or isinstance(node, promql.NumberLiteral | promql.StringLiteral)


def _is_constant(node: Any) -> bool:
    """Whether a side is ``vector(…)``, which has no labels on purpose."""
    if isinstance(node, promql.ParenExpr):
        return _is_constant(node.expr)
    if isinstance(node, promql.BinaryExpr):
        return _is_constant(node.lhs) or _is_constant(node.rhs)
    return isinstance(node, promql.Call) and node.func.name == "vector"
