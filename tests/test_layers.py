"""Imports go down only, and each wing uses only the third parties that its extra installs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

FLOORS: Final = {"gpuledger": 5, "app": 4, "dashboards": 3, "alerts": 3, "pipelines": 2, "exporter": 1}

NODE: Final = frozenset({"prometheus_client", "pynvml", "yaml"})
ENGINE: Final = NODE | {
    *(
        "cramjam",
        "duckdb",
        "google",
        "google_crc32c",
        "httpx",
        "msgspec",
        "numpy",
        "polars",
        "pydantic",
        "pydantic_core",
        "urllib3",
    )
}
THIRD_PARTIES: Final = {
    "exporter": NODE,
    "pipelines": ENGINE,
    "alerts": ENGINE,
    "dashboards": ENGINE | {"grafanalib"},
    "app": ENGINE | {"altair", "pandas", "starlette", "streamlit"},
    "gpuledger": ENGINE,
}

OPTIONAL: Final = {
    "exporter/owners/kubernetes.py": {"grpc"},  # inside a function, where a kubelet is
    "exporter/owners/podresources.py": {"google"},  # loaded by it
    "exporter/passwords.py": {"bcrypt"},  # where the system's libcrypt has none
    "pipelines/book/statement_pdf.py": {"typst"},  # comes with [reports]
    "pipelines/book/words.py": {"persiantools"},  # comes with [reports]
    "pipelines/book/statement_xlsx.py": {"xlsxwriter"},  # comes with [reports]
    "pipelines/compiled.py": {"numba"},  # comes with [fast]; loaded where it is
    "pipelines/engine/connect.py": {"grpc", "pyarrow", "pyspark"},  # comes with [spark]; inside functions
    "pipelines/promql/lint.py": {"promql_parser"},  # comes with [dashboards], whose queries it lints
}
"""What single files may import of an extra that the rest of their wing does without."""

REPOSITORY: Final = Path(__file__).resolve().parent.parent


def modules(wing: str) -> list[Path]:
    return sorted((REPOSITORY / wing).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Top-level package and line of every import, those inside functions and for type checkers among them."""
    package = path.relative_to(REPOSITORY).parts[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield (package if node.level else (node.module or "").partition(".")[0]), node.lineno


def violations(wing: str) -> Iterator[str]:
    for path in modules(wing):
        brought = THIRD_PARTIES[wing] | OPTIONAL.get(path.relative_to(REPOSITORY).as_posix(), set())
        for name, line in imports(path):
            at = f"{path.relative_to(REPOSITORY)}:{line} imports {name}"
            if name in FLOORS:
                if name != wing and FLOORS[name] >= FLOORS[wing]:
                    yield f"{at}, which is not on a lower floor"
            elif name == "tests":
                yield f"{at}, which no wheel holds"
            elif name not in sys.stdlib_module_names and name not in brought | {"_typeshed"}:
                yield f"{at}, which the extra of {wing}/ does not bring"


@pytest.mark.parametrize("wing", FLOORS)
def test_a_wing_imports_only_lower_floors_and_its_own_third_parties(wing: str) -> None:
    assert modules(wing), f"{wing}/ holds no module"
    assert list(violations(wing)) == []


UPWARD: Final = """\
import json


def serve():
    from pipelines import config
    import polars
"""


def test_a_violation_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exporter").mkdir()
    (tmp_path / "exporter" / "server.py").write_text(UPWARD)
    monkeypatch.setattr(sys.modules[__name__], "REPOSITORY", tmp_path)
    assert [text.partition(",")[0] for text in violations("exporter")] == [
        "exporter/server.py:5 imports pipelines",
        "exporter/server.py:6 imports polars",
    ]


ALONE: Final = """
import importlib.abc, pathlib, pkgutil, sys

PRESENT = {"exporter", "prometheus_client", "pynvml", "yaml", "_yaml"} | set(sys.stdlib_module_names)

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in PRESENT:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, Absent())
import exporter
for module in pkgutil.walk_packages(exporter.__path__, "exporter."):
    if module.name != "exporter.owners.podresources":
        __import__(module.name)
"""


def test_the_exporter_imports_where_nothing_but_its_three_dependencies_is_installed() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("wing", FLOORS)
def test_no_file_is_longer_than_600_lines(wing: str) -> None:
    long = {str(path): count for path in modules(wing) if (count := len(path.read_text("utf-8").splitlines())) > 600}
    assert long == {}
