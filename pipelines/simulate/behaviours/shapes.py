"""What workloads do to a card, as means over one scrape interval: fast enough for months of a fleet.

Each behaviour is a function of the time since the run began.
They follow the programs (a starved loop waits for its loader, a straggler makes the others wait in the
collective), not the thresholds of any classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Instants of runs, one per row.

    Args:
        age: seconds since the run began.
        hour: local hour of the day, 0–24.
        character: four columns in [0, 1), the run's own.
        ranks: units of the run.
        lags: whether this rank is the straggler.
        noise: three columns of standard normal noise, new at each instant.
    """

    age: Floats
    hour: Floats
    character: Floats
    ranks: Floats
    lags: NDArray[np.bool_]
    noise: Floats

    def between(self, column: int, low: float, high: float) -> Floats:
        """A property of the run between two bounds."""
        return low + (high - low) * self.character[:, column]

    def wave(self, seconds: float, column: int) -> Floats:
        """A slow swing in [-1, 1] with the run's own phase."""
        return np.sin(2 * np.pi * (self.age / seconds + self.character[:, column]))


@dataclass(frozen=True, slots=True)
class Activity:
    """Use of the unit, each a part of what it can do at most: one row per instant."""

    engine: Floats
    sm: Floats
    tensor: Floats
    dram: Floats
    memory: Floats
    receive: Floats  # over PCIe
    transmit: Floats
    link: Floats  # NVLink, each direction
    clock: Floats  # of the clock it would have otherwise


Behaviour = Callable[[Moments], Activity]


def training(m: Moments) -> Activity:
    """A well-fed loop: load, then steps, with a checkpoint every half to one and a half hours."""
    return _loop(m, sm=m.between(0, 0.72, 0.9), tensor=m.between(1, 0.35, 0.62), dram=m.between(2, 0.38, 0.6))


def no_tensor(m: Moments) -> Activity:
    """FP32 throughout: the SMs work, the tensor cores don't."""
    return _loop(m, sm=m.between(0, 0.6, 0.85), tensor=m.between(1, 0.0, 0.008), dram=m.between(2, 0.25, 0.45))


def memory_bound(m: Moments) -> Activity:
    """Element-wise work and small batches: DRAM is busy, the SMs wait for it."""
    return _loop(m, sm=m.between(0, 0.28, 0.44), tensor=m.between(1, 0.04, 0.15), dram=m.between(2, 0.56, 0.8))


def communication(m: Moments) -> Activity:
    """Collectives in every step that nothing overlaps: their kernels hold SMs and move data over NVLink."""
    link = np.where(m.ranks > 1, m.between(3, 0.3, 0.6), 0.02)
    busy = _loop(m, sm=m.between(0, 0.68, 0.85), tensor=m.between(1, 0.05, 0.11), dram=m.between(2, 0.2, 0.35))
    return _with(busy, link=_ratio(link * (busy.sm > 0.3) * (1 + 0.1 * m.noise[:, 2])))


def data_starved(m: Moments) -> Activity:
    """The loader fills a buffer, the loop empties it and waits: a saw-tooth of four to twelve minutes."""
    period = 240 + 480 * m.character[:, 3]
    tooth = (m.age / period + m.character[:, 0]) % 1.0
    level = np.where(tooth < 0.35, 0.85 - 0.5 * tooth, 0.12 + 0.25 * tooth)
    busy = _loop(m, sm=0.8 * level, tensor=0.4 * level, dram=0.35 * level)
    return _with(busy, engine=_ratio(busy.engine * level * 1.05), link=busy.link * level)


def pcie_bound(m: Moments) -> Activity:
    """Batches are copied to the host and back in every step."""
    busy = _loop(m, sm=m.between(0, 0.1, 0.22), tensor=m.between(1, 0.01, 0.04), dram=m.between(2, 0.08, 0.18))
    copies = _ratio(m.between(3, 0.15, 0.4) * (1 + 0.1 * m.noise[:, 2]))
    return _with(busy, engine=_ratio(busy.engine * 0.45), receive=copies, transmit=_ratio(copies * 0.7))


def straggler(m: Moments) -> Activity:
    """One rank computes slowly; the others wait for it in the all-reduce, whose kernel spins on a few SMs."""
    busy = _loop(m, sm=m.between(0, 0.74, 0.88), tensor=m.between(1, 0.4, 0.55), dram=m.between(2, 0.4, 0.55))
    pace = m.between(3, 0.5, 0.65)  # what the slow rank still does of its peers' work
    waiting = _ratio(busy.sm * pace + 0.12 * (1 - pace))
    return _with(
        busy,
        sm=np.where(m.lags, busy.sm, waiting),
        tensor=busy.tensor * pace,
        dram=busy.dram * pace,
        clock=np.where(m.lags, pace, 1.0),
    )


