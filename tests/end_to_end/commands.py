"""The real command line in a process of its own, and what every failure of it must look like."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuledger import cli
from pipelines.config import load
from pipelines.operations import report

PROGRAM = (sys.executable, "-m", "gpuledger")
DEADLINE_S = 120
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24

# Linux counts what a process held before exec as its peak: a child of a large test process looks as large as that.
# One in between, small itself, hands the command a peak of its own.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


def gpuledger(
    *argv: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end.

    Args:
        before: called in the new process before the program starts: limits of memory, another user.
    """
    return subprocess.run(
        [*PROGRAM, *map(str, argv)],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def obey_permissions() -> None:
    """Let even root be refused what the permissions of a file don't allow."""
    libc = ctypes.CDLL(None)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def measured(*argv: object) -> tuple[str, int]:
    """What a command that works printed, and its peak of resident memory in KiB."""
    command = [sys.executable, "-c", MEASURE, *PROGRAM, *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return done.stdout, int(done.stderr.splitlines()[-1])


def failure(done: subprocess.CompletedProcess[str], status: int) -> str:
    """The one line that a failed command printed."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("gpuledger: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    assert "Traceback" not in done.stderr
    assert "fault of GPULedger" not in done.stderr
    return done.stderr.removeprefix("gpuledger: ").strip()


def config_of(folder: Path) -> tuple[str, str]:
    return "--config", str(folder / "gpuledger.yaml")


def printed(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """What a command that works says, run in this process: a new one takes a second to start."""
    capsys.readouterr()
    assert cli.main([str(word) for word in argv]) == 0
    out, err = capsys.readouterr()
    assert err == "", err
    return out


def refused(capsys: pytest.CaptureFixture[str], *argv: object, status: int = 1) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    done = cli.main([str(word) for word in argv])
    return failure(subprocess.CompletedProcess("gpuledger", done, *capsys.readouterr()), status)


def reported(folder: Path) -> dict[str, Any]:
    """What the ledger of a folder reports, apart from when that was: the same text for the same ledger."""
    found: dict[str, Any] = json.loads(report(load(folder / "gpuledger.yaml")).to_json())
    del found["as_of"]
    return found


def findings(found: Mapping[str, Any]) -> dict[str, int]:
    """Counts by code."""
    return {finding["code"]: finding["count"] for finding in found["findings"]}
