"""The wheel: what it holds, and that it works where foreign files carry the wings' plain names."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

WINGS: Final = ("alerts", "app", "dashboards", "exporter", "gpuledger", "pipelines")

CONFIG: Final = """\
currency: USD
sources:
  - {allocations: allocations.csv}
tenants:
  - {id: vision, match: [{namespace: "vision-*"}]}
rates:
  - {model: "*", on_demand: "2.50"}
"""
ALLOCATIONS: Final = """\
start,end,gpus,device,model,tenant,workload,class
2026-10-05T00:00:00Z,2026-10-05T04:00:00Z,2,,H100,vision,train,
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=repository, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel; its dependencies are borrowed from ours."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    # A .pth inside the borrowed folder (our editable install) is not followed: only the wheel can provide the wings.
    site_packages = next((home / "lib").glob("python*/site-packages"))
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A user's folder whose files are named like our packages, with something to replay."""
    for name in ("app.py", "exporter.py", "dashboards.py"):
        (tmp_path / name).write_text("raise SystemExit('a foreign module was imported')\n")
    for package in ("alerts", "pipelines"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('a foreign package was imported')\n")
    (tmp_path / "gpuledger.yaml").write_text(CONFIG)
    (tmp_path / "allocations.csv").write_text(ALLOCATIONS)
    return tmp_path


def test_the_wheel_holds_every_file_of_the_wings_and_nothing_else(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        path.relative_to(repository).as_posix()
        for wing in WINGS
        for path in (repository / wing).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"  # Python's and numba's compiled code
    }
    assert held == expected


def test_the_wheel_carries_its_licence_and_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert all(f"{wing}/py.typed" in names for wing in WINGS)


@pytest.mark.parametrize("start", [("gpuledger",), ("python", "-m", "gpuledger")], ids=["script", "module"])
@pytest.mark.parametrize("arguments", [("--help",), ("check",), ("replay", ".", "--json")], ids=" ".join)
def test_the_installed_command_ignores_foreign_files(
    installed: Path, foreign: Path, start: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [str(installed / start[0]), *start[1:], *arguments]
    done = subprocess.run(command, cwd=foreign, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
