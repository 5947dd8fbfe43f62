"""Alert tests as tables, run by promtool: input series, and which alerts fire when, with which labels."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from alerts.build import alert_groups
from alerts.links import Links
from alerts.recording import recording
from alerts.stock import read_stock
from pipelines.config import Config, load
from pipelines.promql.recorded import RECORDED
from tests.alerts.prometheus import reads

EXAMPLE = Path(__file__).resolve().parents[2] / "alerts" / "example" / "gpuledger.yaml"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One history of one alert.

    Args:
        alert: its name.
        what: what the history shows: fires, resolves, first occurrence …
        series: promtool's notation by series, a sample a minute.
        firing: by minute, the labels (but severity and audience) of each instance that fires then; "" for none.
    """

    alert: str
    what: str
    series: Mapping[str, str]
    firing: Mapping[int, Sequence[Labels]]
    labels: Labels = field(default_factory=dict)


@cache
def example() -> Config:
    """The configuration that the tests' rules are made from."""
    return load(EXAMPLE)


def rule_of(alert: str) -> dict[str, Any]:
    """The alert's rule; annotations apart, they have a test of their own."""
    (rule,) = (dict(r) for group in alert_groups(example(), Links()) for r in group.rules if r["alert"] == alert)
    del rule["annotations"]
    return rule


def run(cases: Sequence[Case], alert: Mapping[str, Any], folder: Path) -> str:
    """What promtool says is wrong with the cases under this form of their alert's rule; "" where all hold."""
    return "".join(_run(list(alike), _resting_on(alert, given), folder) for given, alike in _alike(cases))


def noticed(cases: Sequence[Case], alert: Mapping[str, Any], folder: Path) -> bool:
    """Whether any case fails under this form of the rule; one case a time, since the first mostly does."""
    rules = {given: _resting_on(alert, given) for given, _ in _alike(cases)}
    # Those that state more take less reckoning, and those that fire say more.
    ordered = sorted(cases, key=lambda case: (not _given(case), not any(case.firing.values())))
    first, others = ordered[:2], ordered[2:]
    return any(_run([case], rules[_given(case)], folder) for case in first) or run(others, alert, folder) != ""


def _alike(cases: Sequence[Case]) -> list[tuple[tuple[str, ...], list[Case]]]:
    return [(given, list(alike)) for given, alike in groupby(sorted(cases, key=_given), key=_given)]


def _given(case: Case) -> tuple[str, ...]:
    """The recorded series that a case states outright: what they are made of doesn't matter to it."""
    names = {series.partition("{")[0] for series in case.series}
    return tuple(sorted(names & RECORDED.keys()))


def _resting_on(alert: Mapping[str, Any], given: Sequence[str]) -> list[Mapping[str, Any]]:
    """The alert after the recording rules that it rests on, in one group: a test sees no lag between them."""
    wanted: list[Mapping[str, Any]] = [alert]
    for candidate in reversed(_recording()):
        if candidate["record"] not in given and any(reads(rule["expr"], candidate["record"]) for rule in wanted):
            wanted.insert(0, candidate)
    return wanted


@cache
def _recording() -> list[dict[str, Any]]:
    config = example()
    return [dict(rule) for group in recording(config, read_stock(config)) for rule in group.rules]


def _run(cases: Sequence[Case], rules: Sequence[Mapping[str, Any]], folder: Path) -> str:
    group = {"name": "test", "interval": "1m", "rules": [dict(rule) for rule in rules]}
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}, sort_keys=False, width=10_000))
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [_test(case) for case in cases]}
    (folder / "tests.yml").write_text(yaml.safe_dump(tests, sort_keys=False, width=10_000))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "tests.yml")], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _test(case: Case) -> dict[str, Any]:
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": case.alert,
                "exp_alerts": [{"exp_labels": {**case.labels, **labels}} for labels in instances],
            }
            for minute, instances in case.firing.items()
        ],
    }
