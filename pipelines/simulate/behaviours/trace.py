"""A rank's work as phases: exact integrals over any interval, however short the phases are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.behaviours.shapes import Floats

SIGNALS: Final = ("engine", "sm", "tensor", "dram", "fp64", "fp32", "receive", "transmit", "link")
"""Ratios 0–1; receive and transmit over PCIe and link (NVLink, each direction) in bytes/s."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a GPU does in one kind of phase; ratios are of its SMs' and memory's cycles in that phase."""

    engine: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    receive: float = 0.0
    transmit: float = 0.0
    link: float = 0.0

    def row(self) -> list[float]:
        """The values in the order of SIGNALS."""
        return [getattr(self, name) for name in SIGNALS]


NOTHING: Final = Work()


@dataclass(frozen=True)
class Trace:
    """Phases one after the other, from second 0.

    Attributes:
        seconds: how long each phase lasts; 0 is allowed.
        kind: which row of the palette it is.
        palette: kinds × SIGNALS.
    """

    seconds: Floats
    kind: NDArray[np.int64]
    palette: Floats

    @classmethod
    def of(cls, phases: Sequence[tuple[float, Work]]) -> Trace:
        """A trace of few phases."""
        return cls(
            np.array([seconds for seconds, _ in phases], dtype=np.float64),
            np.arange(len(phases)),
            np.array([work.row() for _, work in phases], dtype=np.float64).reshape(-1, len(SIGNALS)),
        )

    @property
    def length(self) -> float:
        """Seconds in all."""
        return float(self.seconds.sum())

    def then(self, other: Trace) -> Trace:
        """This, then another."""
        return Trace(
            np.concatenate([self.seconds, other.seconds]),
            np.concatenate([self.kind, other.kind + len(self.palette)]),
            np.concatenate([self.palette, other.palette]),
        )

    def means(self, starts: Floats, ends: Floats) -> dict[str, Floats]:
        """The mean of each signal over [start, end) of each row; after its last phase a GPU does nothing."""
        edges = np.concatenate([[0.0], np.cumsum(self.seconds)])
        found = {}
        for place, name in enumerate(SIGNALS):
            sums = np.concatenate([[0.0], np.cumsum(self.seconds * self.palette[self.kind, place])])
            found[name] = (np.interp(ends, edges, sums) - np.interp(starts, edges, sums)) / (ends - starts)
        return found
