"""The types of what Prometheus evaluates: recording rules, alerts, groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.promql.recorded import Recorded

Severity = Literal["critical", "warning", "info"]
Audience = Literal["platform", "tenant"]


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """One way in which a recorded series comes about; ``labels`` are added to its result."""

    record: Recorded
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """The rule as Prometheus reads it."""
        rule: dict[str, Any] = {"record": self.record.name, "expr": self.expr}
        return rule | ({"labels": dict(self.labels)} if self.labels else {})


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Args:
        expr: what holds while it fires.
        for_: how long it must hold before it fires, as Prometheus writes durations; "" for at once.
        audience: who acts. A tenant's alert has the label ``tenant``.
        summary: one line; may use ``{{ $labels.x }}`` and ``{{ $value }}``.
        description: what it means and the next step.
        dashboard: uid of the dashboard to look at.
        labels: labels by which two of its instances differ, those that summary and description may use.
    """

    name: str
    expr: str
    severity: Severity
    audience: Audience
    summary: str
    description: str
    dashboard: str
    labels: tuple[str, ...]
    for_: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated in order, each seeing what those before it recorded."""

    name: str
    interval: str
    rules: Sequence[dict[str, Any]]

    def as_yaml(self) -> dict[str, Any]:
        """The group as Prometheus reads it."""
        return {"name": self.name, "interval": self.interval, "rules": list(self.rules)}
