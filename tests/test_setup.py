"""scripts/setup on machines that lack this or that, played by stand-ins on a PATH of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

TOOLS: Final = ("sh", "dirname", "cat", "sha256sum", "cut", "rm", "mkdir", "chmod", "cp")

# A Python that is new enough; it has ensurepip once apt-get has "installed" it, and makes environments whose pip
# writes down what it is asked to do.
PYTHON: Final = """#!/bin/sh
case "$*" in
  *ensurepip*) [ -e "$MACHINE/ensurepip" ] ;;
  *"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\\necho "pip $*" >>"$MACHINE/log"\\n' >"$folder/bin/pip"
    printf '#!/bin/sh\\n' >"$folder/bin/gpuledger"
    chmod +x "$folder/bin/pip" "$folder/bin/gpuledger" ;;
esac
"""
APT: Final = """#!/bin/sh
echo "apt-get $*" >>"$MACHINE/log"
[ -e "$MACHINE/archive" ] && case "$*" in *python3-venv*) : >"$MACHINE/ensurepip" ;; esac
"""


class Machine:
    def __init__(self, home: Path, repository: Path) -> None:
        self.home, self.checkout = home, home / "checkout"
        for folder in ("bin", "checkout/scripts", "checkout/requirements"):
            (home / folder).mkdir(parents=True)
        for file in ("scripts/setup", "requirements/dev.txt", "requirements/bench.txt", "pyproject.toml"):
            shutil.copy(repository / file, self.checkout / file)
        for tool in TOOLS:
            (home / "bin" / tool).symlink_to(shutil.which(tool) or "")
        self.program("python3", PYTHON)
        self.user(1000)

    def program(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def user(self, number: int) -> None:
        self.program("id", f"#!/bin/sh\necho {number}\n")

    def has(self, thing: str) -> None:
        (self.home / thing).touch()

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.home / "bin"), "MACHINE": str(self.home)}
        command = [str(self.checkout / "scripts" / "setup"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def log(self) -> list[str]:
        log = self.home / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, repository: Path) -> Machine:
    return Machine(tmp_path, repository)


def test_a_user_without_ensurepip_is_told_one_line(machine: Machine) -> None:
    done = machine.setup()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_root_without_ensurepip_gets_it(machine: Machine) -> None:
    machine.user(0)
    machine.program("apt-get", APT)
    machine.has("archive")
    assert machine.setup().returncode == 0
    assert any("python3-venv" in line for line in machine.log)
    assert any(line.startswith("pip install") and "--require-hashes" in line for line in machine.log)


def test_root_whose_archive_has_nothing_is_told_what_failed(machine: Machine) -> None:
    machine.user(0)
    machine.program("apt-get", APT)
    done = machine.setup()
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_a_second_time_does_nothing(machine: Machine) -> None:
    machine.has("ensurepip")
    assert machine.setup().returncode == 0
    before = machine.log
    again = machine.setup()
    assert (again.returncode, again.stderr) == (0, "")
    assert machine.log == before


def test_a_new_lock_installs_again(machine: Machine) -> None:
    machine.has("ensurepip")
    machine.setup()
    once = [line for line in machine.log if "install" in line]
    with (machine.checkout / "requirements" / "dev.txt").open("a") as lock:
        lock.write("# changed\n")
    assert machine.setup().returncode == 0
    assert [line for line in machine.log if "install" in line] == once * 2


def test_servers_that_cannot_be_installed_are_named_and_no_failure(machine: Machine) -> None:
    machine.has("ensurepip")
    done = machine.setup("test")
    assert done.returncode == 0
    assert "as root: apt-get install prometheus prometheus-alertmanager" in done.stderr


def test_what_a_benchmark_compares_with_stands_apart_and_is_installed_once(machine: Machine) -> None:
    machine.has("ensurepip")
    assert machine.setup("bench").returncode == 0
    assert any("requirements/bench.txt" in line and "--require-hashes" in line for line in machine.log)
    before = machine.log
    assert machine.setup("bench").returncode == 0
    assert machine.log == before


def test_no_python_at_all_is_one_line(machine: Machine) -> None:
    (machine.home / "bin" / "python3").unlink()
    done = machine.setup()
    assert done.returncode == 1
    assert "no Python 3.11 or newer was found" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_scripts_may_be_executed(repository: Path) -> None:
    for script in ("scripts/setup", "scripts/lock", "scripts/document", ".ci/run"):
        assert os.access(repository / script, os.X_OK), script
