"""From samples and usage to windows: means, idle episodes, shapes over time and between devices."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
import pytest

from pipelines.analysis.hours import analyse
from pipelines.analysis.tables import PPB, Analysis
from pipelines.instants import HOUR_MS
from tests.pipelines.analysis.recorded import START, Rank, Recording

BUSY: Final[dict[str, Any]] = {
    "engine": 0.97, "sm": 0.8, "tensor": 0.25, "dram": 0.3, "fp32": 0.05, "receive": 4e7, "transmit": 2e7,
    "used": 6e10, "total": 8.5e10, "clock": 1.41e9, "reasons": 0.0, "link": 1e9,
}  # fmt: skip
NOTHING: Final[dict[str, Any]] = {**dict.fromkeys(BUSY, 0.0), "used": 5e8, "total": 8.5e10, "reasons": 1.0}


def during(when: Any, work: dict[str, Any], otherwise: dict[str, Any] | None = None) -> dict[str, Any]:
    """Values that are those of `work` in the minutes for which `when` says so, else of `otherwise`."""
    rest = NOTHING if otherwise is None else otherwise

    def value(name: str) -> Any:
        return lambda minute: work[name] if when(minute) else rest[name]

    return {name: value(name) for name in work}


def analysed(recording: Recording, hours: int = 1) -> Analysis:
    wanted = [START + n * HOUR_MS for n in range(hours)]
    return analyse(recording.samples, recording.usage, recording.leases, wanted)


def only(recording: Recording) -> dict[str, Any]:
    return analysed(recording).windows.row(0, named=True)


def test_means_are_over_time_and_devices() -> None:
    one = Rank("GPU-1", {**BUSY, "sm": lambda m: 0.6 if m < 30 else 1.0})
    found = only(Recording({"w": [one, Rank("GPU-2", {**BUSY, "sm": 0.7})]}))
    assert found["sm"] == pytest.approx(0.75, abs=0.01)
    assert (found["devices"], found["observed_ms"], found["interval_ms"]) == (2, 2 * HOUR_MS, 30_000)
    assert found["memory_peak"] == pytest.approx(6 / 8.5, abs=1e-4)


def test_a_missing_sample_lowers_no_mean() -> None:
    found = only(Recording({"w": [Rank("GPU-1", BUSY, without=(10.0, 40.0))]}))
    assert found["sm"] == pytest.approx(0.8)
    assert found["observed_ms"] == HOUR_MS - 30 * 60_000


def test_impossible_values_count_as_missing() -> None:
    found = only(Recording({"w": [Rank("GPU-1", {**BUSY, "sm": lambda m: 0.8 if m % 2 else 808_334_905.0})]}))
    assert found["sm"] == pytest.approx(0.8)


def test_an_idle_episode_is_cut_out_and_the_rest_keeps_its_cause() -> None:
    analysis = analysed(Recording({"w": [Rank("GPU-1", during(lambda m: m < 30, BUSY))]}))
    found = analysis.windows.row(0, named=True)
    assert (found["cause"], found["idle_ms"]) == ("compute", 30 * 60_000)
    part = analysis.idle.row(0, named=True)
    assert part["time_ppb"] == PPB // 2
    assert part["loss_ppb"] == pytest.approx(PPB * 1 / 1.03, rel=1e-6)


@pytest.mark.parametrize(("minutes", "idle"), [(4, 0), (9, 0), (15, 15), (25, 25)])
def test_a_short_pause_is_no_idle_episode(minutes: int, idle: int) -> None:
    found = only(Recording({"w": [Rank("GPU-1", during(lambda m: not 20 <= m < 20 + minutes, BUSY))]}))
    assert found["idle_ms"] == idle * 60_000


def test_a_kernel_now_and_then_keeps_nothing_alive() -> None:
    blip = during(lambda m: m % 4 < 0.5, {**BUSY, "engine": 0.2, "sm": 0.15, "tensor": 0.05, "dram": 0.05, "link": 0.0})
    assert only(Recording({"w": [Rank("GPU-1", blip)]}))["cause"] == "idle"


def test_copies_without_kernels_are_not_idle() -> None:
    found = only(Recording({"w": [Rank("GPU-1", {**NOTHING, "receive": 2e9})]}))
    assert found["cause"] != "idle"
    assert found["idle_ms"] == 0


def test_of_a_job_only_its_idle_devices_are_idle() -> None:
    ranks = [Rank("GPU-1", BUSY), *(Rank(f"GPU-{n}", NOTHING) for n in (2, 3, 4))]
    analysis = analysed(Recording({"w": ranks}))
    found = analysis.windows.row(0, named=True)
    assert (found["cause"], found["idle_ms"]) == ("compute", 3 * HOUR_MS)
    assert analysis.idle["device"].to_list() == ["GPU-2", "GPU-3", "GPU-4"]


def test_an_episode_across_the_hour_is_seen_from_both_sides() -> None:
    rank = Rank("GPU-1", during(lambda m: not 55 <= m < 65, BUSY), end=120)
    found = analysed(Recording({"w": [rank]}), hours=2).windows
    assert found["idle_ms"].to_list() == [5 * 60_000, 5 * 60_000]


def test_an_hour_comes_out_the_same_whatever_else_is_analysed() -> None:
    rank = Rank("GPU-1", during(lambda m: m % 7 < 4 and not 50 <= m < 75, BUSY), end=180)
    recording = Recording({"w": [rank], "v": [Rank("GPU-9", BUSY, end=180)]})
    together = analysed(recording, hours=3)
    for n in range(3):
        alone = analyse(recording.samples, recording.usage, recording.leases, [START + n * HOUR_MS])
        assert alone.windows.equals(together.windows.filter(pl.col("hour") == START + n * HOUR_MS))
        assert alone.idle.equals(together.idle.filter(pl.col("hour") == START + n * HOUR_MS))


def test_a_saw_tooth_without_kernels_waits_for_input() -> None:
    found = only(Recording({"w": [Rank("GPU-1", during(lambda m: m % 6 < 3.5, BUSY))]}))
    assert found["cause"] == "input"
    assert found["stalls"] == pytest.approx(10)
    assert found["stalled"] == pytest.approx(0.41, abs=0.02)


def test_a_saw_tooth_too_fast_for_the_interval_has_no_shape() -> None:
    half = {**BUSY, "engine": 0.55, "sm": 0.45, "tensor": 0.14, "dram": 0.17}
    assert only(Recording({"w": [Rank("GPU-1", half)]}))["cause"] == "unknown"


def test_stalls_that_begin_with_copies_to_the_host_are_checkpoints() -> None:
    writing = during(lambda m: m % 15 >= 3, BUSY)
    writing["transmit"] = lambda m: 3e9 if m % 15 < 0.5 else 2e7
    assert only(Recording({"w": [Rank("GPU-1", writing)]}))["cause"] == "checkpoint"


def test_stages_that_stand_still_in_turn_are_a_pipeline() -> None:
    waiting = {**BUSY, "engine": 1.0, "sm": 0.03, "tensor": 0.0, "dram": 0.01}
    stages = [
        Rank(f"GPU-{s}", during(lambda m, s=s: not s * 0.5 <= m % 4 < s * 0.5 + 1.5, BUSY, waiting)) for s in range(4)
    ]
    found = only(Recording({"w": stages}))
    assert found["cause"] == "pipeline_bubble"
    assert found["together"] < 0.5
    assert found["low_engine"] == pytest.approx(1.0)


@pytest.mark.parametrize("values", [{"sm": 0.4}, {"engine": 0.6, "sm": 0.7}])
def test_the_rank_that_differs_is_named(values: dict[str, float]) -> None:
    ranks = [Rank(f"GPU-{n}", BUSY) for n in range(7)] + [Rank("GPU-7", {**BUSY, **values})]
    found = only(Recording({"w": ranks}))
    assert (found["cause"], found["suspect"]) == ("straggler", "GPU-7")


def test_two_devices_have_no_outlier() -> None:
    found = only(Recording({"w": [Rank("GPU-1", BUSY), Rank("GPU-2", {**BUSY, "sm": 0.4})]}))
    assert found["behind"] == 0.0
    assert found["suspect"] is None


def test_traffic_is_read_from_counters_too() -> None:
    values = {k: v for k, v in BUSY.items() if k != "transmit"}
    counted = {**values, "sent_total": lambda m: m * 60 * 3e9}
    assert only(Recording({"w": [Rank("GPU-1", counted)]}))["transmit"] == pytest.approx(3e9)


def test_an_instance_shows_its_boards_clocks() -> None:
    board = Rank("GPU-1", {"clock": 8e8, "reasons": 32.0})
    instance = Rank(
        "GPU-1", {k: v for k, v in BUSY.items() if k not in ("clock", "reasons")}, instance="7", profile="3g"
    )
    recording = Recording({"w": [instance]})
    samples = pl.concat([recording.samples, Recording({"b": [board]}).samples], how="diagonal")
    found = analyse(samples, recording.usage, recording.leases, [START]).windows.row(0, named=True)
    assert found["cause"] == "thermal"
    assert found["clock_part"] == pytest.approx(8 / 14.1, abs=1e-3)


def test_of_two_recordings_of_a_device_the_fuller_one_counts() -> None:
    full, thin = Rank("GPU-1", BUSY, replica="b"), Rank("GPU-1", {**BUSY, "sm": 0.2}, every=120.0, replica="a")
    assert only(Recording({"w": [full, thin]}))["sm"] == pytest.approx(0.8)


def test_what_a_guessed_lease_shows_says_nothing() -> None:
    assert analysed(Recording({"w": [Rank("GPU-1", BUSY)]}, guessed=("w",))).windows.is_empty()
