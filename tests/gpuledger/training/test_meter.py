"""What a loop tells the meter is what it exposes; what nobody measured isn't there."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from exporter.training_metrics import TRAINING_METRICS
from gpuledger.training import StepMeter
from tests.gpuledger.training.clocks import Clock, a_meter, value


class Loader:
    """Three batches, each a quarter of a second late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(3):
            self._clock.passes(0.25)
            yield [number] * 8


@pytest.fixture
def clock() -> Clock:
    return Clock()


def train(meter: StepMeter, clock: Clock) -> None:
    for batch in meter.batches(Loader(clock)):
        with meter.step(samples=len(batch), tokens=100 * len(batch)):
            clock.passes(1.0)


def test_steps_samples_waits_and_epochs_are_counted(clock: Clock) -> None:
    meter = a_meter(clock)
    train(meter, clock)
    train(meter, clock)
    assert value(meter, "steps_total") == 6
    assert value(meter, "samples_total") == 48
    assert value(meter, "tokens_total") == 4800
    assert value(meter, "epochs_total") == 2
    assert value(meter, "data_wait_seconds_total") == pytest.approx(1.5)
    assert value(meter, "step_seconds_total") == pytest.approx(6.0)
    assert value(meter, "last_step_time_seconds") == clock.at


def test_what_nobody_measured_is_not_exposed(clock: Clock) -> None:
    meter = a_meter(clock)
    assert value(meter, "steps_total") is None
    meter.step_done(1.0)
    assert value(meter, "steps_total") == 1
    for key in ("samples_total", "tokens_total", "data_wait_seconds_total", "communication_seconds_total",
                "floating_point_operations_total", "mfu_ratio", "peak_flops", "world_size"):  # fmt: skip
        assert value(meter, key) is None


def test_waiting_inside_a_step_is_no_part_of_it(clock: Clock) -> None:
    meter = a_meter(clock)
    with meter.step():
        with meter.waiting():
            clock.passes(2.0)
        clock.passes(1.0)
    assert value(meter, "step_seconds_total") == 1.0
    assert value(meter, "data_wait_seconds_total") == 2.0


def test_overlapping_collectives_count_once(clock: Clock) -> None:
    meter = a_meter(clock)
    with meter.step():
        meter.communication_begins()
        clock.passes(1.0)
        with meter.communicating():
            clock.passes(1.0)
        meter.communication_ends()
        clock.passes(5.0)
    assert value(meter, "communication_seconds_total") == 2.0
    meter.communication_begins()
    clock.passes(3.0)
    assert value(meter, "communication_seconds_total") == 5.0  # one that hangs is seen while it hangs


