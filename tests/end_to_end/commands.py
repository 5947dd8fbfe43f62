"""The real command line in a process of its own, and what every failure of it must look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipelines.config import load
from pipelines.operations import report

PROGRAM = (sys.executable, "-m", "gpuledger")
DEADLINE_S = 120


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


def answer(*argv: object, **more: Any) -> dict[str, Any]:
    """The JSON that a command prints; it must be all that it prints."""
    done = gpuledger(*argv, **more)
    assert (done.returncode, done.stderr) == (0, "")
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


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


def reported(folder: Path) -> dict[str, Any]:
    """What the ledger of a folder reports, apart from when that was: the same text for the same ledger."""
    return timeless(json.loads(report(load(folder / "gpuledger.yaml")).to_json()))


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """A report without the time at which it was made."""
    return {key: value for key, value in found.items() if key != "as_of"}


def findings(found: Mapping[str, Any]) -> dict[str, int]:
    """Counts by code."""
    return {finding["code"]: finding["count"] for finding in found["findings"]}
