"""Replays of small scenes, each of one kind of fault or rule, and of the shared cases where they lie beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipelines.operations import replay
from pipelines.report import json_schema
from tests.pipelines.cases import Case, capacity, classes, mig, money, owners, samples, schedulers, windows
from tests.pipelines.expected import differences, imbalances

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


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", sorted(p.parent for p in SHARED.glob("*/expected.json")), ids=lambda case: case.name)
def test_a_shared_case_is_reported_as_it_expects(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    report = report_of(case)
    tolerance = expected.get("_tolerance", SHARED_TOLERANCE)
    assert [*differences(expected, report, tolerance=tolerance), *imbalances(report)] == []
    VALIDATOR.validate(report)
