"""What every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.programs import why_missing

# The same examples for everyone, and no deadline: a verdict never depends on the machine or its load.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None)
# HYPOTHESIS_PROFILE=explore looks further, at random.
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the caller's shell reaches a test."""
    for name in ("GPULEDGER_CONFIG", "GPULEDGER_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``needs_program("prometheus")`` where the program is absent, saying what installs it."""
    for mark in item.iter_markers("needs_program"):
        for program in mark.args:
            if reason := why_missing(program):
                pytest.skip(reason)
