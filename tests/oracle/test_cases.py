"""The oracle answers every shared replay case as the case expects, so that it may judge the pipeline."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import replay

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


def cases() -> list[Path]:
    found = sorted(path.parent for path in CASES.glob("*/expected.json"))
    return found or [Path("absent")]


def contained(expected: Any, actual: Any) -> bool:
    if isinstance(expected, dict):
        return all(key.startswith("_") or contained(value, actual[key]) for key, value in expected.items())
    if isinstance(expected, list):
        key = {k for item in expected for k in ("tenant", "workload", "code") if k in item}.pop()
        return all(any(a[key] == item[key] and contained(item, a) for a in actual) for item in expected)
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return isinstance(actual, (int, float)) and abs(actual - expected) <= 0.0005
    return bool(expected == actual)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_oracle_answers_a_case_as_expected(case: Path) -> None:
    if not case.exists():
        pytest.skip("the shared cases are not beside this checkout")
    report = replay(case)
    assert contained(json.loads((case / "expected.json").read_text()), report)
    fleet = report["fleet"]
    parts = sum(fleet[f"{part}_gpu_hours"] for part in ("allocated", "idle", "stranded", "down", "unobserved"))
    assert parts == pytest.approx(fleet["capacity_gpu_hours"], abs=1e-5)
    assert Decimal(fleet["cost"]) == Decimal(fleet["billed"]) + Decimal(fleet["unbilled"])
