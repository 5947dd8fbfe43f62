"""Families of jobs that wait: for input, for copies, for other cards, for storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pipelines.simulate.behaviours.boards import Board
from pipelines.simulate.behaviours.drawing import (
    UNKNOWN,
    UNSEEN_CARDS,
    WITHOUT_NVLINK,
    Drawn,
    Family,
    Setting,
    batch_sized,
    on,
    started,
)
from pipelines.simulate.behaviours.loop import Fetch, Loop, Saving
from pipelines.simulate.behaviours.pipeline import Pipeline
from pipelines.simulate.behaviours.steady import busy_loop
from pipelines.simulate.behaviours.work import (
    HOST_COPY_PAGEABLE,
    HOST_COPY_PINNED,
    collective,
    mixed_precision,
    waiting_in_collective,
)


def _job(s: Setting, cause: str, loop: Loop) -> Drawn:
    board = Board(s.card, batch_sized(s))
    return Drawn(cause, on(started(s, loop.run(s.seconds, s.rng)), board, s.rng))


def _starved(s: Setting, cause: str, cycle: float, fed: tuple[float, float], jitter: float, ranks: int) -> Drawn:
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    cycle = max(cycle, loop.step_seconds * 1.6)  # at least one step is fed by each fetch
    lasts = max(cycle * s.between(*fed), loop.step_seconds)
    return _job(s, cause, replace(loop, fetch=Fetch(cycle, lasts, jitter)))


def _shards(s: Setting) -> Drawn:
    """Shards that come more slowly than they are used up."""
    return _starved(s, "input", s.seen(60, 420), (0.25, 0.8), 0.15, s.one_of(1, 1, 2, 4, 8))


def _cold_epochs(s: Setting) -> Drawn:
    """Short epochs, each begun from a cold cache."""
    return _starved(s, "input", s.seen(150, 600), (0.4, 0.8), 0.08, s.one_of(1, 2, 4))


def _slow_augmentation(s: Setting) -> Drawn:
    """Too few loader workers: each step waits a little, faster than any sample shows."""
    return _starved(s, UNKNOWN, s.spread(0.6, 5.0), (0.25, 0.7), 0.2, s.one_of(1, 2, 4))


def _object_store(s: Setting) -> Drawn:
    """A store that stops answering now and then, for no period."""
    loop = busy_loop(s, mixed_precision(s.rng), ranks=s.one_of(1, 2, 4, 8))
    lasts = s.seen(45, 150)
    return _job(s, "input", replace(loop, hiccups=(lasts * s.between(0.8, 2.0), lasts)))


def _decoding_on_the_host(s: Setting) -> Drawn:
    """Video decoded on few cores: short waits in each step, on several ranks."""
    return _starved(s, UNKNOWN, s.spread(0.8, 4.0), (0.3, 0.55), 0.3, s.one_of(4, 8))


def _shuffled(s: Setting) -> Drawn:
    """A shuffle buffer that is refilled in one go, seldom."""
    return _starved(s, "input", s.seen(240, 720), (0.35, 0.78), 0.25, s.one_of(1, 2, 8))


def _copied(s: Setting, share: tuple[float, float], rates: tuple[float, float], *, back: float, ranks: int) -> Drawn:
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    part = s.between(*share)
    copies = loop.compute * part / (1 - part)
    loop = replace(loop, copy_in=copies * (1 - back), copy_out=copies * back, copy_rate=s.between(*rates))
    return _job(s, "host_copies", loop)


def _unpinned(s: Setting) -> Drawn:
    return _copied(s, (0.42, 0.75), HOST_COPY_PAGEABLE, back=s.between(0.0, 0.3), ranks=s.one_of(1, 1, 2, 4))


def _offloaded(s: Setting) -> Drawn:
    """Gradients to the host, the optimiser there, the parameters back."""
    loop = busy_loop(s, mixed_precision(s.rng), ranks=s.one_of(1, 2, 4))
    waits = loop.compute * s.between(1.4, 3.0)
    loop = replace(
        loop,
        copy_in=waits * 0.35,
        copy_out=waits * 0.35,
        host=waits * 0.3,
        copy_rate=s.between(*HOST_COPY_PINNED),
        update_seconds=0.0,
    )
    return _job(s, "host_copies", loop)


def _streamed_weights(s: Setting) -> Drawn:
    """A model larger than the card: each layer is copied in before it runs."""
    return _copied(s, (0.7, 0.9), HOST_COPY_PINNED, back=0.0, ranks=1)


def _written_back(s: Setting) -> Drawn:
    """Features of a whole data set, copied out as they are made."""
    return _copied(s, (0.45, 0.75), HOST_COPY_PINNED, back=s.between(0.7, 0.95), ranks=s.one_of(1, 2))


def _exchanging(
    s: Setting, share: tuple[float, float], rate: tuple[float, float], *, ranks: int, over_pcie: bool = False
) -> Drawn:
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    part = s.between(*share)
    waiting = waiting_in_collective(s.rng)
    peak = 1.0 if over_pcie else s.card.nvlink_bytes_per_second
    loop = replace(
        loop,
        waiting=waiting,
        moving=collective(waiting, peak * s.between(*rate), over_pcie=over_pcie),
        exchange=loop.compute * part / (1 - part),
    )
    return _job(s, "communication", loop)


def _not_overlapped(s: Setting) -> Drawn:
    return _exchanging(s, (0.33, 0.65), (0.35, 0.75), ranks=s.one_of(2, 4, 8))


def _sharded(s: Setting) -> Drawn:
    """Parameters gathered for each layer of small batches."""
    return _exchanging(s, (0.33, 0.6), (0.3, 0.6), ranks=s.one_of(4, 8))


def _between_nodes(s: Setting) -> Drawn:
    """All-reduce through the network cards, over PCIe both ways."""
    return _exchanging(s, (0.35, 0.68), (8e9, 2.2e10), ranks=s.one_of(8, 16), over_pcie=True)


def _experts(s: Setting) -> Drawn:
    """All-to-all of a mixture of experts."""
    return _exchanging(s, (0.33, 0.6), (0.22, 0.5), ranks=8)


def _without_nvlink(s: Setting) -> Drawn:
    return _exchanging(s, (0.35, 0.7), (6e9, 1.6e10), ranks=s.one_of(2, 4, 8), over_pcie=True)


def _slow_rank(s: Setting, *, pace: float, clock: float, ranks: int) -> Drawn:
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    slow = int(s.rng.integers(ranks))
    paces = loop.pace.copy()
    paces[slow] = pace
    drawn = _job(s, "straggler", replace(loop, pace=paces))
    placed = list(drawn.ranks)
    trace, board = placed[slow]
    placed[slow] = trace, replace(board, clock=clock)
    return replace(drawn, ranks=placed)


def _slow_card(s: Setting) -> Drawn:
    """Somebody left one card's clock locked low."""
    pace = s.between(1.2, 1.9)
    return _slow_rank(s, pace=pace, clock=1 / pace, ranks=s.one_of(4, 8))


