"""Families of jobs that keep the card at work: what limits them is the card itself, or how it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pipelines.simulate.behaviours import boards
from pipelines.simulate.behaviours.boards import Board, Slowing
from pipelines.simulate.behaviours.drawing import UNSEEN_CARDS, Drawn, Family, Setting, batch_sized, even, on, started
from pipelines.simulate.behaviours.loop import Fetch, Loop, Saving
from pipelines.simulate.behaviours.trace import Work
from pipelines.simulate.behaviours.work import (
    beside,
    collective,
    double_precision,
    full_precision,
    mixed_precision,
    streaming,
    waiting_in_collective,
)

_BESIDES: Final = 0.25  # how often a job has each small trouble beside its main one


def busy_loop(s: Setting, work: Work, *, ranks: int | None = None, exposed: float = 0.07, slower: float = 1.0) -> Loop:
    """A loop that is well fed: beside its computing little is exposed, but something always is, as in any real job.

    Args:
        exposed: the most of a step that communication takes where nothing hides it.
        slower: by how much clocks held down stretch its computing.
    """
    ranks = ranks or s.one_of(1, 1, 2, 4, 8)
    step = s.spread(0.3, 3.0)
    waiting = waiting_in_collective(s.rng)
    peak = s.card.nvlink_bytes_per_second
    moving = collective(waiting, (peak or 2e10) * s.between(0.3, 0.7), over_pcie=not peak)
    often = s.rng.random(6) < _BESIDES  # what else is a little wrong
    pace = even(ranks, 0.012, s.rng)
    pace[int(s.rng.integers(ranks))] *= s.between(1.03, 1.07) if often[0] and ranks > 1 else 1.0
    fetch = s.between(0.2, 4.0)
    return Loop(
        ranks=ranks,
        compute=step * slower,
        work=work,
        waiting=waiting,
        moving=moving,
        update=streaming(s.rng),
        update_seconds=step * s.between(0.01, 0.04),
        pace=pace,
        jitter=s.between(0.01, 0.08),
        gap=step * (s.between(0.03, 0.08) if often[1] else s.between(0.0, 0.03)),
        gaps=np.ones(1),
        copy_in=step * (s.between(0.01, 0.06) if often[2] else s.between(0.0, 0.01)),
        exchange=step * (s.between(exposed, 2 * exposed) if often[3] else s.between(0.01, exposed)) * (ranks > 1),
        fetch=Fetch(fetch + step, fetch + step - step * s.between(0.02, 0.08), 0.1) if often[4] else None,
        hiccups=(s.between(300, 1200), s.between(3, 12)) if often[5] else (s.between(900, 4000), s.between(1, 8)),
        saving=Saving(s.between(1500, 4500), s.between(2, 12), s.between(3e9, 1.5e10), s.between(1, 30)),
        validate=(s.between(1200, 5000), s.between(20, 120)) if s.rng.random() < 0.5 else None,
    )


def _job(s: Setting, cause: str, work: Work, *, ranks: int | None = None, board: Board | None = None) -> Drawn:
    loop = busy_loop(s, work, ranks=ranks)
    card = board or Board(s.card, batch_sized(s))
    return Drawn(cause, on(started(s, loop.run(s.seconds, s.rng)), card, s.rng))


def _training(s: Setting) -> Drawn:
    return _job(s, "compute", mixed_precision(s.rng))


def _tensor_parallel(s: Setting) -> Drawn:
    """Much traffic over NVLink, hidden behind the computing."""
    link = s.card.nvlink_bytes_per_second * s.between(0.08, 0.22)
    return _job(s, "compute", beside(mixed_precision(s.rng), link=link), ranks=s.one_of(4, 8))


def _solver(s: Setting) -> Drawn:
    return _job(s, "compute", double_precision(s.rng), ranks=s.one_of(1, 2, 4))


def _generation(s: Setting) -> Drawn:
    """A language model that writes one token at a time for many: every token reads all weights."""
    return _job(s, "memory_bandwidth", streaming(s.rng, tensor=s.between(0.02, 0.12)), ranks=s.one_of(1, 1, 2))


def _embeddings(s: Setting) -> Drawn:
    work = replace(streaming(s.rng), sm=s.between(0.4, 0.8), dram=s.between(0.54, 0.8))
    return _job(s, "memory_bandwidth", work)


def _stencil(s: Setting) -> Drawn:
    work = replace(streaming(s.rng), fp32=s.between(0.1, 0.25), sm=s.between(0.8, 0.98))
    return _job(s, "memory_bandwidth", work, ranks=s.one_of(1, 2, 4))


def _unfused(s: Setting) -> Drawn:
    """A diffusion model whose element-wise kernels were never fused."""
    work = replace(streaming(s.rng, tensor=s.between(0.05, 0.14)), dram=s.between(0.6, 0.8))
    return _job(s, "memory_bandwidth", work)


def _fp32_training(s: Setting) -> Drawn:
    return _job(s, "no_tensor_cores", full_precision(s.rng))


def _recurrent(s: Setting) -> Drawn:
    work = replace(full_precision(s.rng), sm=s.between(0.54, 0.75), fp32=s.between(0.2, 0.45))
    return _job(s, "no_tensor_cores", work, ranks=s.one_of(1, 1, 2))


def _fp32_gan(s: Setting) -> Drawn:
    work = replace(full_precision(s.rng), sm=s.between(0.62, 0.9), dram=s.between(0.25, 0.42))
    return _job(s, "no_tensor_cores", work, ranks=s.one_of(2, 4, 8))


def _capped(s: Setting) -> Drawn:
    """A site's limit below what the card could draw."""
    work = mixed_precision(s.rng)
    demand = s.card.idle_watts + (s.card.limit_watts - s.card.idle_watts) * boards.dynamic_part(work)
    limit = max(demand * s.between(0.45, 0.76), s.card.idle_watts * 2)
    clock = boards.clock_within(s.card, work, limit)
    board = Board(s.card, batch_sized(s), (Slowing(0, s.seconds, clock, boards.POWER_CAP),), limit)
    loop = busy_loop(s, work, slower=1 / clock)
    return Drawn("power", on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


def _at_its_limit(s: Setting) -> Drawn:
    """Dense GEMMs that ask for more than the card may draw at all."""
    work = replace(
        mixed_precision(s.rng), sm=s.between(0.88, 0.97), tensor=s.between(0.6, 0.85), dram=s.between(0.4, 0.6)
    )
    clock = min(boards.clock_within(s.card, work, s.card.limit_watts), 0.88)
    board = Board(s.card, batch_sized(s), (Slowing(0, s.seconds, clock, boards.POWER_CAP),))
    loop = busy_loop(s, work, slower=1 / clock)
    return Drawn("power", on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


def _braked(s: Setting) -> Drawn:
    """The rack asks its cards to brake, for some minutes at a time, through most of the job."""
    clock, slowings, at = s.between(0.4, 0.65), [], s.between(0, 300)
    while at < s.seconds:
        lasts = s.between(600, 2400)
        slowings.append(Slowing(at, at + lasts, clock, boards.POWER_BRAKE | boards.HW_SLOWDOWN))
        at += lasts + s.between(120, 500)
    board = Board(s.card, batch_sized(s), tuple(slowings))
    loop = busy_loop(s, mixed_precision(s.rng), slower=1 / clock)
    return Drawn("power", on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


def _hot(s: Setting) -> Drawn:
    reasons = boards.SW_THERMAL if s.rng.random() < 0.6 else boards.HW_THERMAL | boards.HW_SLOWDOWN
    clock = s.between(0.5, 0.85)
    board = Board(s.card, batch_sized(s), (Slowing(0, s.seconds, clock, reasons),), inlet_celsius=s.between(34, 42))
    loop = busy_loop(s, mixed_precision(s.rng), slower=1 / clock)
    return Drawn("thermal", on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


def _one_hot_card(s: Setting) -> Drawn:
    """A fan fails under one rank: all the others wait for it."""
    ranks = s.one_of(4, 8)
    clock = s.between(0.5, 0.75)
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    bad = int(s.rng.integers(ranks))
    pace = loop.pace.copy()
    pace[bad] = 1 / clock
    loop = replace(loop, pace=pace)
    board = Board(s.card, batch_sized(s))
    placed = on(started(s, loop.run(s.seconds, s.rng)), board, s.rng)
    trace, cool = placed[bad]
    placed[bad] = trace, replace(cool, slowings=(Slowing(0, s.seconds, clock, boards.SW_THERMAL),), inlet_celsius=44.0)
    return Drawn("thermal", placed)


def _overheating_later(s: Setting) -> Drawn:
    """The air gets hot after a while."""
    since = s.seconds * s.between(0.1, 0.25)
    clock = s.between(0.5, 0.8)
    reasons = boards.HW_THERMAL | boards.HW_SLOWDOWN
    board = Board(s.card, batch_sized(s), (Slowing(since, s.seconds, clock, reasons),), inlet_celsius=s.between(32, 40))
    loop = busy_loop(s, mixed_precision(s.rng), slower=1 / clock)
    return Drawn("thermal", on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


STEADY: Final = (
    Family("mixed-precision training", _training),
    Family("tensor-parallel training", _tensor_parallel, unseen=True, cards=UNSEEN_CARDS),
    Family("FP64 solver", _solver, unseen=True, cards=UNSEEN_CARDS),
    Family("token generation", _generation),
    Family("embeddings", _embeddings),
    Family("stencil", _stencil, unseen=True, cards=UNSEEN_CARDS),
    Family("unfused diffusion", _unfused, unseen=True, cards=UNSEEN_CARDS),
    Family("FP32 training", _fp32_training),
    Family("FP32 recurrent", _recurrent),
    Family("FP32 GAN", _fp32_gan, unseen=True, cards=UNSEEN_CARDS),
    Family("power capped", _capped),
    Family("at its power limit", _at_its_limit),
    Family("power brake", _braked, unseen=True, cards=UNSEEN_CARDS),
    Family("hot card", _hot),
    Family("one hot card", _one_hot_card, unseen=True, cards=UNSEEN_CARDS),
    Family("overheating later", _overheating_later, unseen=True, cards=UNSEEN_CARDS),
)
