"""The page on sources names each kind and each of its keys, and its examples work."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, get_args

import pytest

from pipelines.config.source import _KEYS_OF, Kind
from pipelines.operations import replay
from tests.end_to_end.commands import findings

EXAMPLE: Final = re.compile(r"^```\w+ (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "sources.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_each_kind_has_a_section_that_names_its_keys(page: str, kind: Kind) -> None:
    _, _, section = page.partition(f"\n## `{kind}`\n")
    section = section.partition("\n## ")[0]
    assert section
    shared = page.partition("\n## What all have in common\n")[2].partition("\n## ")[0]
    for key in _KEYS_OF[kind]:
        assert f"`{key}`" in section or f"`{key}" in section or f"`{key}`" in shared


def test_the_examples_replay_as_they_stand(page: str, tmp_path: Path) -> None:
    for name, text in EXAMPLE.findall(page):
        (tmp_path / name).write_text(text)
    report = json.loads(replay(tmp_path).to_json())
    # GPU-b and GPU-c are listed, and nothing was measured of them.
    assert findings(report) == {"missing_device": 2}
    assert "GPU-b, GPU-c" in report["findings"][0]["detail"]
    fleet, (vision,) = report["fleet"], report["tenants"]
    # Three H100 and four A100 for an hour: GPU-a is held for the three minutes of its samples, GPU-b for the hour,
    # GPU-c is down for a quarter, and a job has two of the A100; Slurm speaks for the other two.
    assert (fleet["capacity_gpu_hours"], fleet["down_gpu_hours"], fleet["idle_gpu_hours"]) == (7.0, 0.25, 2.0)
    assert vision["gpu_hours"]["allocated"] == pytest.approx(3 / 60 + 1 + 2)
    assert {w["workload"] for w in vision["workloads"]} == {"vision-x/p0", "evaluation", "7"}
