"""The pipeline against an independent engine that was written from the rules alone, over random replay directories.

A difference is a misreading by one of the two. ``ORACLE_SEEDS=1000:2000`` looks at other seeds of everything mixed;
``python -m tests.oracle.fuzz`` keeps the directories that differ.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest

from tests.oracle import replay as ask_the_oracle
from tests.oracle.compare import differences
from tests.oracle.random_cases import DOUBTFUL, FEATURES, make_case
from tests.pipelines.stages import run

TOGETHER: Final = (
    ("irregular", "holes", "steps"),
    ("interval", "holes", "midnight"),
    ("invalid", "duplicates", "engine"),
    ("replicas", "holes", "energy", "uid"),
    ("jobs", "holes"),
    ("hosts", "holes", "power"),
    ("contradicting", "engine"),
    ("temperature", "invalid", "shuffled"),
    ("energy", "resets", "frozen", "power"),
    ("openmetrics", "shuffled"),
    ("handover", "flicker", "uid"),
    ("handover", "flicker", "attribution", "holes"),
    ("exported", "handover"),
    ("partly_labelled", "handover"),
    ("slices", "vgpu", "slots", "inventory"),
    ("slices", "energy", "engine"),
    ("mig", "layouts", "mig_parent"),
    ("mig", "layouts", "energy", "engine"),
    ("mig", "uid", "handover", "holes"),
    ("mig", "sacct"),
    ("sacct", "sacct_labels", "holes"),
    ("sacct", "sacct_labels", "bare", "requeue"),
    ("sacct", "running", "window"),
    ("sacct", "multinode", "clusters"),
    ("allocations", "nameless", "outside", "classes"),
    ("allocations", "down", "reservations"),
    ("down", "inventory", "unseen", "window"),
    ("inventory", "unseen", "owner", "idle"),
    ("clusters", "handover"),
    ("rates", "reservations", "quota", "spot"),
    ("unpriced", "models", "rates"),
    ("idle", "reservations", "owner", "inventory"),
    ("overheads", "zones", "window", "budget"),
    ("charged_energy", "energy", "currency"),
    ("dated", "rates", "zones", "window"),
    ("quota", "classes", "allocations", "spot"),
)
"""What meets what: each of the features stands in at least one row."""

OPEN: Final = {
    "repeats": (
        ("findings[duplicate_sample]",),
        "a line written twice is a duplicate that we count, the oracle does not",
    ),
}
"""What the rules leave open and the two read differently: where it shows, and why ours is so."""


def mixed_seeds() -> range:
    first, last = (int(number) for number in os.environ.get("ORACLE_SEEDS", "2000:2030").split(":"))
    return range(first, last)


def disagreements_on(seed: int, directory: Path, features: Collection[str]) -> list[str]:
    make_case(seed, directory, features)
    return differences(ask_the_oracle(directory), run(directory).report())


@pytest.mark.parametrize("features", TOGETHER, ids="+".join)
def test_features_that_meet_are_read_as_the_oracle_reads_them(features: tuple[str, ...], tmp_path: Path) -> None:
    assert disagreements_on(len(features), tmp_path, features) == []


@pytest.mark.parametrize("seed", mixed_seeds())
def test_everything_mixed_is_read_as_the_oracle_reads_it(seed: int, tmp_path: Path) -> None:
    assert disagreements_on(seed, tmp_path, FEATURES) == []


@pytest.mark.parametrize("feature", sorted(set(DOUBTFUL) - set(OPEN)))
def test_a_question_that_the_rules_leave_open_is_answered_alike(feature: str, tmp_path: Path) -> None:
    beside = {
        "netting": ("reservations", "idle", "models"),
        "inferred_merge": ("replicas", "irregular", "holes"),
        "crowded_slots": ("replicas", "irregular", "holes"),
        "broken_contradiction": ("contradicting", "engine", "holes"),
        "lingering": ("sacct", "sacct_labels", "requeue"),
    }[feature]
    assert disagreements_on(1, tmp_path, (feature, *beside)) == []


@pytest.mark.parametrize("feature", OPEN)
def test_a_known_difference_shows_where_it_is_told_and_nowhere_else(feature: str, tmp_path: Path) -> None:
    shows, _ = OPEN[feature]
    found = [d for seed in (0, 3, 5) for d in disagreements_on(seed, tmp_path / str(seed), (feature, "duplicates"))]
    assert found
    assert all(difference.startswith(shows) for difference in found)


def test_every_feature_meets_another() -> None:
    assert {feature for row in TOGETHER for feature in row} == set(FEATURES)
