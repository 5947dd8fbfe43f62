"""PyTorch: communication of DistributedDataParallel, timed while it is in flight.

FSDP hides its collectives from outside: steps, waits and FLOPs of an FSDP loop are counted as of any other, and its
communication is unknown unless the loop itself runs collectives in ``meter.communicating()``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from gpuledger.training.meter import StepMeter

Hook = Callable[[Any, Any], Any]
"""``hook(state, bucket) -> torch.futures.Future``, as DDP calls it."""

_DEFAULT: Final = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def time_communication(meter: StepMeter, model: Any, *, hook: Hook | None = None, state: Any = None) -> None:
    """Time the collectives of a DistributedDataParallel model.

    It takes DDP's one communication hook: a hook of your own goes in here, not beside it. What fails is said once,
    and the model reduces as it did before.

    Args:
        model: DistributedDataParallel, before its first backward pass.
        hook, state: what reduces a bucket; None: DDP's own all-reduce.
    """
    try:
        inner = hook or importlib.import_module(_DEFAULT).allreduce_hook
        model.register_comm_hook(state, timed(meter, inner))
    except Exception as error:
        if hook is not None:
            raise  # the model would train without the hook that it was given
        meter.complain("communication hook", error)


def timed(meter: StepMeter, hook: Hook) -> Hook:
    """Return a hook that does what another does and times it until its future is done."""
    on_gpu = _GpuTimes(meter)

    def measured(state: Any, bucket: Any) -> Any:
        if _is_cuda(bucket):
            return on_gpu.around(hook, state, bucket)
        meter.communication_begins()
        try:
            future = hook(state, bucket)
        except BaseException:
            meter.communication_ends()
            raise
        future.add_done_callback(lambda _: meter.communication_ends())
        return future

    # DDP looks at the annotations to see that a hook takes a bucket and returns a future.
    measured.__annotations__ = dict(getattr(hook, "__annotations__", {}))
    return measured


def _is_cuda(bucket: Any) -> bool:
    try:
        return bool(bucket.buffer().is_cuda)
    except Exception:  # noqa: BLE001  a bucket of a kind that has no buffer
        return False


class _GpuTimes:
    """Collectives on a GPU: their futures are done when they are queued, so events in the stream say when they ran."""

    def __init__(self, meter: StepMeter) -> None:
        self._meter = meter
        self._origin: Any = None
        self._pending: list[tuple[Any, Any]] = []
        self._until = 0.0
        meter.after_step(self.settle)

    def around(self, hook: Hook, state: Any, bucket: Any) -> Any:
        begins = self._event()
        future = hook(state, bucket)
        if begins is None:
            return future

        def ended(done: Any) -> Any:
            ends = self._event()  # the callback's stream waits for the collective
            if ends is not None:
                self._pending.append((begins, ends))
            return done.value()[0] if isinstance(done.value(), list) else done.value()

        return future.then(ended)

    def settle(self) -> None:
        """Add up what the GPU is through with; overlapping collectives count once."""
        while self._pending and self._pending[0][1].query():
            begins, ends = self._pending.pop(0)
            start, end = (self._origin.elapsed_time(event) / 1000 for event in (begins, ends))
            if end > self._until:
                self._meter.communicated(end - max(start, self._until))
                self._until = end

    def _event(self) -> Any:
        try:
            cuda = importlib.import_module("torch").cuda
            event = cuda.Event(enable_timing=True)
            event.record()
            self._origin = self._origin or event
        except Exception as error:  # noqa: BLE001  as in time_communication
            self._meter.complain("communication", error)
            return None
        return event
