"""`gpuledger availability`: what it prints, and when it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.cli import main

JOBS = """\
JobID|JobIDRaw|Account|State|Start|End|ElapsedRaw|NodeList|AllocTRES
1|1|vision|RUNNING|2026-10-05T10:00:00|Unknown|3600|n1|gres/gpu=3
"""
STATE = "# 2026-10-05T11:00:00Z\nNodeName=n1 Arch=x86_64\n   Gres=gpu:h100:4\n   State=IDLE\n   CfgTRES=gres/gpu=4\n"
CONFIG = """\
currency: USD
sources:
  - {sacct: jobs.txt, cluster: hpc}
  - {slurm_state: state.txt, cluster: hpc}
tenants: [{id: vision, match: [{slurm_account: vision}]}]
rates: [{model: "*", on_demand: "1.00"}]
reservations:
"""
BOOKED = '  - {id: NAME, tenant: vision, gpus: GPUS, from: 2026-10-06, to: 2026-10-07, rate: "1.00"}\n'


def site(tmp_path: Path, **booked: int) -> list[str]:
    (tmp_path / "jobs.txt").write_text(JOBS)
    (tmp_path / "state.txt").write_text(STATE)
    entries = "".join(BOOKED.replace("NAME", name).replace("GPUS", str(gpus)) for name, gpus in booked.items())
    (tmp_path / "gpuledger.yaml").write_text(CONFIG + entries)
    option = ["--config", str(tmp_path / "gpuledger.yaml")]
    assert main(["run", "--once", *option]) == 0
    return ["availability", *option]


def test_it_shows_what_is_free_and_what_is_not_reserved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = site(tmp_path, r1=3)
    capsys.readouterr()
    assert main(command) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert ["h100", "4", "3", "1", "1", "1", "0", "0", "0"] in lines
    assert ["r1", "vision", "*", "3", "2026-10-06T00:00Z", "2026-10-07T00:00Z"] in lines
    assert ["h100", "2026-10-06T00:00Z", "2026-10-07T00:00Z", "1", "1"] in lines
    assert err == ""


def test_a_double_booking_ends_with_status_1_and_a_line_that_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = site(tmp_path, r1=3, r2=2)
    capsys.readouterr()
    assert main([*command, "--json"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert [(r["id"], r["fits"]) for r in told["reservations"]] == [("r1", True), ("r2", False)]
    assert told["models"][0]["free_whole"] == 1
    assert err.startswith(
        "gpuledger: r2: 2 GPUs of * from 2026-10-06T00:00Z to 2026-10-07T00:00Z don't fit beside r1: 1 "
    )
    assert err.count("\n") == 1


@pytest.mark.parametrize(("want", "status"), [("1", 0), ("2", 1)])
def test_one_more_reservation_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], want: str, status: int
) -> None:
    command = site(tmp_path, r1=3)
    capsys.readouterr()
    assert main([*command, "--want", want, "--from", "2026-10-06", "--to", "2026-10-07"]) == status
    out, err = capsys.readouterr()
    assert ("fit from" in out) == (status == 0)
    assert ("don't fit beside r1: 1 are there" in err) == (status == 1)


@pytest.mark.parametrize("options", [["--want", "2"], ["--want", "0", "--from", "2026-10-06", "--to", "2026-10-07"]])
def test_a_question_that_makes_no_sense_is_bad_usage(tmp_path: Path, options: list[str]) -> None:
    assert main([*site(tmp_path), *options]) == 2


def test_without_a_ledger_there_is_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gpuledger.yaml").write_text("currency: USD\n")
    assert main(["availability", "--config", str(tmp_path / "gpuledger.yaml")]) == 1
    assert "nothing is published yet" in capsys.readouterr().err
