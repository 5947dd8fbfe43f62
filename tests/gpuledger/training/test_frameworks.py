"""Frameworks, by doubles of what the meter touches of them; PyTorch's own loop is in test_pytorch_loop.py."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import UsageError
from gpuledger.training import StepMeter, deepspeed, horovod, keras, pytorch
from gpuledger.training.cards import current_card
from tests.gpuledger.training.clocks import Clock, a_meter, value


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> StepMeter:
    return a_meter(clock)


class Future:
    """As torch.futures.Future: callbacks run when the result is there."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Future], Any]] = []
        self.result: Any = ["reduced"]

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        self.callbacks.append(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        after = Future()
        self.callbacks.append(lambda done: setattr(after, "result", callback(done)))
        return after

    def value(self) -> Any:
        return self.result

    def done(self) -> None:
        for callback in self.callbacks:
            callback(self)


class Bucket:
    def __init__(self, *, is_cuda: bool = False) -> None:
        self._is_cuda = is_cuda

    def buffer(self) -> Any:
        return SimpleNamespace(is_cuda=self._is_cuda)


class Model:
    """As DistributedDataParallel: it takes one hook."""

    def __init__(self) -> None:
        self.hook: Any = None

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        if self.hook is not None:
            raise RuntimeError("register_comm_hook can only be called once")
        self.state, self.hook = state, hook


def test_ddp_collectives_are_timed_until_their_futures_are_done(meter: StepMeter, clock: Clock) -> None:
    model, futures = Model(), [Future(), Future()]
    pytorch.time_communication(meter, model, hook=lambda state, _: state.pop(0), state=list(futures))
    assert model.hook(model.state, Bucket()) is futures[0]
    clock.passes(1.0)
    model.hook(model.state, Bucket())
    clock.passes(1.0)
    futures[1].done()
    clock.passes(1.0)
    futures[0].done()
    clock.passes(7.0)
    meter.step_done(10.0)
    assert value(meter, "communication_seconds_total") == 3.0


def test_a_hook_that_fails_leaves_nothing_in_flight(meter: StepMeter, clock: Clock) -> None:
    def broken(_state: Any, _bucket: Any) -> Any:
        raise ValueError("no such process group")

    with pytest.raises(ValueError, match="no such process group"):
        pytorch.timed(meter, broken)(None, Bucket())
    clock.passes(5.0)
    meter.step_done(5.0)
    assert value(meter, "communication_seconds_total") == 0.0


def test_a_model_without_room_for_a_hook_trains_on(meter: StepMeter, caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    model.register_comm_hook(None, "theirs")
    with caplog.at_level(logging.WARNING, "gpuledger.training"):
        pytorch.time_communication(meter, model)
    assert model.hook == "theirs"
    assert len(caplog.records) == 1
    with pytest.raises(RuntimeError, match="only be called once"):
        pytorch.time_communication(meter, model, hook=lambda *_: None)


def test_on_a_gpu_events_in_the_stream_say_when_collectives_ran(
    meter: StepMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = SimpleNamespace(ms=0.0, finished=0.0)

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.ms = at.ms

        def query(self) -> bool:
            return self.ms <= at.finished

        def elapsed_time(self, other: Event) -> float:
            return other.ms - self.ms

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(Event=Event, is_initialized=bool)))
    futures = [Future(), Future()]
    hook = pytorch.timed(meter, lambda state, _: futures[state])
    first = hook(0, Bucket(is_cuda=True))  # in flight from 0 to 30 ms
    at.ms = 20.0
    hook(1, Bucket(is_cuda=True))  # from 20 to 50 ms
    at.ms = 30.0
    futures[0].done()
    at.ms = 50.0
    futures[1].done()
    assert first.value() == "reduced"
    at.finished = 40.0
    meter.step_done(1.0)
    assert value(meter, "communication_seconds_total") == pytest.approx(0.030)
    at.finished = 60.0
    meter.step_done(1.0)
    assert value(meter, "communication_seconds_total") == pytest.approx(0.050)


def test_pytorch_says_which_card_it_works_on_and_cuda_is_not_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="NVIDIA H100 80GB HBM3", uuid="1234-abcd")
    cuda = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0, get_device_properties=lambda _: card)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert current_card() == ("NVIDIA H100 80GB HBM3", "GPU-1234-abcd")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False)))
    assert current_card() == (None, None)


def test_horovod_waits_in_synchronize(meter: StepMeter, clock: Clock) -> None:
    class Optimizer:
        def synchronize(self) -> None:
            clock.passes(2.0)

        def step(self) -> str:
            self.synchronize()
            clock.passes(1.0)
            return "loss"

    optimizer = Optimizer()
    horovod.time_communication(meter, optimizer)
    with meter.step():
        assert optimizer.step() == "loss"
    assert value(meter, "communication_seconds_total") == 2.0


def test_an_optimizer_of_another_kind_is_said_and_left_as_it_is(
    meter: StepMeter, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "gpuledger.training"):
        horovod.time_communication(meter, object())
    assert "no method synchronize" in caplog.text


def test_deepspeed_counts_steps_where_the_weights_change(meter: StepMeter, clock: Clock) -> None:
    class Engine:
        micro = 0

        def is_gradient_accumulation_boundary(self) -> bool:
            return self.micro % 4 == 3

        def train_micro_batch_size_per_gpu(self) -> int:
            return 2

        def gradient_accumulation_steps(self) -> int:
            return 4

        def allreduce_gradients(self) -> None:
            clock.passes(0.5)

        def step(self) -> None:
            if self.is_gradient_accumulation_boundary():
                self.allreduce_gradients()
            self.micro += 1

    engine = Engine()
    deepspeed.attach(meter, engine, tokens_per_sample=100)
    for _ in range(8):
        with meter.waiting():
            clock.passes(0.25)
        clock.passes(1.0)
        engine.step()
    assert value(meter, "steps_total") == 2
    assert value(meter, "samples_total") == 16
    assert value(meter, "tokens_total") == 1600
    assert value(meter, "step_seconds_total") == 9.0
    assert value(meter, "communication_seconds_total") == 1.0


def test_keras_calls_back(meter: StepMeter, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Callback:
        pass

    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(callbacks=SimpleNamespace(Callback=Callback)))
    callback = keras.callback(meter, samples=32)
    assert isinstance(callback, Callback)
    for batch in range(3):
        callback.on_train_batch_begin(batch, logs={})
        clock.passes(2.0)
        callback.on_train_batch_end(batch, logs={})
        clock.passes(1.0)
    callback.on_epoch_end(0, {})
    assert value(meter, "samples_total") == 96
    assert value(meter, "step_seconds_total") == 6.0
    assert value(meter, "epochs_total") == 1
    assert value(meter, "data_wait_seconds_total") is None


def test_without_keras_the_message_says_what_to_install(meter: StepMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(UsageError, match="pip install keras"):
        keras.callback(meter)
