"""A training loop, step by step and rank by rank: who waits for whom follows from the phases' lengths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pipelines.simulate.behaviours.shapes import Floats
from pipelines.simulate.behaviours.trace import NOTHING, SIGNALS, Trace, Work


@dataclass(frozen=True)
class Fetch:
    """A loader that gets its input in one go every so many seconds of its own.

    Attributes:
        seconds: how long a fetch takes; the next begins when the last one has ended.
        lasts: seconds of steps that it feeds.
        jitter: relative spread of a fetch.
    """

    seconds: float
    lasts: float
    jitter: float = 0.15


@dataclass(frozen=True)
class Saving:
    """A checkpoint: the state is copied out, then everybody waits until it is written."""

    every: float
    copy_seconds: float
    copy_rate: float
    write_seconds: float
    jitter: float = 0.1


@dataclass(frozen=True)
class Loop:
    """One loop on some ranks; seconds are per step.

    Attributes:
        work: what computing looks like; `update`: the optimiser.
        pace: per rank, how much longer its computing takes.
        gap: host time between kernels in which nothing runs; `gaps`: per rank, as a multiple.
        copy_in, copy_out: exposed copies in each step, at `copy_rate` bytes/s.
        host: seconds in which the host computes and the GPU waits (an optimiser on the CPU).
        exchange: exposed communication, once all ranks are there.
        fetch: its input; None: always there. `hiccups`: (mean seconds between them, mean length).
        validate: (every, seconds) of forward passes only.
    """

    ranks: int
    compute: float
    work: Work
    waiting: Work
    moving: Work
    update: Work = NOTHING
    update_seconds: float = 0.0
    pace: Floats = field(default_factory=lambda: np.ones(1))
    jitter: float = 0.03
    gap: float = 0.0
    gaps: Floats = field(default_factory=lambda: np.ones(1))
    copy_in: float = 0.0
    copy_out: float = 0.0
    copy_rate: float = 1e10
    host: float = 0.0
    exchange: float = 0.0
    fetch: Fetch | None = None
    hiccups: tuple[float, float] | None = None
    saving: Saving | None = None
    validate: tuple[float, float] | None = None

    @property
    def step_seconds(self) -> float:
        """A step without waits."""
        own = self.compute * float(self.pace.max()) + self.gap * float(self.gaps.max())
        return own + self.copy_in + self.copy_out + self.host + self.exchange + self.update_seconds

    def run(self, seconds: float, rng: np.random.Generator) -> list[Trace]:
        """The loop for about so many seconds, one trace per rank."""
        steps = max(2, int(seconds / self.step_seconds) + 1)
        shape = (steps, self.ranks)
        spread = rng.lognormal(0.0, self.jitter, (*shape, 2))
        compute = self.compute * self.pace * spread[..., 0]
        gap = np.broadcast_to(self.gap * self.gaps, shape) * spread[..., 1]
        copy_in = np.full(shape, self.copy_in)
        ready = copy_in + compute + gap
        spin = ready.max(axis=1, keepdims=True) - ready
        after = (self.exchange + self.update_seconds + self.copy_out + self.host) * rng.lognormal(
            0.0, self.jitter, (steps, 1)
        )
        length = (ready + spin + after)[:, 0]
        wait = self._input_waits(length, rng)
        saved, written = self._saves(length + wait, rng)
        checked = self._validations(length + wait, rng)
        scale = after / max(self.exchange + self.update_seconds + self.copy_out + self.host, 1e-9)

        def common(values: Floats | float) -> Floats:
            return np.broadcast_to(np.asarray(values).reshape(-1, 1), shape)

        phases = [
            (common(wait), NOTHING),
            (copy_in, self._copy(receive=True)),
            (compute, self.work),
            (gap, NOTHING),
            (spin, self.waiting),
            (common(self.exchange) * scale, self.moving),
            (common(self.update_seconds) * scale, self.update),
            (common(self.copy_out) * scale, self._copy(receive=False)),
            (common(self.host) * scale, NOTHING),
            (common(saved), Work(dram=0.02, transmit=self.saving.copy_rate if self.saving else 0.0)),
            (common(written), NOTHING),
            (common(checked), Work(**{name: getattr(self.work, name) * 0.8 for name in SIGNALS})),
        ]
        palette = np.array([work.row() for _, work in phases])
        seconds_of = np.stack([values for values, _ in phases], axis=-1)  # steps × ranks × phases
        kinds = np.tile(np.arange(len(phases)), steps)
        done = seconds_of.sum(axis=-1).cumsum(axis=0) > seconds
        last = int(np.argmax(done.any(axis=1))) + 1 if done.any() else steps
        return [
            Trace(seconds_of[:last, rank].ravel(), kinds[: last * len(phases)], palette) for rank in range(self.ranks)
        ]

    def _copy(self, *, receive: bool) -> Work:
        return Work(dram=0.02, receive=self.copy_rate) if receive else Work(dram=0.02, transmit=self.copy_rate)

    def _input_waits(self, length: Floats, rng: np.random.Generator) -> Floats:
        """How long each step waits for its input, all ranks alike."""
        waits = np.zeros(len(length))
        if self.fetch is not None:
            batch = np.floor(np.cumsum(length) / self.fetch.lasts).astype(np.int64)
            first = np.flatnonzero(np.diff(batch, prepend=-1))
            fed = np.diff(np.append(np.cumsum(length)[first], length.sum()))
            takes = self.fetch.seconds * rng.lognormal(0.0, self.fetch.jitter, len(first))
            waits[first[1:]] = np.maximum(takes[:-1] - fed[:-1], 0.0)
        if self.hiccups is not None:
            between, lasts = self.hiccups
            hit = rng.random(len(length)) < length / between
            waits += hit * rng.exponential(lasts, len(length))
        return waits

    def _saves(self, length: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        copied, written = np.zeros(len(length)), np.zeros(len(length))
        if self.saving is not None:
            at = np.flatnonzero(np.diff(np.floor(np.cumsum(length) / self.saving.every), prepend=0.0))
            spread = rng.lognormal(0.0, self.saving.jitter, len(at))
            copied[at], written[at] = self.saving.copy_seconds, self.saving.write_seconds * spread
        return copied, written

    def _validations(self, length: Floats, rng: np.random.Generator) -> Floats:
        checked = np.zeros(len(length))
        if self.validate is not None:
            every, lasts = self.validate
            at = np.flatnonzero(np.diff(np.floor(np.cumsum(length) / every), prepend=0.0))
            checked[at] = lasts * rng.lognormal(0.0, 0.05, len(at))
        return checked
