"""What devices say of their own health, over time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.config import load
from pipelines.operations import run_once
from pipelines.publish import FOLDER, current, published_fleet
from pipelines.store import opened
from tests.pipelines.scene import START, Scene, Series, Value, seen

XID = "DCGM_FI_DEV_XID_ERRORS"
ACTION = "DCGM_FI_DEV_GPU_RECOVERY_ACTION"
REMAP = "DCGM_FI_DEV_ROW_REMAP_FAILURE"


def states(tmp_path: Path, *series: Series) -> list[tuple[Any, ...]]:
    config = load(Scene(series).write(tmp_path) / "gpuledger.yaml")
    run_once(config)
    metered, _ = published_fleet(config.ledger)
    start = round(START.timestamp() * 1000)
    return [
        (device, state, reason, (begin - start) / 60_000, None if end is None else (end - start) / 60_000)
        for device, state, reason, begin, end in metered.state["device_state"]
        .select("device", "state", "reason", "start", "end")
        .rows()
    ]


def ill(device: str, minutes: tuple[float, float], metric: str, value: Value, owner: str = "") -> Series:
    """A device that says something of its health."""
    shown: dict[str, Value] = {"util": 50, metric: value}
    return replace(seen(device, minutes, owner), values=shown)


def steps(*values: tuple[int, float]) -> Value:
    """A value from each minute on."""
    return lambda minute: next(value for since, value in reversed(values) if since <= minute)


@pytest.mark.parametrize(
    ("metric", "value", "reason"),
    [
        (XID, 79, "XID 79: restart the node"),
        (XID, 119, "XID 119: reset the GPU"),
        (XID, 48, "XID 48: follow NVIDIA's workflow"),
        (ACTION, 1, "the driver asks to reset the GPU"),
        (ACTION, 4, "the driver asks to drain and reset"),
        (REMAP, 1, "a row of its memory can't be remapped: replace the board"),
    ],
)
def test_trouble_is_degraded_from_its_first_sample_until_it_is_gone(
    tmp_path: Path, metric: str, value: float, reason: str
) -> None:
    told = ill("GPU-a", (0, 60), metric, steps((0, 0), (20, value), (40, 0)))
    assert states(tmp_path, told) == [("GPU-a", "degraded", reason, 20, 40)]


@pytest.mark.parametrize("code", [13, 31, 43, 63])
def test_an_applications_own_fault_is_no_trouble_of_the_card(tmp_path: Path, code: int) -> None:
    assert states(tmp_path, ill("GPU-a", (0, 10), XID, code)) == []


def test_what_goes_on_has_no_end(tmp_path: Path) -> None:
    assert states(tmp_path, ill("GPU-a", (0, 30), XID, steps((0, 0), (10, 79)))) == [
        ("GPU-a", "degraded", "XID 79: restart the node", 10, None)
    ]


def test_a_code_that_vanishes_is_unknown_and_not_well(tmp_path: Path) -> None:
    told = ill("GPU-a", (0, 30), XID, 79), seen("GPU-a", (30, 60), util=50)
    assert [row[-1] for row in states(tmp_path, *told)] == [None]


def test_a_card_that_its_node_has_outlived_is_missing(tmp_path: Path) -> None:
    told = seen("GPU-a", (0, 60)), seen("GPU-b", (0, 30)), seen("GPU-c", (0, 55)), seen("GPU-d", (0, 30), node="rack2")
    assert states(tmp_path, *told) == [("GPU-b", "degraded", "no longer seen, though its node is", 29, None)]


def test_a_tenant_sees_the_trouble_of_the_cards_that_it_held_alone(tmp_path: Path) -> None:
    told = [
        ill("GPU-a", (0, 60), XID, steps((0, 0), (20, 79)), "astro/p"),
        ill("GPU-b", (0, 60), XID, steps((0, 0), (20, 119)), "bio/q"),
    ]
    config = load(Scene(told).write(tmp_path) / "gpuledger.yaml")
    run_once(config)
    publication = current(config.ledger)
    assert publication is not None
    with opened(config.ledger / FOLDER / publication.tenants["astro"], read_only=True) as connection:
        rows = connection.sql("SELECT device, reason FROM device_state").fetchall()
    assert rows == [("GPU-a", "XID 79: restart the node")]


def test_degraded_changes_no_bill(tmp_path: Path) -> None:
    def hours(folder: str, code: Value) -> pl.DataFrame:
        scene = Scene([ill("GPU-a", (0, 60), XID, code, "astro/p")])
        config = load(scene.write(tmp_path / folder) / "gpuledger.yaml")
        run_once(config)
        return published_fleet(config.ledger)[0].usage

    assert hours("well", 0).equals(hours("ill", steps((0, 0), (20, 79))))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 2e19, 1e300, float("nan")])
@pytest.mark.parametrize("metric", [XID, ACTION, REMAP])
def test_what_is_no_code_is_counted_and_stops_nothing(tmp_path: Path, metric: str, value: float) -> None:
    found = states(tmp_path, ill("GPU-1", (0, 30), metric, steps((0, 0), (10, value), (11, 0))))
    assert [state for _, state, *_ in found if state != "ok"] == []