def _slow_host(s: Setting) -> Drawn:
    """One rank's host is busy with something else, and launches kernels late."""
    ranks = s.one_of(4, 8)
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    gaps = np.ones(ranks)
    slow = int(s.rng.integers(ranks))
    gap = loop.compute * 0.04
    gaps[slow] = loop.compute * s.between(0.3, 0.9) / gap
    return _job(s, "straggler", replace(loop, gap=gap, gaps=gaps))


def _uneven_shards(s: Setting) -> Drawn:
    """One rank gets the long sequences."""
    return _slow_rank(s, pace=s.between(1.22, 1.8), clock=1.0, ranks=s.one_of(4, 8, 16))


def _bubbles(s: Setting, cause: str, step: float, *, stages: int, replicas: int, schedule: str) -> Drawn:
    micro = round(stages * s.between(0.8, 2.1))
    forward = step / (micro + stages - 1) / 3
    waiting = waiting_in_collective(s.rng)
    waiting = replace(waiting, sm=waiting.sm * 0.3)  # a receive takes a channel or two
    moving = collective(waiting, (s.card.nvlink_bytes_per_second or 2e10) * 0.4)
    pipeline = Pipeline(
        stages=stages,
        micro_batches=micro,
        forward=forward,
        backward=2 * forward,
        work=mixed_precision(s.rng),
        waiting=waiting,
        moving=moving,
        exchange=step * s.between(0.01, 0.04),
        replicas=replicas,
        schedule="1f1b" if schedule == "1f1b" else "gpipe",
    )
    board = Board(s.card, batch_sized(s))
    return Drawn(cause, on(started(s, pipeline.run(s.seconds, s.rng)), board, s.rng))


