"""The lock: every release by its hashes, no address of any index, and nothing that pyproject.toml needs left out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

LOCKED_EXTRAS: Final = ("kubernetes", "pipelines", "dashboards", "app", "reports", "fast", "dev")


@pytest.fixture(scope="module")
def lock(repository: Path) -> str:
    return (repository / "requirements" / "dev.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=["dev.txt", "bench.txt"])
def any_lock(repository: Path, request: pytest.FixtureRequest) -> str:
    return (repository / "requirements" / request.param).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return parsed


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


def test_each_release_is_pinned_with_hashes(any_lock: str) -> None:
    entries = re.sub(r" \\\n *", " ", any_lock).splitlines()
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^#]*?)?( --hash=sha256:[0-9a-f]{64})+", entry), entry[:60]


@pytest.mark.parametrize("address", ["://", "index-url", "find-links", "@", "file:"])
def test_it_names_no_address(address: str, any_lock: str) -> None:
    assert address not in any_lock


def test_it_holds_all_that_the_demo_and_the_tests_need(lock: str, project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    needed = names(project["dependencies"]).union(*(names(extras[extra]) for extra in LOCKED_EXTRAS)) - {"gpuledger"}
    assert needed - names(lock.splitlines()) == set()


def test_the_other_lock_holds_what_its_benchmark_compares_with(repository: Path) -> None:
    wanted = (repository / "requirements" / "bench.in").read_text(encoding="utf-8").splitlines()
    locked = (repository / "requirements" / "bench.txt").read_text(encoding="utf-8").splitlines()
    assert names(wanted)
    assert names(wanted) - names(locked) == set()


def test_every_dependency_says_for_what(repository: Path) -> None:
    text = (repository / "pyproject.toml").read_text(encoding="utf-8").partition("[project.scripts]")[0]
    lines = [line for line in text.splitlines() if re.match(r' {4}"[A-Za-z0-9._-]+[=><]', line)]
    assert len(lines) > 15
    assert [line for line in lines if "  # " not in line] == []
