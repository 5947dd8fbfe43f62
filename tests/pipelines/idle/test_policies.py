"""Rules of thumb: named, sourced, changed by the configuration, and never against a GPU that works or isn't seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.idle.notice import notice, notice_json
from pipelines.idle.policies import BUILT_IN
from tests.pipelines.idle.scenes import idle_of
from tests.pipelines.scene import Scene, Series, seen

BUSY = {"engine": 0.9, "util": 90}
QUIET = {"engine": 0.0, "util": 0}


def said(series: list[Series], folder: Path, **config: Any) -> list[tuple[str, str]]:
    idle, _, _ = idle_of(Scene(series, config=config), folder)
    return [(hit.policy.name, hit.workload) for hit in idle.hits]


@pytest.mark.parametrize(
    ("minutes", "names"),
    [(50, []), (70, ["idle-1h"]), (110, ["idle-1h", "idle-1h45"]), (180, ["idle-1h", "idle-1h45", "idle-2h"])],
)
def test_who_is_idle_now_is_warned_twice_and_then_ended(minutes: int, names: list[str], tmp_path: Path) -> None:
    series = [seen("GPU-0", (0, 60), "astro/a", **BUSY), seen("GPU-0", (60, 60 + minutes), "astro/a", **QUIET)]
    assert [name for name, _ in said(series, tmp_path)] == names


def test_a_job_with_a_gpu_at_work_is_not_ended(tmp_path: Path) -> None:
    idle = [seen("GPU-0", (0, 180), "astro/a", **QUIET)]
    assert len(said([*idle, seen("GPU-1", (0, 180), "astro/a", **QUIET)], tmp_path)) == 3
    assert said([*idle, seen("GPU-1", (0, 180), "astro/a", **BUSY)], tmp_path) == []


def test_who_has_worked_again_is_not_idle_now(tmp_path: Path) -> None:
    series = [seen("GPU-0", (0, 180), "astro/a", **QUIET), seen("GPU-0", (180, 240), "astro/a", **BUSY)]
    assert said(series, tmp_path) == []


def test_zero_utilisation_gpu_hours_count_idle_gpus_alone(tmp_path: Path) -> None:
    rule = {"name": "zero-gpu-hours", "gpu_hours": "3", "busy_at_most": "0.005"}
    series = [seen("GPU-0", (0, 120), "astro/a", **QUIET), seen("GPU-1", (0, 120), "astro/a", **BUSY)]
    others = [{"name": f"idle-{n}", "action": "none"} for n in ("1h", "1h45", "2h")]
    assert said(series, tmp_path, reclaim=[rule, *others]) == []
    two = [*series, seen("GPU-2", (0, 120), "astro/a", **QUIET)]
    assert said(two, tmp_path, reclaim=[rule, *others]) == [("zero-gpu-hours", "astro/a")]


def test_a_mean_over_all_gpus_takes_hours_that_were_seen(tmp_path: Path) -> None:
    rule = {"name": "low-efficiency", "counts": "all_gpus", "busy_at_most": "0.25", "gpu_hours": "3.5"}
    little = {"engine": 0.2, "util": 20}
    whole = [seen("GPU-0", (0, 240), "astro/a", uid="u", **little)]
    assert said(whole, tmp_path, reclaim=[rule]) == [("low-efficiency", "astro/a")]
    holed = [
        seen("GPU-0", (0, 60), "astro/a", uid="u", **little),
        seen("GPU-0", (180, 240), "astro/a", uid="u", **little),
    ]
    assert said(holed, tmp_path, reclaim=[rule]) == []


def test_a_policy_of_ones_own_stands_beside_those_built_in(tmp_path: Path) -> None:
    rule = {"name": "house-rule", "counts": "idle_now", "busy_at_most": "0.05", "minutes": "30", "action": "warn"}
    series = [seen("GPU-0", (0, 50), "astro/a", engine=0.03, util=3)]
    assert said(series, tmp_path, reclaim=[rule]) == [("house-rule", "astro/a")]


def test_every_built_in_policy_has_a_source() -> None:
    assert all(policy.source for policy in BUILT_IN)
    assert len({policy.name for policy in BUILT_IN}) == len(BUILT_IN)


def test_a_notice_says_what_whose_since_when_and_what_frees_it(tmp_path: Path) -> None:
    series = [seen("GPU-0", (0, 180), "astro/a", **QUIET), seen("GPU-1", (0, 180), "bio/b", **QUIET)]
    idle, _, stages = idle_of(Scene(series), tmp_path)
    text = notice(idle, "astro", stages.config)
    assert "USD 9.00" in text
    assert "since 2026-03-02 09:00  astro/a" in text
    flowing = " ".join(text.split())
    assert "! astro/a may be ended under policy idle-2h: 1 idle GPU since 2026-03-02 09:00, 3.0 GPU-hours" in flowing
    assert flowing.count("! astro/a") == 1  # who reads of the last warning needs no first
    assert "To free it: end the job or notebook" in text
    assert "bio/b" not in text
    assert all(len(line) <= 100 for line in text.splitlines())
    facts = notice_json(idle, "astro", stages.config)
    assert {item["owner"] for item in facts["reclaim"]} == {"astro"}
    assert facts["text"] == text


def test_who_has_nothing_idle_is_told_so(tmp_path: Path) -> None:
    idle, _, stages = idle_of(Scene([seen("GPU-0", (0, 60), "astro/a", **BUSY)]), tmp_path)
    assert "No GPU of yours stood idle" in notice(idle, "astro", stages.config)


def test_names_from_labels_steer_no_terminal(tmp_path: Path) -> None:
    idle, _, stages = idle_of(Scene([seen("GPU-0", (0, 180), "astro/\x1b[31ma", **QUIET)]), tmp_path)
    assert "\x1b" not in notice(idle, "astro", stages.config)