def _gpipe(s: Setting) -> Drawn:
    return _bubbles(s, "pipeline_bubble", s.seen(110, 420), stages=4, replicas=1, schedule="gpipe")


def _1f1b(s: Setting) -> Drawn:
    return _bubbles(s, "pipeline_bubble", s.seen(140, 480), stages=s.one_of(4, 8), replicas=1, schedule="1f1b")


def _replicated_pipeline(s: Setting) -> Drawn:
    return _bubbles(s, "pipeline_bubble", s.seen(140, 480), stages=4, replicas=2, schedule="gpipe")


def _long_pipeline(s: Setting) -> Drawn:
    return _bubbles(s, "pipeline_bubble", s.seen(200, 600), stages=8, replicas=1, schedule="gpipe")


def _short_steps(s: Setting) -> Drawn:
    """A pipeline whose steps take seconds: its bubbles are there, and no sample shows them."""
    return _bubbles(s, UNKNOWN, s.spread(2.0, 8.0), stages=s.one_of(4, 8), replicas=1, schedule="1f1b")


def _saving(s: Setting, *, every: tuple[float, float], write: tuple[float, float], rate: float, ranks: int) -> Drawn:
    loop = busy_loop(s, mixed_precision(s.rng), ranks=ranks)
    lasts = max(s.between(*write), 1.6 * s.interval)
    saving = Saving(max(s.between(*every), 4 * lasts), s.between(4, 20), rate, lasts)
    return _job(s, "checkpoint", replace(loop, saving=saving, validate=None))


def _synchronous(s: Setting) -> Drawn:
    return _saving(s, every=(600, 1500), write=(60, 200), rate=s.between(4e9, 1.5e10), ranks=s.one_of(1, 2, 4, 8))


def _slow_share(s: Setting) -> Drawn:
    """A network file system that takes minutes."""
    return _saving(s, every=(1200, 2400), write=(150, 420), rate=s.between(2e9, 8e9), ranks=s.one_of(2, 4, 8))


def _anxious(s: Setting) -> Drawn:
    """Every few minutes, for fear of preemption."""
    return _saving(s, every=(280, 700), write=(40, 100), rate=s.between(5e9, 2e10), ranks=s.one_of(1, 4, 8))


WAITING: Final = (
    Family("slow shards", _shards),
    Family("cold epochs", _cold_epochs),
    Family("slow augmentation (hidden)", _slow_augmentation),
    Family("object store", _object_store, unseen=True, cards=UNSEEN_CARDS),
    Family("shuffle buffer", _shuffled, unseen=True, cards=UNSEEN_CARDS),
    Family("decoding on the host (hidden)", _decoding_on_the_host, unseen=True, cards=UNSEEN_CARDS),
    Family("unpinned copies", _unpinned),
    Family("off-loaded optimiser", _offloaded),
    Family("streamed weights", _streamed_weights, unseen=True, cards=UNSEEN_CARDS),
    Family("written back", _written_back, unseen=True, cards=UNSEEN_CARDS),
    Family("all-reduce not overlapped", _not_overlapped),
    Family("sharded parameters", _sharded),
    Family("between nodes", _between_nodes),
    Family("experts", _experts, unseen=True, cards=UNSEEN_CARDS),
    Family("cards without NVLink", _without_nvlink, unseen=True, cards=WITHOUT_NVLINK),
    Family("slow card", _slow_card),
    Family("slow host", _slow_host),
    Family("uneven shards", _uneven_shards, unseen=True, cards=UNSEEN_CARDS),
    Family("GPipe", _gpipe),
    Family("1F1B", _1f1b),
    Family("replicated pipeline", _replicated_pipeline, unseen=True, cards=UNSEEN_CARDS),
    Family("long pipeline", _long_pipeline, unseen=True, cards=UNSEEN_CARDS),
    Family("short pipeline steps (hidden)", _short_steps, unseen=True, cards=UNSEEN_CARDS),
    Family("synchronous checkpoints", _synchronous),
    Family("slow share", _slow_share),
    Family("anxious checkpoints", _anxious, unseen=True, cards=UNSEEN_CARDS),
)
