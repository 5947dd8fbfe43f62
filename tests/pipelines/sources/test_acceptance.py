"""Results of acceptance tests: DCGM's diagnostics of two versions, NCCL's bandwidth tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import SourceError
from pipelines.facts import Facts
from pipelines.sources.acceptance import read_acceptance

AT = datetime(2026, 10, 5, 12, tzinfo=UTC)
NCCL = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   6733 on node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    38.10    0.00    0.00      0    38.20    0.00    0.00      0
  8589934592    2147483648     float     sum      -1    34110  251.83  440.70      0    34099  251.91  440.84      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 220.385
#
"""


def results(tmp_path: Path, text: str, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    (tmp_path / "f").write_text(text)
    batch = read_acceptance(tmp_path / "f", cluster="prod", **{"at": AT, "node": "n1", **options})
    return Facts(batch.facts)["acceptance"].select(columns).rows()


def diag(title: str, *tests: Any) -> str:
    return json.dumps({title: {"test_categories": [{"category": "Hardware", "tests": list(tests)}]}})


def test_dcgm_3_names_several_gpus_in_one_result(tmp_path: Path) -> None:
    text = diag(
        "DCGM GPU Diagnostic",
        {"name": "Memory", "results": [{"gpu_ids": "0,1", "status": "PASS"}]},
        {"name": "PCIe", "results": [{"gpu_ids": "0", "status": "FAIL", "warnings": "replays over the limit"}]},
    )
    assert results(tmp_path, "warming up\n" + text, "device", "test", "outcome", "detail") == [
        ("n1/0", "Memory", "pass", None),
        ("n1/1", "Memory", "pass", None),
        ("n1/0", "PCIe", "fail", "replays over the limit"),
    ]


def test_dcgm_4_names_entities(tmp_path: Path) -> None:
    text = diag(
        "DCGM Diagnostic",
        {
            "name": "diagnostic",
            "results": [
                {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 3, "status": "Pass", "info": ["a", "b"]},
                {
                    "entity_group": "GPU", "entity_group_id": 1, "entity_id": 4, "status": "Fail",
                    "warnings": [{"error_id": 95, "warning": "XID 95"}],
                },
            ],
            "test_summary": {"status": "Fail"},
        },
        {"name": "software", "results": [{"status": "Skip"}]},
    )  # fmt: skip
    assert results(tmp_path, text, "device", "outcome", "detail") == [
        ("n1/3", "pass", "a; b"),
        ("n1/4", "fail", "XID 95"),
        (None, "skip", None),
    ]


def test_nccl_gives_average_and_peak_for_each_of_its_nodes(tmp_path: Path) -> None:
    assert results(tmp_path, NCCL, "node", "test", "outcome", "value", "unit", "detail", node=None) == [
        (node, f"all_reduce_perf: {measure} bus bandwidth", "pass", value, "GB/s", "3 GPUs on 2 nodes")
        for node in ("node-a", "node-b")
        for measure, value in (("average", 220.385), ("peak", 440.84))
    ]


def test_wrong_results_of_a_collective_are_a_failure(tmp_path: Path) -> None:
    text = NCCL.replace("values : 0 OK", "values : 3 FAILED")
    assert set(results(tmp_path, text, "outcome", "detail")) == {("fail", "3 values out of bounds")}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("nothing known", {}, "no test results that are known"),
        (NCCL, {"at": None}, "add `at`"),
        (diag("DCGM Diagnostic"), {"node": None}, "add `node`"),
        ('{"DCGM Diagnostic": {', {}, "breaks off"),
    ],
)
def test_what_cant_be_used_is_one_line(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        results(tmp_path, text, "test", **options)
