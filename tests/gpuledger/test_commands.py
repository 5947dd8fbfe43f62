"""Commands over the real pipeline: a folder that a user could have written, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from gpuledger import cli

Capture = pytest.CaptureFixture[str]

CONFIG: Final = """\
currency: USD
timezone: America/New_York
sources:
  - {allocations: allocations.csv}
tenants:
  - {id: vision, match: [{namespace: "vision-*"}]}
  - {id: language, match: [{namespace: "nlp-*"}]}
rates:
  - {model: "*H100*", on_demand: "2.50"}
"""
ALLOCATIONS: Final = """\
start,end,gpus,device,model,tenant,workload,class
2026-11-03T00:00:00Z,2026-11-03T04:00:00Z,2,,H100,vision,train,
2026-11-03T01:00:00Z,2026-11-03T03:00:00Z,1,,H100,language,tune,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gpuledger.yaml").write_text(CONFIG)
    (tmp_path / "allocations.csv").write_text(ALLOCATIONS)
    return tmp_path


def answer(capsys: Capture, *argv: str) -> dict[str, object]:
    """The JSON that a command prints; it must be all that it prints."""
    assert cli.main(list(argv)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    parsed: dict[str, object] = json.loads(out)
    return parsed


def totals(report: dict[str, object]) -> dict[str, str]:
    tenants = report["tenants"]
    assert isinstance(tenants, list)
    return {tenant["tenant"]: tenant["charges"]["total"] for tenant in tenants}


def test_replay_prints_the_report_as_json_alone(folder: Path, capsys: Capture) -> None:
    assert totals(answer(capsys, "replay", str(folder), "--json")) == {"vision": "20.00", "language": "5.00"}


def test_replay_for_people_shows_the_same_money(folder: Path, capsys: Capture) -> None:
    assert cli.main(["replay", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "2026-11-02 19:00 to 2026-11-02 23:00 (America/New_York)" in out
    assert "billed to tenants" in out
    assert "25.00" in out


def test_a_window_is_local_to_the_configured_zone(folder: Path, capsys: Capture) -> None:
    window = ("--from", "2026-11-02T21:00", "--to", "2026-11-03T03:00:00Z")
    report = answer(capsys, "replay", str(folder), "--json", *window)
    assert totals(report) == {"vision": "5.00", "language": "2.50"}


@pytest.mark.parametrize("window", [["--from", "yesterday"], ["--from", "2026-11-04", "--to", "2026-11-03"]])
def test_a_wrong_window_is_one_line_and_status_2(window: list[str], folder: Path, capsys: Capture) -> None:
    assert cli.main(["replay", str(folder), *window]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_a_folder_without_configuration_is_one_line_and_status_2(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["replay", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gpuledger: {tmp_path / 'gpuledger.yaml'}: no such file")
    assert err.count("\n") == 1


def test_replay_is_by_the_folders_own_configuration(folder: Path, capsys: Capture) -> None:
    own = str(folder / "gpuledger.yaml")
    assert totals(answer(capsys, "replay", str(folder), "--config", own, "--json"))
    assert cli.main(["replay", str(folder), "--config", "other.yaml"]) == 2
    assert capsys.readouterr().err.startswith("gpuledger: --config other.yaml: a replay is by ")


def test_replay_leaves_nothing_behind(folder: Path, capsys: Capture) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    answer(capsys, "replay", str(folder), "--json")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_pass_fills_the_ledger_that_report_reads(folder: Path, capsys: Capture) -> None:
    config = ("--config", str(folder / "gpuledger.yaml"))
    assert cli.main(["run", "--once", *config]) == 0
    capsys.readouterr()
    assert totals(answer(capsys, "report", *config, "--json", "--period", "2026-11-02")) == {
        "vision": "20.00",
        "language": "5.00",
    }
    only = answer(capsys, "report", *config, "--json", "--period", "2026-11", "--tenant", "vision")
    assert totals(only) == {"vision": "20.00"}


def test_importing_twice_changes_nothing(folder: Path, capsys: Capture) -> None:
    config = ("--config", str(folder / "gpuledger.yaml"))
    more = folder / "more.csv"
    more.write_text(ALLOCATIONS.splitlines()[0] + "\n2026-11-05T00:00:00Z,2026-11-05T01:00:00Z,4,,H100,vision,late,\n")
    reports = []
    for _ in range(2):
        assert cli.main(["import", "allocations", str(more), *config]) == 0
        assert cli.main(["run", "--once", *config]) == 0
        capsys.readouterr()
        reports.append(totals(answer(capsys, "report", *config, "--json", "--period", "2026-11")))
    assert reports == [{"vision": "30.00", "language": "5.00"}] * 2


def test_slurms_json_is_imported_like_its_text(folder: Path, capsys: Capture) -> None:
    config = ("--config", str(folder / "gpuledger.yaml"))
    path = folder / "jobs.json"
    path.write_text(
        '{"jobs": [{"job_id": 7, "state": {"current": ["COMPLETED"]}, "nodes": "n1", "account": "vision", '
        '"time": {"start": 1793923200, "end": 1793926800, "elapsed": 3600}, '
        '"tres": {"allocated": [{"type": "gres", "name": "gpu:h100", "count": 2}]}}]}'
    )
    assert cli.main(["import", "slurm-json", str(path), *config]) == 0
    assert "1 records" in capsys.readouterr().out
    fleet = answer(capsys, "report", *config, "--json", "--period", "2026-11-05")["fleet"]
    assert isinstance(fleet, dict)
    assert fleet["allocated_gpu_hours"] == 2


def test_importing_what_is_not_there_is_one_line(folder: Path, capsys: Capture) -> None:
    argv = ["import", "sacct", str(folder / "absent.txt"), "--config", str(folder / "gpuledger.yaml")]
    assert cli.main(argv) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "absent.txt" in err
    assert err.count("\n") == 1


def test_a_demo_never_writes_over_what_it_did_not_make(folder: Path, capsys: Capture) -> None:
    assert cli.main(["demo", "--no-serve", "--dir", str(folder)]) == 2
    assert "holds no demo" in capsys.readouterr().err
    assert (folder / "allocations.csv").read_text() == ALLOCATIONS