def serving(m: Moments) -> Activity:
    """Requests follow the day; weights stay in memory."""
    day = 0.5 - 0.5 * np.cos(2 * np.pi * (m.hour - 4.0) / 24)
    load = _ratio((0.08 + m.between(0, 0.35, 0.75) * day) * (1 + 0.15 * m.noise[:, 0]))
    return Activity(
        engine=load,
        sm=_ratio(load * m.between(1, 0.45, 0.7)),
        tensor=_ratio(load * m.between(2, 0.1, 0.3)),
        dram=_ratio(load * m.between(3, 0.4, 0.8)),
        memory=m.between(0, 0.55, 0.9),
        receive=load * 0.01,
        transmit=load * 0.004,
        link=np.zeros_like(load),
        clock=np.ones_like(load),
    )


def notebook(m: Moments) -> Activity:
    """A person who thinks most of the time: a cell of some minutes runs now and then."""
    slot = np.floor(m.age / 900 + m.character[:, 1])
    drawn = (np.sin(slot * 12.9898 + m.character[:, 0] * 78.233) * 43758.5453) % 1.0
    running = (drawn < m.between(2, 0.1, 0.35)) & (m.age > 600)
    level = np.where(running, _ratio(m.between(3, 0.3, 0.8) * (1 + 0.2 * m.noise[:, 0])), 0.0)
    return Activity(
        engine=level,
        sm=_ratio(level * 0.6),
        tensor=_ratio(level * 0.15),
        dram=_ratio(level * 0.35),
        memory=np.where(m.age > 600, m.between(0, 0.05, 0.3), 0.006),
        receive=level * 0.01,
        transmit=level * 0.004,
        link=np.zeros_like(level),
        clock=np.ones_like(level),
    )


def idle_held(m: Moments) -> Activity:
    """Held and forgotten: a context, perhaps a model in memory, and no kernel."""
    nothing = np.zeros_like(m.age)
    memory = np.where(m.character[:, 0] < 0.5, 0.007, m.between(1, 0.1, 0.6))
    return Activity(nothing, nothing, nothing, nothing, memory, nothing, nothing, nothing, np.ones_like(m.age))


BEHAVIOURS: Final[dict[str, Behaviour]] = {
    "training": training,
    "no_tensor": no_tensor,
    "memory_bound": memory_bound,
    "communication": communication,
    "data_starved": data_starved,
    "pcie_bound": pcie_bound,
    "straggler": straggler,
    "serving": serving,
    "notebook": notebook,
    "idle_held": idle_held,
}


def _loop(m: Moments, *, sm: Floats, tensor: Floats, dram: Floats) -> Activity:
    """Steps of a training loop: start-up for three minutes, then even work with checkpoints."""
    loading = m.age < 180
    every = 1800 + 3600 * m.character[:, 1]
    saving = ((m.age % every) < 60) & (m.age > 600)
    pace = np.where(loading, 0.04, np.where(saving, 0.25, 1.0)) * (1 + 0.015 * m.wave(2220, 2) + 0.01 * m.wave(660, 3))
    engine = _ratio(pace * (0.96 + 0.012 * m.noise[:, 0]))
    scale = pace * (1 + 0.02 * m.noise[:, 1])
    tied = np.where(m.ranks > 1, 0.09, 0.0)
    return Activity(
        engine=engine,
        sm=_ratio(sm * scale),
        tensor=_ratio(tensor * scale * (1 + 0.01 * m.noise[:, 2])),
        dram=_ratio(dram * scale * (1 + 0.01 * m.noise[:, 0])),
        memory=np.where(loading, 0.02 + 0.3 * m.age / 180, m.between(3, 0.45, 0.93)),
        receive=np.where(loading, 0.12, 0.006) * np.abs(1 + 0.2 * m.noise[:, 1]),
        transmit=np.where(saving, 0.1, 0.002) * np.abs(1 + 0.2 * m.noise[:, 2]),
        link=_ratio(tied * scale),
        clock=np.ones_like(pace),
    )


def _with(activity: Activity, **changed: Floats) -> Activity:
    names = ("engine", "sm", "tensor", "dram", "memory", "receive", "transmit", "link", "clock")
    return Activity(**{name: changed.get(name, getattr(activity, name)) for name in names})


def _ratio(values: Floats) -> Floats:
    return np.clip(values, 0.0, 1.0)