def test_a_collective_that_never_began_does_not_end(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.communication_ends()
    with meter.communicating():
        clock.passes(1.0)
    meter.step_done(1.0)
    assert value(meter, "communication_seconds_total") == 1.0


def test_checkpoints_are_timed_also_where_they_fail(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.step_done(1.0)

    def write() -> None:
        with meter.checkpointing():
            clock.passes(4.0)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write()
    assert value(meter, "checkpoint_seconds_total") == 4.0


def test_a_step_that_fails_is_no_step_and_its_error_passes(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.step_done(1.0)
    with pytest.raises(RuntimeError, match="out of memory"), meter.step():
        raise RuntimeError("out of memory")
    assert value(meter, "steps_total") == 1


def test_what_is_known_inside_a_step_counts(clock: Clock) -> None:
    meter = a_meter(clock)
    with meter.step() as step:
        step.samples, step.tokens, step.flops = 4, 77, 1e12
    assert value(meter, "tokens_total") == 77
    assert value(meter, "floating_point_operations_total") == 1e12


def test_mfu_is_of_the_cards_dense_peak_and_of_the_last_minutes(clock: Clock) -> None:
    meter = a_meter(clock, flops_per_token=1e12, card="NVIDIA A100-SXM4-80GB", cards=2)
    for _ in range(60):
        clock.passes(10.0)
        meter.step_done(10.0, tokens=3120)
    assert value(meter, "peak_flops") == 624e12
    assert value(meter, "mfu_ratio") == pytest.approx(0.5)
    clock.passes(300.0)  # a stall: it takes half of what is looked at
    assert value(meter, "mfu_ratio") == pytest.approx(0.25)


def test_a_card_that_nobody_knows_has_flops_and_no_mfu(clock: Clock) -> None:
    meter = a_meter(clock, flops_per_sample=1e9, card="Some Card 9000")
    meter.step_done(1.0, samples=2)
    assert value(meter, "floating_point_operations_total") == 2e9
    assert value(meter, "mfu_ratio") is None


def test_a_framework_may_call_back_at_the_ends_of_steps(clock: Clock) -> None:
    meter = a_meter(clock)
    clock.passes(9.0)
    meter.step_begins()
    clock.passes(1.0)
    meter.step_ends(samples=8)
    with meter.waiting():
        clock.passes(3.0)
    clock.passes(2.0)
    meter.step_ends(samples=8)  # nothing said that it began: since the one before, without the waiting
    assert value(meter, "step_seconds_total") == 3.0


def test_nonsense_is_said_once_and_training_goes_on(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    meter = a_meter(clock)
    with caplog.at_level(logging.WARNING, "gpuledger.training"):
        for _ in range(3):
            with meter.step(samples="many"):  # type: ignore[arg-type]
                pass
    assert len(caplog.records) == 1
    assert value(meter, "steps_total") == 3


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -5, 10**400, "many"])
def test_a_total_only_grows_and_only_by_amounts(amount: float, clock: Clock) -> None:
    meter = a_meter(clock, card="NVIDIA L4")
    train(meter, clock)
    with meter.step(samples=amount, tokens=7, flops=amount):
        clock.passes(1.0)
    meter.communicated(amount)
    assert value(meter, "steps_total") == 4
    assert value(meter, "step_seconds_total") == pytest.approx(4.0)
    assert value(meter, "samples_total") == 24
    assert value(meter, "tokens_total") == 2407


def test_a_step_that_is_left_without_being_entered_disturbs_nothing(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.step().__exit__(None, None, None)
    assert value(meter, "steps_total") == 1


def test_every_metric_of_the_table_is_exposed_by_its_name_and_kind(clock: Clock) -> None:
    meter = a_meter(clock, flops_per_sample=1e9, card="NVIDIA L4", environ={"RANK": "0", "WORLD_SIZE": "8"})
    train(meter, clock)
    with meter.communicating(), meter.checkpointing():
        clock.passes(1.0)
    families = {family.name: family for family in meter.registry.collect()}
    exposed = {s.name: f.type for f in families.values() for s in f.samples}
    assert exposed == {metric.name: metric.kind for metric in TRAINING_METRICS}


def test_labels_say_who_it_is(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.step_done(1.0)
    labels = {k: v for family in meter.registry.collect() for s in family.samples for k, v in s.labels.items()}
    assert labels == {"run": "run", "rank": "3", "hpc_job": "4711", "node": "n1"}


def test_threads_lose_nothing(clock: Clock) -> None:
    meter = a_meter(clock)

    def many() -> None:
        for _ in range(500):
            meter.step_done(1.0, samples=2)
            with meter.communicating():
                pass

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(meter, "samples_total") == 4000


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what a loader with workers does
def test_a_forked_child_begins_at_zero(clock: Clock) -> None:
    meter = a_meter(clock)
    meter.step_done(1.0)
    with meter._counts._lock:  # as if another thread held it while a loader forks its workers
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            meter.step_done(1.0)
            meter.step_done(1.0)
            os.write(writer, str(value(meter, "steps_total")).encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == "2.0"
    assert value(meter, "steps_total") == 1
