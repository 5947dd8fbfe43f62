"""Exactly once: killed at any point, restarted, run twice at a time, the ledger is the undisturbed one's, to the byte.

`make test-crash` kills it 200 times; here it is killed 20 times.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from pipelines.config import load
from pipelines.lake_upkeep import list_days, verify
from pipelines.ledger import open_ledger
from pipelines.operations import run_once
from tests.end_to_end.backfilled import EVERY, backfill, configured, prometheus_over
from tests.end_to_end.commands import PROGRAM, failure, gpuledger
from tests.end_to_end.test_killed import report_text
from tests.end_to_end.test_prometheus import free_port

KILLS: Final = int(os.environ.get("GPULEDGER_CRASHES", "20"))
DAYS: Final = 2.5
CARDS: Final = 3
MISSING: Final = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} is missing: apt-get install prometheus")


@pytest.fixture(scope="module")
def tsdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backfill(tmp_path_factory.mktemp("stored"), days=DAYS, cards=CARDS)


@pytest.fixture(scope="module")
def server(tsdb: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_over(tmp_path_factory.mktemp("prometheus"), tsdb) as url:
        yield url


@dataclass(frozen=True)
class Undisturbed:
    """What a ledger that nothing happened to reports, and how long its process took."""

    report: str
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(server: str, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = configured(tmp_path_factory.mktemp("undisturbed") / "site", server)
    began = time.monotonic()
    done = gpuledger("run", "--once", cwd=folder)
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    report = reported(folder)
    assert report is not None
    assert '"vision"' in report
    return Undisturbed(report, took)


def reported(folder: Path) -> str | None:
    """The report as it is printed, without what names the server's port."""
    text = report_text(folder)
    return None if text is None else "\n".join(line for line in text.splitlines() if '"config_hash"' not in line)


def assert_each_sample_once(folder: Path) -> None:
    with open_ledger(load(folder / "gpuledger.yaml").ledger, "a test") as ledger:
        assert sum(day.samples for day in list_days(ledger)) == CARDS * int(timedelta(days=DAYS) / EVERY)
        assert [fault for fault in verify(ledger) if "listed nowhere" not in fault.what] == []


def test_killed_at_random_points_it_is_the_undisturbed_ledger(
    server: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder, chance, killed = configured(tmp_path / "killed", server), random.Random(11), 0
    while killed < KILLS:
        process = subprocess.Popen(
            [*PROGRAM, "run", "--once"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            _, said = process.communicate(timeout=chance.uniform(0.25, 1.1) * undisturbed.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        if process.returncode == 0:  # this one got through: it must be right, and the next begins anew
            assert reported(folder) == undisturbed.report
            assert_each_sample_once(folder)
            shutil.rmtree(folder / "ledger")
            continue
        assert process.returncode == -signal.SIGKILL, said
        killed += 1
        assert reported(folder) in {None, undisturbed.report}
    done = gpuledger("run", "--once", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert reported(folder) == undisturbed.report
    assert_each_sample_once(folder)


def test_a_prometheus_that_goes_away_and_comes_back_loses_nothing(
    tsdb: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    copy, port = shutil.copytree(tsdb, tmp_path / "tsdb"), free_port()
    url = f"http://127.0.0.1:{port}"
    folder = configured(tmp_path / "site", url)
    assert url in failure(gpuledger("run", "--once", cwd=folder), 1)
    with prometheus_over(tmp_path, copy, port):
        run_once(load(folder / "gpuledger.yaml"))
    assert reported(folder) == undisturbed.report
    assert_each_sample_once(folder)


def test_two_daemons_give_one_ledger(server: str, undisturbed: Undisturbed, tmp_path: Path) -> None:
    folder = configured(tmp_path / "both", server)
    both = [
        subprocess.Popen([*PROGRAM, "run", "--once"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in both:
        _, complaint = process.communicate()
        assert process.returncode == 0 or b"process" in complaint  # it waited in vain, and says for whom
    run_once(load(folder / "gpuledger.yaml"))
    assert reported(folder) == undisturbed.report
    assert_each_sample_once(folder)


def test_a_daemon_that_is_told_to_stop_ends_well(server: str, tmp_path: Path) -> None:
    folder = configured(tmp_path / "daemon", server)
    process = subprocess.Popen(
        [*PROGRAM, "run", "--every", "1s", "--listen", f"127.0.0.1:{free_port()}", "--log-format", "json"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    while "read up to" in said:  # a line for each day of a back-fill
        said = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    assert '"result": "done"' in said
    assert_each_sample_once(folder)
