"""jobstats' summaries in AdminComment: what they say, and that a broken one says nothing."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pipelines.facts import Facts
from pipelines.sources.jobstats import Summary, read_summary
from pipelines.sources.sacct import read_sacct


def blob(content: Any) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(content).encode(), mtime=0)).decode()


def node(*busy: float) -> dict[str, Any]:
    gpus = {str(n): value for n, value in enumerate(busy)}
    return {
        "total_time": 100.0,
        "gpu_utilization": gpus,
        "gpu_total_memory": dict.fromkeys(gpus, 80 << 30),
        "gpu_used_memory": {gpu: (int(gpu) + 1) * (20 << 30) for gpu in gpus},
    }


def test_the_mean_is_over_all_gpus_of_all_nodes() -> None:
    assert read_summary(blob({"nodes": {"a": node(100, 50), "b": node(0)}})) == Summary(3, 0.5, 0.5)


@pytest.mark.parametrize("text", ["JS1:None", "JS1:Short", "JS1:"])
def test_a_job_that_was_not_summed_up_says_nothing(text: str) -> None:
    assert read_summary(text) is None


@pytest.mark.parametrize(
    "content", [{"nodes": {"a": {"total_time": 5}}}, {"nodes": {}}, {"nodes": {"a": {"gpu_utilization": {"0": None}}}}]
)
def test_a_summary_without_utilisation_is_unknown_and_not_zero(content: Any) -> None:
    assert read_summary(blob(content)) is None


@pytest.mark.parametrize(
    "text",
    ["JS1:x", "JS1:AAAA", blob({"nodes": {"a": node(90)}})[:-12], blob([1]), blob({"nodes": 3}), blob("a")],
)
def test_a_broken_summary_is_an_error_that_says_why(text: str) -> None:
    with pytest.raises(ValueError, match="summary"):
        read_summary(text)


def test_impossible_utilisation_is_left_out() -> None:
    assert read_summary(blob({"nodes": {"a": node(50, 686103, -1)}})) == Summary(1, 0.5, 0.75)


def test_summaries_come_with_their_runs_and_broken_ones_are_counted(tmp_path: Path) -> None:
    rows = "".join(
        f"{n}|{n}|COMPLETED|2026-10-05T12:00:00|2026-10-05T13:00:00|gres/gpu=1|{comment}\n"
        for n, comment in [(1, blob({"nodes": {"a": node(25)}})), (2, "JS1:broken"), (3, "a remark"), (4, "")]
    )
    (tmp_path / "jobs.txt").write_text("JobID|JobIDRaw|State|Start|End|AllocTRES|AdminComment\n" + rows)
    batch = read_sacct(tmp_path / "jobs.txt", cluster="hpc", zone=ZoneInfo("UTC"))
    assert batch.records.height == 4
    assert Facts(batch.facts)["summary"].select("workload", "gpus", "utilization").rows() == [("1", 1, 0.25)]
    assert [(f.code, f.count) for f in batch.findings] == [("bad_line", 1)]
