"""Faults of Slurm's text that users of such systems reported, each with the value that is right."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from pipelines.sources.sacct import read_sacct
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.sources.tres import gpus_by_type, shards

HEAD: Final = "JobID|JobIDRaw|Account|State|Start|End|ElapsedRaw|NodeList|AllocTRES\n"
TRES: Final[Mapping[str, int]] = {
    "gres/gpu:a100=1,gres/gpu=1": 1,
    "gres/gpu:a100=2,gres/gpu:v100=1": 3,
    "gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1": 3,
    "gpu:A100:4(S:0-1),gpu:NV_A100_40GB:2(IDX:0,3),shard:h100:16": 6,
    "gpu:h100:5(IDX:0-4)": 5,
    "cpu=192,mem=800G": 0,
}


@pytest.mark.parametrize(("text", "gpus"), TRES.items())
def test_gpus_are_counted_once_whatever_the_text(text: str, gpus: int) -> None:
    assert sum(gpus_by_type(text).values()) == gpus


def test_shards_are_no_gpus() -> None:
    assert shards("gpu:A100:4(S:0-1),shard:h100:16") == 16


def seconds(tmp_path: Path, *rows: str) -> dict[str, Decimal]:
    (tmp_path / "jobs.txt").write_text(HEAD + "".join(f"{row}\n" for row in rows))
    records = read_sacct(tmp_path / "jobs.txt", cluster="c", zone=ZoneInfo("UTC")).records
    total: dict[str, Decimal] = {}
    for row in records.rows(named=True):
        took = int((row["end"] - row["start"]).total_seconds())
        total[row["workload"]] = total.get(row["workload"], Decimal(0)) + Decimal(row["gpus"]) * took
    return total


def test_each_run_of_a_requeued_job_counts(tmp_path: Path) -> None:
    rows = [
        "9|9|a|REQUEUED|2026-10-05T00:00:00|2026-10-05T01:04:49|3889|n1|gres/gpu=1",
        "9|9|a|REQUEUED|2026-10-05T02:00:00|2026-10-05T03:14:33|4473|n1|gres/gpu=1",
        "9|9|a|COMPLETED|2026-10-05T04:00:00|2026-10-05T04:35:53|2153|n1|gres/gpu=1",
    ]
    assert seconds(tmp_path, *rows) == {"9": 10515}
    assert seconds(tmp_path, *rows, *rows) == {"9": 10515}


def test_gpus_that_a_job_was_given_in_all_count_not_those_it_asked_for_by_node(tmp_path: Path) -> None:
    row = "1|1|a|COMPLETED|2026-10-05T00:00:00|2026-10-05T00:00:01|1|n[1-32]|gres/gpu=256"
    assert seconds(tmp_path, row) == {"1": 256}


def test_an_account_that_was_cut_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(
        HEAD + "1|1|dept-bioinformatics+|COMPLETED|2026-10-05T00:00:00|2026-10-05T01:00:00|3600|n1|gres/gpu=1\n"
    )
    batch = read_sacct(tmp_path / "jobs.txt", cluster="c", zone=ZoneInfo("UTC"))
    assert batch.records["slurm_account"].to_list() == [None]
    assert "cut short" in batch.findings[0].detail


def test_a_job_that_waits_in_two_partitions_is_one_and_holds_nothing(tmp_path: Path) -> None:
    text = (
        "JOBID|PARTITION|STATE|START_TIME|NODELIST|TRES_ALLOC\n"
        "1|debug,high|PENDING|N/A||gres/gpu=4\n2|high|RUNNING|2026-10-05T00:00:00|n1|gres/gpu=1\n"
    )
    (tmp_path / "queue.txt").write_text("# 2026-10-05T01:00:00Z\n" + text)
    batch = read_slurm_state(tmp_path / "queue.txt", cluster="c", zone=ZoneInfo("UTC"))
    assert batch.records.select("workload", "gpus").rows() == [("2", "1")]


def test_columns_that_a_long_name_ran_into_are_counted_and_not_guessed(tmp_path: Path) -> None:
    # `sinfo -O` without separators: a node's name of 21 characters stands glued to its memory.
    text = "NODELIST            MEMORY  GRES\ngpu-node-rack0000017a193000  gpu:h100:8\n"
    (tmp_path / "nodes.txt").write_text("# 2026-10-05T01:00:00Z\n" + text)
    batch = read_slurm_state(tmp_path / "nodes.txt", cluster="c", zone=ZoneInfo("UTC"))
    assert [(finding.code, finding.count) for finding in batch.findings] == [("bad_line", 2)]
    assert not any(table.height for table in batch.facts.values())
