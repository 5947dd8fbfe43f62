"""Replays of small scenes, each of one kind of fault or rule, and of the shared cases where they lie beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from pipelines.operations import replay
from pipelines.report import json_schema
from tests.oracle import replay as ask_the_oracle
from tests.oracle.compare import differences as disagreements
from tests.pipelines.cases import Case, capacity, classes, mig, money, owners, samples, schedulers, windows
from tests.pipelines.expected import differences, imbalances

READ_DIFFERENTLY: Final = {
    "a workload name used in two clusters says its cluster": "one UUID in two clusters: two cards here, one there",
    "an unknown profile counts as the smallest slice": "the oracle knows no such profile",
    "a pod's allocation ends where its file says, however long its label lingers": (
        "a row without a tenant whose workload is namespace/pod is that pod's, which selectors match"
    ),
    "an allocation of half a device": "the oracle reads whole GPUs",
    "two schedulers on one device conflict and share it": "one named device is one card, whoever names it",
    "on a shared device another owner's samples don't part a lease by themselves": (
        "the oracle lets another owner's sample part a lease on shared devices too"
    ),
    "a split by memory is an estimate and says so": "the oracle splits evenly alone",
    "a split by utilization is an estimate and says so": "the oracle splits evenly alone",
}
"""Cases whose inputs the oracle refuses or reads otherwise, and why they stand as they do."""

CASES = [case for part in (samples, owners, mig, schedulers, capacity, classes, money, windows) for case in part.CASES]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
SHARED_TOLERANCE = 0.0005  # what those are compared to


def report_of(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(replay(directory).to_json())
    return report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_scene_is_reported_as_the_rules_say(case: Case, tmp_path: Path) -> None:
    report = report_of(case.scene.write(tmp_path))
    assert [*differences(case.expected, report), *imbalances(report)] == []
    VALIDATOR.validate(report)
    if case.name not in READ_DIFFERENTLY:
        assert disagreements(ask_the_oracle(tmp_path), report) == []


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert set(READ_DIFFERENTLY) <= set(names)


@pytest.mark.parametrize("case", sorted(p.parent for p in SHARED.glob("*/expected.json")), ids=lambda case: case.name)
def test_a_shared_case_is_reported_as_it_expects(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    report = report_of(case)
    tolerance = expected.get("_tolerance", SHARED_TOLERANCE)
    assert [*differences(expected, report, tolerance=tolerance), *imbalances(report)] == []
    VALIDATOR.validate(report)
