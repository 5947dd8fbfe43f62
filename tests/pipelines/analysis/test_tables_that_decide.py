"""The tables that decide: complete, used, told in the documentation, and made without looking at the simulation."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

import pipelines
from pipelines.analysis.causes import ACCUSING, BY_ID, CAUSES, UNKNOWN
from pipelines.analysis.reference import render
from pipelines.analysis.signatures import SIGNATURES, THRESHOLDS, Signature
from pipelines.analysis.tables import FEATURES, WINDOW

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = Path(pipelines.__file__).parent


def imported(folder: Path) -> set[str]:
    found = set()
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path} imports relatively"
                found.add(node.module or "")
    return found


def test_the_analysis_never_sees_how_jobs_are_simulated() -> None:
    assert not [name for name in imported(PACKAGES / "analysis") if name.startswith("pipelines.simulate")]


def test_the_simulation_never_sees_how_jobs_are_analysed() -> None:
    assert not [name for name in imported(PACKAGES / "simulate") if name.startswith("pipelines.analysis")]


def test_every_signature_is_of_a_cause_that_readers_know_in_its_order() -> None:
    order = [cause.id for cause in CAUSES]
    places = [order.index(signature.cause) for signature in SIGNATURES]
    assert places == sorted(places)
    assert {*order} - {s.cause for s in SIGNATURES} == {"idle", UNKNOWN}


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.cause)
def test_a_signature_speaks_of_known_features_and_thresholds(signature: Signature) -> None:
    for condition in signature.each():
        assert condition.feature in FEATURES
        assert condition.feature in WINDOW
        assert condition.threshold in THRESHOLDS
    assert signature.source


def test_every_threshold_is_used_and_has_its_reason_and_source() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PACKAGES / "analysis").glob("*.py")))
    for name, threshold in THRESHOLDS.items():
        assert source.count(f'"{name}"') >= 2, f"{name} decides nothing"
        assert threshold.why
        assert threshold.source


def test_every_cause_but_good_ones_has_a_remedy() -> None:
    assert all(cause.remedy for cause in CAUSES)
    assert {"idle", "overprovisioned"} == ACCUSING
    assert set(BY_ID) == {cause.id for cause in CAUSES}


def test_the_document_says_what_the_tables_say() -> None:
    written = (REPOSITORY / "docs" / "bottlenecks.md").read_text(encoding="utf-8")
    generated, heading, measured = written.partition("## How often it is right\n")
    assert generated == render() + "\n", "run python -m pipelines.analysis.reference"
    assert heading
    assert "Truth by row, answer by column" in measured
