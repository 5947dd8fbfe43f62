"""A pass that is killed leaves a ledger that the next pass completes, to the byte as if nothing had happened."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from gpuledger import cli
from pipelines.config import load
from pipelines.operations import report
from tests.end_to_end.commands import DEADLINE_S, PROGRAM
from tests.end_to_end.folders import folder_of, minutes

ALLOCATIONS: Final = (
    "start,end,gpus,model,tenant,workload\n2026-10-05T12:00:00Z,2026-10-06T12:00:00Z,3,H200,vision,big\n"
)
SACCT: Final = """\
JobID|JobIDRaw|Account|User|State|Start|End|ElapsedRaw|NodeList|AllocTRES
7|7|vision|u1|COMPLETED|2026-10-05T13:00:00|2026-10-05T15:00:00|7200|n7|gres/gpu:a100=2,gres/gpu=2
"""
# What a pass writes, in that order: it is killed as soon as it has come so far, and a random moment later.
MILESTONES: Final = (
    "ledger/lake/**/.part.tmp",
    "ledger/lake/**/*.parquet",
    "ledger/ledger.duckdb.wal",
    "ledger/published/.fleet-*.tmp",
    "ledger/published/fleet-*.duckdb",
    "ledger/published/tenant-*.duckdb",
)


def site(folder: Path) -> Path:
    return folder_of(
        folder,
        "metrics: a.prom",
        "allocations: held.csv",
        "sacct: jobs.txt",
        a__prom=minutes(900, gpus=2),
        held__csv=ALLOCATIONS,
        jobs__txt=SACCT,
        more__prom=minutes(900, gpus=2, start=900, utilization=80),
    )


def kill_at(milestone: str, later_s: float, folder: Path, *argv: str) -> int:
    """Start a command, kill it `later_s` after something new lies at the milestone; return its exit status."""
    before = {path: path.stat().st_mtime_ns for path in folder.glob(milestone)}
    process = subprocess.Popen([*PROGRAM, *argv], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None and not _reached(folder, milestone, before):
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    time.sleep(later_s)
    process.kill()
    return process.wait()


def _reached(folder: Path, milestone: str, before: dict[Path, int]) -> bool:
    for path in folder.glob(milestone):
        try:
            if path.stat().st_mtime_ns != before.get(path):
                return True
        except FileNotFoundError:
            return True  # it was there between the two looks
    return False


def report_text(folder: Path) -> str | None:
    """The report as it is printed, without the line that says when it was made; None: nothing is published yet."""
    if not (folder / "ledger" / "published" / "current.json").exists():
        return None
    text = report(load(folder / "gpuledger.yaml")).to_json()
    return "\n".join(line for line in text.splitlines() if '"as_of"' not in line)


def test_a_ledger_survives_being_killed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = site(tmp_path / "undisturbed")
    monkeypatch.chdir(undisturbed)
    assert cli.main(["run", "--once"]) == 0
    first = report_text(undisturbed)
    assert cli.main(["import", "metrics", "more.prom"]) == 0
    second = report_text(undisturbed)
    assert first is not None
    assert second is not None
    assert first != second

    folder = site(tmp_path / "killed")
    monkeypatch.chdir(folder)
    moments = random.Random(7)
    statuses: list[int] = []
    runs = (
        (MILESTONES, ["run", "--once"], None, first),
        (MILESTONES[3:5], ["import", "metrics", "more.prom"], first, second),
    )
    for milestones, argv, before, after in runs:
        for milestone in milestones:
            statuses += [kill_at(milestone, moments.uniform(0, 0.02), folder, *argv)]
            if statuses[-1] == 0 and before is None:
                shutil.rmtree(folder / "ledger")  # it was too quick to be seen there: leave the next one its work
        # Whatever was done of the pass, readers see all of it or nothing.
        assert report_text(folder) in {before, after}
        assert cli.main(argv) == 0
        assert report_text(folder) == after
    assert statuses.count(-signal.SIGKILL) >= 5
    left = [path.name for path in folder.rglob("*") if ".tmp" in path.name]
    assert left == []
