"""Simulated programs behave as such programs must, and are read as DCGM and NVML would read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.simulate.behaviours.boards import Board, Slowing, clock_within, dynamic_part, readings
from pipelines.simulate.behaviours.drawing import Family, Setting
from pipelines.simulate.behaviours.jobs import FAMILIES, INTERVALS, UNSEEN_INTERVALS, draw_jobs
from pipelines.simulate.behaviours.loop import Fetch, Loop, Saving
from pipelines.simulate.behaviours.pipeline import Pipeline
from pipelines.simulate.behaviours.published import POWER_WATTS, SM_ACTIVE, TENSOR_ACTIVE, drawn
from pipelines.simulate.behaviours.requests import served
from pipelines.simulate.behaviours.scenes import simulate_jobs
from pipelines.simulate.behaviours.trace import NOTHING, Trace, Work
from pipelines.simulate.behaviours.work import collective, mixed_precision, waiting_in_collective
from pipelines.simulate.cards import A100

WORK: Final = Work(engine=1.0, sm=0.8, tensor=0.3, dram=0.3)
WAITING: Final = Work(engine=1.0, sm=0.1)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def mean(trace: Trace, name: str, start: float = 0.0, end: float | None = None) -> float:
    bounds = np.array([start]), np.array([trace.length if end is None else end])
    return float(trace.means(*bounds)[name][0])


def loop(**changed: object) -> Loop:
    plain = Loop(ranks=4, compute=1.0, work=WORK, waiting=WAITING, moving=collective(WAITING, 1e11), jitter=0.01)
    return replace(plain, **changed)  # type: ignore[arg-type]


@given(
    lengths=st.lists(st.floats(0.001, 5.0), min_size=1, max_size=30),
    start=st.floats(0, 20),
    interval=st.floats(0.5, 30),
)
@settings(deadline=None, max_examples=50)
def test_a_mean_is_exact_however_short_the_phases(lengths: list[float], start: float, interval: float) -> None:
    trace = Trace.of([(s, WORK if n % 2 else NOTHING) for n, s in enumerate(lengths)])
    busy, at = 0.0, 0.0
    for n, seconds in enumerate(lengths):
        if n % 2:
            busy += max(0.0, min(at + seconds, start + interval) - max(at, start))
        at += seconds
    assert mean(trace, "sm", start, start + interval) == pytest.approx(0.8 * busy / interval, abs=1e-9)


def test_ranks_of_a_loop_take_the_same_time_since_they_wait_for_each_other() -> None:
    traces = loop(pace=np.array([1.0, 1.0, 1.5, 1.0])).run(600, rng())
    assert [t.length for t in traces] == pytest.approx([traces[0].length] * 4)
    slow, others = mean(traces[2], "sm"), mean(traces[0], "sm")
    assert others == pytest.approx(slow / 1.5 + (1 - 1 / 1.5) * WAITING.sm, abs=0.01)
    assert mean(traces[0], "engine") == pytest.approx(1.0)  # a kernel spins meanwhile


def test_a_starved_loop_stands_still_for_what_its_fetch_takes_longer() -> None:
    trace = loop(ranks=1, fetch=Fetch(seconds=100, lasts=40, jitter=0.01)).run(20_000, rng())[0]
    assert mean(trace, "engine") == pytest.approx(0.4, abs=0.03)


def test_a_checkpoint_copies_out_and_then_stands_still() -> None:
    saving = Saving(every=300, copy_seconds=10, copy_rate=5e9, write_seconds=50, jitter=0.01)
    trace = loop(ranks=1, saving=saving).run(20_000, rng())[0]
    assert mean(trace, "engine") == pytest.approx(300 / 360, abs=0.02)
    assert mean(trace, "transmit") == pytest.approx(5e9 * 10 / 360, rel=0.1)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro"), [(4, 4), (4, 8), (8, 8), (2, 16)])
def test_a_pipeline_has_its_bubbles_whatever_the_schedule(schedule: str, stages: int, micro: int) -> None:
    pipeline = Pipeline(stages, micro, 1.0, 2.0, Work(engine=1, sm=1), NOTHING, NOTHING, exchange=0.0, jitter=0.0)
    traces = replace(pipeline, schedule=schedule).run(1000, rng())  # type: ignore[arg-type]
    for trace in traces:
        assert mean(trace, "sm") == pytest.approx(micro / (micro + stages - 1), abs=1e-6)


def test_a_server_is_busy_for_rate_times_service() -> None:
    trace = served(50_000, rate=4.0, service=0.1, work=WORK, rng=rng())
    assert mean(trace, "engine", 0, 45_000) == pytest.approx(0.4, rel=0.03)


def test_profiling_fields_are_means_and_nvml_speaks_of_the_last_second() -> None:
    trace = Trace.of([(20.0, WORK), (10.0, NOTHING)] * 10)
    read = readings(trace, Board(A100, ((0.0, 0.5),)), np.arange(30.0, 301, 30), 30.0, rng())
    assert read["sm_active_ratio"] == pytest.approx(np.full(10, 0.8 * 2 / 3), rel=0.05)
    assert read["gpu_util_ratio"].tolist() == [0.0] * 10


def test_a_card_within_its_limit_slows_down_until_it_fits() -> None:
    demand = A100.idle_watts + (A100.limit_watts - A100.idle_watts) * dynamic_part(WORK)
    clock = clock_within(A100, WORK, demand * 0.6)
    assert 0.3 < clock < 0.8
    board = Board(A100, ((0.0, 0.5),), (Slowing(0, 900, clock, 4),), limit_watts=demand * 0.6)
    read = readings(Trace.of([(900.0, WORK)]), board, np.arange(60.0, 900, 60), 60.0, rng())
    assert read["power_watts"].max() <= demand * 0.6 * 1.05
    assert (read["sm_clock_hertz"] / read["sm_clock_maximum_hertz"]).max() < 0.8
    assert (read["throttle_reasons_bitmask"] == 4).all()
    assert read["throttle_power_seconds_total"][-1] == pytest.approx(840, rel=0.05)


def test_busy_cards_draw_what_the_published_ones_draw() -> None:
    draws = [mixed_precision(rng(seed)) for seed in range(200)]
    watts = [A100.idle_watts + (A100.limit_watts - A100.idle_watts) * min(dynamic_part(work), 1.0) for work in draws]
    quartile, ninth = dict(POWER_WATTS["seren"])[0.75], dict(POWER_WATTS["kalos"])[0.9]
    assert quartile * 0.85 < np.median(watts) < ninth


def test_busy_activity_lies_within_the_published_distributions() -> None:
    draws = [mixed_precision(rng(seed)) for seed in range(300)]
    for name, table in (("sm", SM_ACTIVE["kalos"]), ("tensor", TENSOR_ACTIVE["kalos"])):
        values = [getattr(work, name) for work in draws]
        low, high = drawn(table, rng(), 0.58, 0.58), drawn(table, rng(), 0.995, 0.995)
        assert low <= np.quantile(values, 0.05)
        assert np.quantile(values, 0.95) <= high


def test_waiting_in_a_collective_takes_few_sms() -> None:
    assert all(waiting_in_collective(rng(seed)).sm < 0.2 for seed in range(50))


def test_a_part_of_the_families_is_kept_apart() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    assert 0.3 < sum(family.unseen for family in FAMILIES) / len(FAMILIES) < 0.6
    assert set(UNSEEN_INTERVALS) != set(INTERVALS)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_every_family_draws_jobs_whose_metrics_are_possible(family: Family) -> None:
    setting = Setting(family.cards[0], 2400.0, 30.0, rng(3))
    drawn_job = family.draw(setting)
    times = np.arange(60.0, 2400, 30)
    for trace, board in drawn_job.ranks[:2]:
        for key, values in readings(trace, board, times, 30.0, rng()).items():
            assert np.isfinite(values).all(), key
            assert values.min() >= 0, key
            if key.endswith("_ratio"):
                assert values.max() <= 1, key


def test_the_same_seed_draws_the_same_jobs() -> None:
    one, two = (list(draw_jobs(3, seed=8, hours=(0.5, 0.6))) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert (a.family, a.cause, a.model) == (b.family, b.cause, b.model)
        assert all(
            np.array_equal(x[1]["power_watts"], y[1]["power_watts"]) for x, y in zip(a.ranks, b.ranks, strict=True)
        )


def test_jobs_are_written_as_a_replay_directory_with_their_truth(tmp_path: Path) -> None:
    simulate_jobs(tmp_path, jobs=2, seed=1)
    told = json.loads((tmp_path / "truth.json").read_text())["workloads"]
    samples = pl.read_parquet(tmp_path / "samples")
    assert [w["workload"] for w in told] == ["lab/job-0000", "lab/job-0001"]
    assert samples.select("pod").n_unique() == 2
    simulate_jobs(tmp_path, jobs=1, seed=1, missing=1 / 3)
    thinned = pl.read_parquet(tmp_path / "samples")
    assert len(thinned.columns) < len(samples.columns)
