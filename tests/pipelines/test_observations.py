"""Readings that can't be believed: where the line is between a fault and a quiet card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.scene import Scene, Value, seen
from tests.pipelines.stages import run

HOUR = 60


def findings(scene: Scene, folder: Path) -> dict[str, int]:
    return {f["code"]: f["count"] for f in run(scene.write(folder)).report()["findings"]}


@pytest.mark.parametrize(
    ("every", "moves", "repeats", "power", "frozen"),
    [
        pytest.param(1, 3, 5, 200, True, id="five repeated scrapes over five minutes"),
        pytest.param(1, 3, 4, 200, False, id="four"),
        pytest.param(0.5, 3, 5, 200, False, id="five over two and a half minutes"),
        pytest.param(0.5, 3, 6, 200, True, id="six over three minutes"),
        pytest.param(1, 1, 12, 200, False, id="a counter that never moved"),
        pytest.param(1, 3, 12, 0, False, id="a card without power"),
    ],
)
def test_an_energy_counter_is_frozen_after_five_scrapes_and_three_minutes_under_power(
    every: float, moves: int, repeats: int, power: float, frozen: bool, tmp_path: Path
) -> None:
    readings = [1e9 + 1e6 * n for n in range(moves)] + [1e9 + 1e6 * (moves - 1)] * repeats
    length = len(readings) * every
    scene = Scene([seen("GPU-a", (0, length), "astro/a", every=every, util=50, power=power, energy=readings)])
    assert ("frozen_series" in findings(scene, tmp_path)) is frozen


def test_a_counter_that_moves_again_is_believed_again(tmp_path: Path) -> None:
    readings = [1e9, 2e9, *[3e9] * 10, *(4e9 + n * 1e9 for n in range(8))]
    report = run(
        Scene([seen("GPU-a", (0, 20), "astro/a", util=50, power=200, energy=readings)]).write(tmp_path)
    ).report()
    (tenant,) = report["tenants"]
    assert tenant["coverage"] == round((20 - 9) / 20, 6)


@pytest.mark.parametrize(
    ("engine", "util", "contradicting"),
    [
        pytest.param(0, 70, True, id="an hour"),
        pytest.param(lambda m: 0.0 if m else 0.1, 70, False, id="a minute less"),
        pytest.param(0, 0, False, id="both idle"),
        pytest.param(0.01, 70, False, id="a little engine activity"),
        pytest.param(0, lambda m: 0.0 if m == 30 else 70, False, id="GPU_UTIL at 0 in between"),
    ],
)
def test_engine_activity_is_contradicted_by_an_hour_of_gpu_util(
    engine: Value, util: Value, contradicting: bool, tmp_path: Path
) -> None:
    scene = Scene([seen("GPU-a", (0, HOUR), "astro/a", engine=engine, util=util)])
    assert ("contradicting_series" in findings(scene, tmp_path)) is contradicting


def test_activity_of_other_units_never_stands_in_for_busy(tmp_path: Path) -> None:
    scene = Scene([seen("GPU-a", (0, 30), "astro/a", DCGM_FI_PROF_SM_ACTIVE=0.9, DCGM_FI_PROF_DRAM_ACTIVE=0.7)])
    (tenant,) = run(scene.write(tmp_path)).report()["tenants"]
    assert (tenant["coverage"], tenant["utilization"], tenant["waste"]) == (0, None, None)


def test_an_xid_is_an_event_where_the_latched_code_changes(tmp_path: Path) -> None:
    codes = [0, 0, 79, 79, 79, 31, 31, 0, 79]
    scene = Scene(
        [seen("GPU-a", (0, 9), util=50, DCGM_FI_DEV_XID_ERRORS=codes), seen("GPU-b", (0, 9), DCGM_FI_DEV_XID_ERRORS=0)]
    )
    assert findings(scene, tmp_path)["xid_event"] == 3
