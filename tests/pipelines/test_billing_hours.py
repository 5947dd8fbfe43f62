"""Billing-hours of Slurm beside GPU-hours: equal to what sreport would sum, of jobs with GPUs and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import ConfigError
from gpuledger.summary import render
from pipelines.book.compose import make_statement
from pipelines.config import load
from pipelines.operations import published_period, replay, report, run_once
from pipelines.report import Report

JOBS = """\
JobID|JobIDRaw|Account|User|Partition|QOS|State|Start|End|ElapsedRaw|NodeList|AllocTRES
7|7|vision|u1|gpu|normal|COMPLETED|2026-10-05T12:00:00|2026-10-05T13:00:00|3600|n1|billing=128,cpu=16,gres/gpu=4,mem=256G,node=1
8|8|audio|u2|cpu|normal|COMPLETED|2026-10-05T12:30:00|2026-10-05T14:30:00|7200|n2|billing=9,cpu=9,mem=9G,node=1
8.batch|8.batch|||||COMPLETED|2026-10-05T12:30:00|2026-10-05T14:30:00|7200|n2|cpu=9,mem=9G,node=1
9|9|other|u3|gpu|normal|COMPLETED|2026-10-05T12:00:00|2026-10-05T12:00:03|3|n1|billing=13,cpu=1,gres/gpu=1,mem=1G,node=1
"""
CONFIG = """\
currency: USD
sources:
  - {{sacct: jobs.txt, cluster: hpc{billing}}}
  - {{slurm_state: state.txt, cluster: hpc, at: "2026-10-05T12:00:00Z"}}
tenants:
  - {{id: vision, match: [{{slurm_account: vision}}]}}
  - {{id: sound, match: [{{slurm_account_tree: media}}]}}
rates:
  - {{model: "*", on_demand: "1.00"}}
window: {{from: "2026-10-05T12:00:00Z", to: "2026-10-05T{to}Z"}}
"""
TREE = "Cluster|Account|User|ParentName|GrpTRES\nhpc|media||root|\nhpc|audio||media|\n"


def site(folder: Path, billing: str = ", billing: recorded", *, jobs: str = JOBS, to: str = "15:00:00") -> Report:
    (folder / "jobs.txt").write_text(jobs)
    (folder / "state.txt").write_text(TREE)
    (folder / "gpuledger.yaml").write_text(CONFIG.format(billing=billing, to=to))
    return replay(folder)


def rows(found: Report) -> dict[tuple[str | None, str | None], float]:
    return {(row.tenant, row.account): row.billing_hours for row in found.slurm_billing}


def test_recorded_billing_by_account_and_tenant(tmp_path: Path) -> None:
    found = site(tmp_path)
    # The job without GPUs bills too, though it holds no device and costs nothing here; nobody's jobs aren't hidden.
    assert rows(found) == {("vision", "vision"): 128.0, ("sound", "audio"): 18.0, (None, "other"): round(39 / 3600, 6)}
    assert {t.tenant: t.billing_hours for t in found.tenants} == {"vision": 128.0}
    assert found.tenants[0].charges.total == "4.00"
    assert [row.account for row in found.of("sound").slurm_billing] == ["audio"]
    shown = [line.split() for line in render(found.model_dump(mode="json"), width=100).splitlines()]
    assert [line[:2] for line in shown if line[:1] and line[0].startswith("hpc:")] == [
        ["hpc:audio", "sound"],
        ["hpc:other", "unattributed"],
        ["hpc:vision", "vision"],
    ]


@pytest.mark.parametrize(("flags", "expected"), [("", 128), ("MAX_TRES", 64), ("MAX_TRES_GRES,FAIR_TREE", 112)])
def test_weights_under_each_rule_of_slurm(tmp_path: Path, flags: str, expected: float) -> None:
    weights = '{"g*": "CPU=1.0,Mem=0.25G,GRES/gpu=12"}'
    chosen = f", priority_flags: {flags!r}" if flags else ""
    told = JOBS.replace("billing=128,", "")
    found = site(tmp_path, f", billing: weights, billing_weights: {weights}{chosen}", jobs=told)
    # A partition without weights bills its cores; a job's units are whole, as Slurm stores them (1 + 0.25 + 12).
    assert rows(found)["vision", "vision"] == expected
    assert rows(found)["sound", "audio"] == 18
    units = {"": 13, "MAX_TRES": 12, "MAX_TRES_GRES,FAIR_TREE": 13}[flags]
    assert rows(found)[None, "other"] == round(units * 3 / 3600, 6)


def test_a_period_cuts_a_run_and_suspended_time_bills_nothing(tmp_path: Path) -> None:
    found = site(tmp_path, jobs=JOBS.replace("|7200|n2|billing", "|3600|n2|billing"), to="13:30:00")
    assert rows(found)["vision", "vision"] == 128
    assert rows(found)["sound", "audio"] == 9 / 2  # half of its run, half of which it was suspended


def test_a_run_told_twice_bills_once(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(JOBS)
    (tmp_path / "state.txt").write_text(TREE)
    (tmp_path / "gpuledger.yaml").write_text(CONFIG.format(billing=", billing: recorded", to="15:00:00"))
    config = load(tmp_path / "gpuledger.yaml")
    (tmp_path / "jobs.txt").write_text(
        JOBS.replace("COMPLETED|2026-10-05T12:00:00|2026-10-05T13:00:00|3600", "RUNNING|2026-10-05T12:00:00|Unknown|60")
    )
    run_once(config)
    assert rows(report(config))["vision", "vision"] == round(128 / 60, 6)
    (tmp_path / "jobs.txt").write_text(JOBS)
    run_once(config)
    assert rows(report(config)) == rows(replay(tmp_path))
    (note,) = [n for n in _notes(tmp_path) if "billing-hours" in n]
    assert "128.00 billing-hours" in note


def _notes(folder: Path) -> list[str]:
    config = load(folder / "gpuledger.yaml")
    reckoned = published_period(config).reckoned
    return make_statement(reckoned.rated, reckoned.report, config, "vision", label="2026-10").notes


def test_without_the_key_nothing_is_kept(tmp_path: Path) -> None:
    found = site(tmp_path, billing="")
    assert found.slurm_billing == []
    assert [t.billing_hours for t in found.tenants] == [None]
    assert "Billed by Slurm" not in render(found.model_dump(mode="json"), width=100)


def test_jobs_whose_billing_isnt_told_are_counted(tmp_path: Path) -> None:
    found = site(tmp_path, jobs=JOBS.replace("billing=128,", ""))
    assert ("vision", "vision") not in rows(found)
    assert [f.count for f in found.findings if "tells no billing" in f.detail] == [1]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (", billing: weights", "billing_weights"),
        (', billing_weights: {"*": CPU=1}', "billing: weights"),
        (', billing: weights, billing_weights: {"*": CPU=much}', "CPU without a number"),
        (", priority_flags: MAX_TRES", "billing: weights"),
    ],
)
def test_what_doesnt_fit_together_is_said(tmp_path: Path, keys: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        site(tmp_path, keys)
