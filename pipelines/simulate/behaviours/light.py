"""Families of jobs that need little: nothing at all, a part of a card, or what can't be told."""

from __future__ import annotations

from typing import Final

from pipelines.simulate.behaviours.boards import Board
from pipelines.simulate.behaviours.drawing import (
    UNKNOWN,
    UNSEEN_CARDS,
    Drawn,
    Family,
    Setting,
    batch_sized,
    filled,
    on,
    start_up,
    started,
)
from pipelines.simulate.behaviours.requests import blips, by_turns, served
from pipelines.simulate.behaviours.steady import busy_loop
from pipelines.simulate.behaviours.trace import NOTHING, Trace, Work
from pipelines.simulate.behaviours.work import full_precision, mixed_precision, small_kernels, streaming
from pipelines.simulate.cards import T4


def _one(s: Setting, cause: str, trace: Trace, low: float, high: float, *, ranks: int = 1) -> Drawn:
    return Drawn(cause, on([trace] * ranks, Board(s.card, filled(s, low, high)), s.rng))


def _left_notebook(s: Setting) -> Drawn:
    """Some experiments, then long thinking, then nobody."""
    works = (mixed_precision(s.rng), small_kernels(s.rng), full_precision(s.rng))
    while True:
        trace = by_turns(s.seconds, works=works, runs=(30, 300), pauses=s.between(1800, 4500), rng=s.rng)
        worked = trace.means(s.rng.uniform(0, 1, 1) * 0, s.rng.uniform(1, 1, 1) * s.seconds)["engine"][0]
        if worked < 0.25:
            return _one(s, "idle", trace, 0.03, 0.4)


def _crashed(s: Setting) -> Drawn:
    """An exception after the start-up, and a process that sleeps on with the model in memory."""
    first = start_up(s).then(Trace.of([(s.between(60, 900), mixed_precision(s.rng))]))
    return _one(s, "idle", first.then(Trace.of([(s.seconds, NOTHING)])), 0.2, 0.9, ranks=s.one_of(1, 2, 4, 8))


def _never_used(s: Setting) -> Drawn:
    return _one(s, "idle", Trace.of([(s.seconds, NOTHING)]), 0.004, 0.006, ranks=s.one_of(1, 1, 2, 4))


def _most_unused(s: Setting) -> Drawn:
    """A script that uses one of the GPUs that it asked for."""
    ranks = s.one_of(4, 8)
    busy = busy_loop(s, mixed_precision(s.rng), ranks=1).run(s.seconds, s.rng)
    used = on(started(s, busy), Board(s.card, batch_sized(s)), s.rng)
    empty = on([Trace.of([(s.seconds, NOTHING)])] * (ranks - 1), Board(s.card, ((0.0, 0.005),)), s.rng)
    return Drawn("idle", [*used, *empty])


def _kept_alive(s: Setting) -> Drawn:
    """A script that runs a kernel now and then, so that the job isn't ended."""
    every = s.between(60, 240)
    trace = blips(s.seconds, every=every, lasts=every * s.between(0.005, 0.02), work=mixed_precision(s.rng), rng=s.rng)
    return _one(s, "idle", trace, 0.02, 0.3)


def _standby(s: Setting) -> Drawn:
    """A loaded model that only answers its own health checks."""
    trace = blips(
        s.seconds, every=s.between(10, 30), lasts=s.between(0.02, 0.1), work=mixed_precision(s.rng), rng=s.rng
    )
    return _one(s, "idle", start_up(s).then(trace), 0.3, 0.9, ranks=s.one_of(1, 2))


def _small_service(s: Setting) -> Drawn:
    service = s.spread(0.01, 0.08)
    work = Work(
        engine=1.0, sm=s.between(0.25, 0.6), tensor=s.between(0.02, 0.12), dram=s.between(0.15, 0.45), fp32=0.05
    )
    trace = served(s.seconds, rate=s.between(0.12, 0.6) / service, service=service, work=work, rng=s.rng, day=0.3)
    return _one(s, "overprovisioned", start_up(s).then(trace), 0.06, 0.46)


def _small_model(s: Setting) -> Drawn:
    """A model of a few million parameters on a card for billions."""
    return _one(s, "overprovisioned", start_up(s).then(Trace.of([(s.seconds, small_kernels(s.rng))])), 0.04, 0.46)


def _actor(s: Setting) -> Drawn:
    """Reinforcement learning: the environment on the host, a small policy on the card, by turns of milliseconds."""
    work = Work(engine=1.0, sm=s.between(0.2, 0.5), tensor=s.between(0.0, 0.08), dram=s.between(0.05, 0.3), fp32=0.08)
    trace = served(s.seconds, rate=s.between(4, 9), service=s.between(0.02, 0.06), work=work, rng=s.rng)
    return _one(s, "overprovisioned", start_up(s).then(trace), 0.03, 0.42, ranks=s.one_of(1, 1, 2))


def _embedding_service(s: Setting) -> Drawn:
    service = s.spread(0.03, 0.2)
    work = Work(engine=1.0, sm=s.between(0.3, 0.65), tensor=s.between(0.05, 0.2), dram=s.between(0.2, 0.5), fp32=0.04)
    trace = served(s.seconds, rate=s.between(0.12, 0.35) / service, service=service, work=work, rng=s.rng, day=0.6)
    return _one(s, "overprovisioned", start_up(s).then(trace), 0.08, 0.46)


def _launches(s: Setting) -> Drawn:
    """Small kernels, and a card filled with data all the same."""
    trace = start_up(s).then(Trace.of([(s.seconds, small_kernels(s.rng))]))
    return _one(s, UNKNOWN, trace, 0.56, 0.95)


def _without_profiling(s: Setting) -> Drawn:
    """A card that shows GPU_UTIL and no more: that it is busy, and not with what."""
    work = full_precision(s.rng) if s.rng.random() < 0.5 else streaming(s.rng)
    board = Board(s.card, batch_sized(s), profiling=False)
    return Drawn(UNKNOWN, on(started(s, busy_loop(s, work, ranks=1).run(s.seconds, s.rng)), board, s.rng))


LIGHT: Final = (
    Family("left notebook", _left_notebook),
    Family("crashed", _crashed),
    Family("never used", _never_used),
    Family("most unused", _most_unused),
    Family("kept alive", _kept_alive, unseen=True, cards=UNSEEN_CARDS),
    Family("standby", _standby, unseen=True, cards=UNSEEN_CARDS),
    Family("small service", _small_service),
    Family("small model", _small_model),
    Family("actor", _actor, unseen=True, cards=UNSEEN_CARDS),
    Family("embedding service", _embedding_service, unseen=True, cards=UNSEEN_CARDS),
    Family("launch bound", _launches),
    Family("without profiling", _without_profiling, cards=(T4,)),
)
