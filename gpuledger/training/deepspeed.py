"""DeepSpeed: an engine's steps, samples and reductions."""

from __future__ import annotations

from typing import Any

from gpuledger.training.meter import StepMeter
from gpuledger.training.methods import wrap


def attach(meter: StepMeter, engine: Any, *, tokens_per_sample: float | None = None) -> None:
    """Count a step whenever the engine updates the weights, with the samples of its micro-batches.

    A step lasts from the end of the one before, less what the loop waited for data meanwhile (``meter.batches``). The
    reduction of gradients (``allreduce_gradients``, ZeRO stages 0 and 1) is communication; later stages reduce inside
    the backward pass, and theirs is unknown.
    """
    wrap(meter, engine, "step", lambda: _Boundary(meter, engine, tokens_per_sample))
    if hasattr(engine, "allreduce_gradients"):
        wrap(meter, engine, "allreduce_gradients", meter.communicating)


class _Boundary:
    """A call of the engine's ``step``: one of several micro-steps, or the one that updates the weights."""

    def __init__(self, meter: StepMeter, engine: Any, tokens_per_sample: float | None) -> None:
        self._meter, self._engine, self._tokens = meter, engine, tokens_per_sample

    def __enter__(self) -> None:
        self._samples = _samples(self._meter, self._engine)

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None and self._samples is not None:
            tokens = None if self._tokens is None else self._tokens * self._samples
            self._meter.step_ends(samples=self._samples, tokens=tokens)


def _samples(meter: StepMeter, engine: Any) -> float | None:
    """Return this rank's samples of the step that is about to end; None: weights aren't updated yet."""
    try:
        if not engine.is_gradient_accumulation_boundary():
            return None
        return float(engine.train_micro_batch_size_per_gpu() * engine.gradient_accumulation_steps())
    except Exception as error:  # noqa: BLE001  an engine of another kind; training goes on
        meter.complain("DeepSpeed engine", error)
        return None
