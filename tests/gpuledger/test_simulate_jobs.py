"""``gpuledger simulate --jobs``: jobs whose bottleneck is known, which the other commands then read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger import cli


def test_jobs_are_simulated_and_their_report_names_bottlenecks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", "--jobs", "1", "--seed", "4", "--out", str(tmp_path / "jobs")]) == 0
    capsys.readouterr()
    [told] = json.loads((tmp_path / "jobs" / "truth.json").read_text())["workloads"]
    assert cli.main(["replay", str(tmp_path / "jobs"), "--json"]) == 0
    [tenant] = json.loads(capsys.readouterr().out)["tenants"]
    [workload] = tenant["workloads"]
    assert (workload["workload"], workload["bottleneck"]) == (told["workload"], told["bottleneck"])


@pytest.mark.parametrize("about_a_fleet", ["--gpus", "--days"])
def test_jobs_have_no_fleet(about_a_fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--jobs", "1", about_a_fleet, "8", "--out", str(tmp_path)]) == 2
    assert "leave those out" in capsys.readouterr().err


def test_no_jobs_are_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--jobs", "0", "--out", str(tmp_path)]) == 2
    assert "--jobs 0: expected 1 or more" in capsys.readouterr().err
