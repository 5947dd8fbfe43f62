"""Work that comes when it comes: requests to a server, cells of a notebook, steps of an actor."""

from __future__ import annotations

import numpy as np

from pipelines.simulate.behaviours.trace import NOTHING, Trace, Work


def served(
    seconds: float, *, rate: float, service: float, work: Work, rng: np.random.Generator, day: float = 0.0
) -> Trace:
    """Requests that arrive at random, one at a time, on one GPU.

    Args:
        rate: per second, on average; below 1 ÷ service.
        service: mean seconds of one.
        day: how far the rate swings around its mean over the day, 0–1.
    """
    count = max(2, int(seconds * rate * 1.2) + 10)
    phase = rng.uniform(0, 2 * np.pi)
    pace = 1 + day * np.sin(2 * np.pi * np.arange(count) / (rate * 86_400) + phase)
    arrivals = np.cumsum(rng.exponential(1 / rate, count) / pace)
    takes = rng.gamma(4.0, service / 4.0, count)
    # Who comes while another is served waits: the end of each is max(arrival, end before) + takes (Lindley).
    ends = np.maximum.accumulate(arrivals - np.concatenate([[0.0], np.cumsum(takes)[:-1]])) + np.cumsum(takes)
    starts = ends - takes
    idle = starts - np.concatenate([[0.0], ends[:-1]])
    lengths = np.stack([np.maximum(idle, 0.0), takes], axis=1).ravel()
    return Trace(lengths, np.tile([0, 1], count), np.array([NOTHING.row(), work.row()]))


def by_turns(
    seconds: float, *, works: tuple[Work, ...], runs: tuple[float, float], pauses: float, rng: np.random.Generator
) -> Trace:
    """A person's experiments: each runs some time, then nothing runs while the person thinks.

    Args:
        runs: bounds of a run's seconds.
        pauses: mean seconds between runs.
    """
    phases: list[tuple[float, Work]] = []
    spent = 0.0
    while spent < seconds:
        pause, run = rng.exponential(pauses), rng.uniform(*runs)
        phases += [(pause, NOTHING), (run, works[int(rng.integers(len(works)))])]
        spent += pause + run
    return Trace.of(phases)


def blips(seconds: float, *, every: float, lasts: float, work: Work, rng: np.random.Generator) -> Trace:
    """A short kernel now and then: a health check, or a script that keeps a job from being ended for idleness."""
    count = max(1, int(seconds / every))
    lengths = np.stack([every * rng.uniform(0.9, 1.1, count) - lasts, np.full(count, lasts)], axis=1).ravel()
    return Trace(lengths, np.tile([0, 1], count), np.array([NOTHING.row(), work.row()]))
