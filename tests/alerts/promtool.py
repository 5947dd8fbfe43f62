"""Alert tests as tables, run by promtool: input series, and which alerts fire when, with which labels."""

from __future__ import annotations

import re
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
        every: minutes from one evaluation to the next; more than one where a history is of days.
        firing: by minute, the labels (but severity and audience) of each instance that fires then; "" for none.
    """

    alert: str
    what: str
    series: Mapping[str, str]
    firing: Mapping[int, Sequence[Labels]]
    labels: Labels = field(default_factory=dict)
    every: int = 1


@cache
def example() -> Config:
    """The configuration that the tests' rules are made from."""
    return load(EXAMPLE)


def rule_of(alert: str) -> dict[str, Any]:
    """The alert's rule; annotations apart, they have a test of their own."""
    (rule,) = (dict(r) for group in alert_groups(example(), Links()) for r in group.rules if r["alert"] == alert)
    del rule["annotations"]
    return rule


def failing(cases: Sequence[Case], forms: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, str]:
    """What promtool says of each form of an alert's rule, by the form's name, that doesn't keep to the cases.

    All forms stand beside each other in one rule file, each under a name of its own: a history is loaded, and what they
    rest on is recorded, once for all of them.
    """
    wrong: dict[str, str] = {}
    while True:
        left = {name: rule for name, rule in forms.items() if name not in wrong}
        said = _run(cases, left, folder)
        found = {left_name: said for left_name in left if re.search(rf"(alertname|rule): {left_name},", said)}
        assert found or not said, said
        wrong |= found
        # A rule that can't be evaluated ends the history for all: the others are asked again without it.
        if not re.search(r"^ +rule: ", said, re.MULTILINE):
            return wrong


def noticed(cases: Sequence[Case], forms: Mapping[str, Mapping[str, Any]], folder: Path) -> set[str]:
    """The forms of an alert's rule that don't keep to some case.

    Cases that state what the alert reads take little reckoning, and the first that fire notice most: each lot sees what
    those before it left.
    """
    found: set[str] = set()
    for _, alike in sorted(_alike(cases), key=lambda pair: (-len(pair[0][0]), pair[0][1])):
        ordered = sorted(alike, key=lambda case: not any(case.firing.values()))
        for lot in (ordered[:2], ordered[2:]):
            left = {name: rule for name, rule in forms.items() if name not in found}
            found |= failing(lot, left, folder).keys() if lot and left else set()
    return found


def _alike(cases: Sequence[Case]) -> list[tuple[tuple[tuple[str, ...], int], list[Case]]]:
    """Cases that one rule file serves: by the recorded series that they state, and the time between evaluations."""
    return [(kind, list(alike)) for kind, alike in groupby(sorted(cases, key=_kind), key=_kind)]


def _kind(case: Case) -> tuple[tuple[str, ...], int]:
    return _given(case), case.every


def _given(case: Case) -> tuple[str, ...]:
    """The recorded series that a case states outright: what they are made of doesn't matter to it."""
    names = {series.partition("{")[0] for series in case.series}
    return tuple(sorted(names & RECORDED.keys()))


def _with_what_they_rest_on(alerts: Sequence[Mapping[str, Any]], given: Sequence[str]) -> list[Mapping[str, Any]]:
    """Alerts after the recording rules that they rest on, in one group: a test sees no lag between them."""
    wanted = list(alerts)
    for candidate in reversed(_recording()):
        if candidate["record"] not in given and any(reads(rule["expr"], candidate["record"]) for rule in wanted):
            wanted.insert(0, candidate)
    return wanted


@cache
def _recording() -> list[dict[str, Any]]:
    config = example()
    return [dict(rule) for group in recording(config, read_stock(config)) for rule in group.rules]


def _run(cases: Sequence[Case], forms: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    """Promtool's output, "" where every case holds for every form; one process for all."""
    files = []
    for number, ((given, every), alike) in enumerate(_alike(cases)):
        named = [{**form, "alert": name} for name, form in forms.items()]
        group = {"name": "test", "interval": f"{every}m", "rules": _with_what_they_rest_on(named, given)}
        _write(folder / f"rules-{number}.yml", {"groups": [group]})
        tests = [_test(case, list(forms)) for case in alike]
        files.append(folder / f"tests-{number}.yml")
        _write(files[-1], {"rule_files": [f"rules-{number}.yml"], "evaluation_interval": f"{every}m", "tests": tests})
    done = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, width=10_000))


def _test(case: Case, names: Sequence[str]) -> dict[str, Any]:
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": name,
                "exp_alerts": [{"exp_labels": {**case.labels, **labels}} for labels in instances],
            }
            for minute, instances in case.firing.items()
            for name in names
        ],
    }
