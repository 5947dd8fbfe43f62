"""How well a job scales, from runs of one name at several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.analysis.scaling import scaling
from pipelines.config import load
from pipelines.facts import RUN_NAME
from pipelines.instants import HOUR_MS
from pipelines.sources import read
from pipelines.training import PROGRESS
from tests.pipelines.analysis.windows import frame, window

NOBODY = pl.DataFrame(schema=PROGRESS)


def run(workload: str, devices: int, **changed: Any) -> dict[str, Any]:
    return window(workload=workload, devices=devices, observed_ms=devices * HOUR_MS, **changed)


def owners(*workloads: str, tenant: str = "astro", user: str | None = "ada") -> pl.DataFrame:
    rows = [("c", workload, tenant, user) for workload in workloads]
    return pl.DataFrame(rows, schema=["cluster", "workload", "tenant", "user"], orient="row")


def names(**found: str) -> pl.DataFrame:
    rows = [("c", workload.removeprefix("job_"), name) for workload, name in found.items()]
    return pl.DataFrame(rows, schema=RUN_NAME, orient="row")


def rank(workload: str, number: int, tokens: float) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PROGRESS)
    row |= {"cluster": "c", "workload": workload, "run": "r", "rank": str(number), "hour": 0}
    return row | {"first": 0, "last": HOUR_MS, "tokens": tokens}


def test_efficiency_is_work_per_gpu_of_that_of_the_smallest_runs() -> None:
    windows = frame(
        run("1", 1, tensor=0.30), run("2", 8, tensor=0.24), run("3", 8, tensor=0.18), run("4", 32, tensor=0.12)
    )
    called = names(job_1="bert", job_2="bert", job_3="bert", job_4="bert")
    found = scaling(windows, NOBODY, called, owners("1", "2", "3", "4"))
    assert found.select("devices", "runs", "measure").rows() == [(1, 1, "tensor"), (8, 2, "tensor"), (32, 1, "tensor")]
    assert found["efficiency"].to_list() == pytest.approx([1.0, 0.7, 0.4])
    assert found["gpu_hours"].to_list() == [1.0, 16.0, 32.0]


def test_what_loops_measured_counts_before_what_cards_show() -> None:
    windows = frame(run("1", 1, tensor=0.3), run("2", 2, tensor=0.3))
    ranks = [rank("1", 0, 3.6e6), rank("2", 0, 2.7e6), rank("2", 1, 2.7e6)]
    found = scaling(windows, pl.DataFrame(ranks, schema=PROGRESS), names(job_1="a", job_2="a"), owners("1", "2"))
    assert found["measure"].to_list() == ["tokens", "tokens"]
    assert found["per_gpu"].to_list() == pytest.approx([1000.0, 750.0])
    assert found["efficiency"].to_list() == pytest.approx([1.0, 0.75])


def test_where_tensor_pipes_are_unused_or_unknown_the_sms_are_compared() -> None:
    windows = frame(run("1", 1, tensor=0.0, sm=0.8), run("2", 4, tensor=None, sm=0.6))
    found = scaling(windows, NOBODY, names(job_1="a", job_2="a"), owners("1", "2"))
    assert found.select("measure", "efficiency").rows() == [("sm", 1.0), ("sm", 0.75)]


def test_pods_are_runs_of_one_job_whatever_their_controller_put_behind_its_name() -> None:
    windows = frame(run("lab/train-0", 1), run("lab/train-xk2vb", 2), run("lab/other-large", 4))
    found = scaling(windows, NOBODY, names(), owners("lab/train-0", "lab/train-xk2vb", "lab/other-large"))
    assert found["name"].to_list() == ["lab/train", "lab/train"]


def test_one_size_says_nothing_and_another_users_job_of_that_name_is_another() -> None:
    windows = frame(run("1", 1), run("2", 1), run("3", 8))
    both = pl.concat([owners("1", "2"), owners("3", user="bob")])
    found = scaling(windows, NOBODY, names(job_1="a", job_2="a", job_3="a"), both)
    assert found.is_empty()


def test_slurms_accounting_says_what_jobs_are_called(tmp_path: Path) -> None:
    (tmp_path / "gpuledger.yaml").write_text(
        "currency: USD\nsources: [{sacct: sacct.txt, cluster: hpc, timezone: UTC}]\n"
        "tenants: [{id: a, match: [{slurm_account: a}]}]\nrates: [{model: '*', on_demand: '1.00'}]\n"
    )
    (tmp_path / "sacct.txt").write_text(
        "JobID|JobIDRaw|JobName|Account|State|Start|End|ElapsedRaw|NodeList|AllocTRES\n"
        "7|7|bert|a|COMPLETED|2026-03-02T09:00:00|2026-03-02T10:00:00|3600|n1|gres/gpu=2\n"
        "8|8|prepare|a|COMPLETED|2026-03-02T09:00:00|2026-03-02T10:00:00|3600|n1|cpu=2\n"
    )
    config = load(tmp_path / "gpuledger.yaml")
    assert read(config.sources[0], config).facts["run_name"].rows() == [("hpc", "7", "bert")]


def test_idle_time_is_no_work() -> None:
    windows = frame(run("1", 1, idle_ms=HOUR_MS), run("2", 2))
    assert scaling(windows, NOBODY, names(job_1="a", job_2="a"), owners("1", "2")).is_empty()
