"""What families of jobs have in common: a setting, a start-up, memory, and what a drawn job is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pipelines.simulate.behaviours.boards import Board
from pipelines.simulate.behaviours.published import MEMORY_USED, drawn
from pipelines.simulate.behaviours.shapes import Floats
from pipelines.simulate.behaviours.trace import NOTHING, Trace, Work
from pipelines.simulate.behaviours.work import small_kernels
from pipelines.simulate.cards import A100, H100, H200, L40S, Card

UNKNOWN: Final = "unknown"
CYCLES_SEEN: Final = 2.0
"""A cycle shorter than two sampling intervals can't be seen in its samples (Nyquist)."""


@dataclass(frozen=True)
class Setting:
    """Where a job runs and how it is watched.

    Attributes:
        seconds: how long it runs.
        interval: between scrapes.
    """

    card: Card
    seconds: float
    interval: float
    rng: np.random.Generator

    def between(self, low: float, high: float) -> float:
        """An even draw."""
        return float(self.rng.uniform(low, high))

    def spread(self, low: float, high: float) -> float:
        """A draw even in the logarithm."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def one_of(self, *values: int) -> int:
        """One of some numbers."""
        return int(self.rng.choice(values))

    def seen(self, low: float, high: float) -> float:
        """Seconds of a cycle that the interval shows, from so many intervals on."""
        return self.spread(max(low, CYCLES_SEEN * 1.15 * self.interval), max(high, CYCLES_SEEN * 2.5 * self.interval))


@dataclass(frozen=True)
class Drawn:
    """A job: one trace and board per rank, and what is the matter with it."""

    cause: str
    ranks: Sequence[tuple[Trace, Board]]


@dataclass(frozen=True)
class Family:
    """Jobs of one kind.

    Attributes:
        unseen: kept apart: no threshold was ever looked at with these.
        cards: that it runs on.
    """

    name: str
    draw: Callable[[Setting], Drawn]
    unseen: bool = False
    cards: tuple[Card, ...] = (H100, A100)


UNSEEN_CARDS: Final = (H100, A100, H200)
WITHOUT_NVLINK: Final = (L40S,)


def start_up(setting: Setting) -> Trace:
    """Imports, the model from disk to the card, the first slow steps."""
    s = setting
    return Trace.of(
        [
            (s.between(15, 90), NOTHING),
            (s.between(5, 30), Work(dram=0.02, receive=s.between(1.5e9, 6e9))),
            (s.between(5, 60), small_kernels(s.rng)),
        ]
    )


def filled(setting: Setting, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """Memory that fills up at the start and grows a little; bounds are shares of the card."""
    used = setting.between(low, high)
    return (0.0, 0.006), (40.0, used * 0.8), (150.0, used), (0.4 * setting.seconds, min(used * 1.02, 0.985))


def batch_sized(setting: Setting) -> tuple[tuple[float, float], ...]:
    """Memory of a training job, whose batch was chosen to fill the card: the upper half of Kalos."""
    used = max(0.56, drawn(MEMORY_USED["kalos"], setting.rng, 0.45, 0.98))
    return filled(setting, used * 0.98, used)


def started(setting: Setting, traces: Sequence[Trace]) -> list[Trace]:
    """Traces after a start-up that their ranks share."""
    first = start_up(setting)
    return [first.then(trace) for trace in traces]


def on(traces: Sequence[Trace], board: Board, rng: np.random.Generator) -> list[tuple[Trace, Board]]:
    """Each trace on a card of its own, in air that differs by a few degrees."""
    return [(trace, replace(board, inlet_celsius=board.inlet_celsius + rng.uniform(-2, 6))) for trace in traces]


def even(ranks: int, spread: float, rng: np.random.Generator) -> Floats:
    """Paces of ranks that differ as cards of one model do."""
    return np.asarray(1 + spread * np.abs(rng.standard_normal(ranks)))
