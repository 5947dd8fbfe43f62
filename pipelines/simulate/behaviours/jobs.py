"""Jobs of known causes, drawn from all families and sampled as an exporter would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.simulate.behaviours.boards import readings
from pipelines.simulate.behaviours.drawing import Drawn, Family, Setting
from pipelines.simulate.behaviours.light import LIGHT
from pipelines.simulate.behaviours.shapes import Floats
from pipelines.simulate.behaviours.steady import STEADY
from pipelines.simulate.behaviours.waiting import WAITING

FAMILIES: Final[tuple[Family, ...]] = (*STEADY, *WAITING, *LIGHT)

HOURS: Final = (3.0, 4.5)  # bounds of a job's length
INTERVALS: Final = (15.0, 30.0, 60.0)
UNSEEN_INTERVALS: Final = (10.0, 30.0, 60.0)
_LOST: Final = 0.05  # the most scrapes of a job that fail, one by one
_HOLES: Final = 0.2  # how often a job has a hole of some minutes in its samples


@dataclass(frozen=True)
class Job:
    """One job and what was sampled of it.

    Attributes:
        cause: what is the matter, by construction.
        unseen: of a family, cards and an interval kept apart from what thresholds were chosen with.
        ranks: per rank, seconds since the job began and the metrics then, by catalogue key.
    """

    number: int
    family: str
    cause: str
    unseen: bool
    model: str
    interval: float
    seconds: float
    ranks: list[tuple[Floats, dict[str, Floats]]]

    @property
    def name(self) -> str:
        """Its pod."""
        return f"job-{self.number:04d}"


def draw_jobs(count: int, *, seed: int, hours: tuple[float, float] = HOURS) -> Iterator[Job]:
    """Draw jobs, each family as often as the others.

    Args:
        hours: bounds of a job's length.
    """
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        rng = np.random.default_rng([seed, number])
        intervals = UNSEEN_INTERVALS if family.unseen else INTERVALS
        setting = Setting(
            card=family.cards[int(rng.integers(len(family.cards)))],
            seconds=float(rng.uniform(*hours)) * 3600,
            interval=float(rng.choice(intervals)),
            rng=rng,
        )
        yield _sampled(number, family, setting, family.draw(setting))


def _sampled(number: int, family: Family, setting: Setting, drawn: Drawn) -> Job:
    rng, interval = setting.rng, setting.interval
    ranks = []
    offset = rng.uniform(0, interval)
    lost = rng.uniform(0, _LOST)
    hole = rng.uniform(0, setting.seconds), rng.uniform(300, 1500) * (rng.random() < _HOLES)
    for rank, (trace, board) in enumerate(drawn.ranks):
        # The cards of a node are scraped together, nodes at moments of their own.
        if rank % 8 == 0:
            offset = rng.uniform(0, interval)
        times = np.arange(interval + offset, setting.seconds, interval)
        read = readings(trace, board, times, interval, rng)
        kept = (rng.random(len(times)) >= lost) & ((times < hole[0]) | (times >= sum(hole)))
        ranks.append((times[kept], {key: values[kept] for key, values in read.items()}))
    return Job(number, family.name, drawn.cause, family.unseen, setting.card.model, interval, setting.seconds, ranks)
