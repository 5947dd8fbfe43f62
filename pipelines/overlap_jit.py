"""Pieces of segments as compiled loops. Imported only where numba is installed; see `overlap`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipelines.compiled import compiled
from pipelines.overlap import Floats, Ints, Pieces


class InLoops:
    """By loops over segments; see `overlap.Way`."""

    def cut(self, starts: Ints, ends: Ints, left: Ints, right: Ints) -> Pieces:
        """See `overlap.Way`."""
        count = _counted(starts, ends, left, right)
        of, span, ms = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.float64)
        _cut(starts, ends, left, right, of, span, ms)
        return of, span, ms

    def total(self, pieces: Pieces, values: npt.NDArray[np.generic], count: int) -> Floats:
        """See `overlap.Way`."""
        sums = np.zeros(count, np.float64)
        _add(*pieces, values, sums)
        return sums


@compiled
def _first(ends: Ints, left: int, before: int) -> int:
    """The first span that ends after a time; segments mostly follow one another, so it is near the one before."""
    at = before
    if at > 0 and ends[at - 1] > left:
        return int(np.searchsorted(ends, left, side="right"))
    while at < len(ends) and ends[at] <= left:
        at += 1
    return at


@compiled
def _counted(starts: Ints, ends: Ints, left: Ints, right: Ints) -> int:
    count, first = 0, 0
    for segment in range(len(left)):
        first = _first(ends, left[segment], first)
        at = first
        while at < len(starts) and starts[at] < right[segment]:
            count += 1
            at += 1
    return count


@compiled
def _cut(starts: Ints, ends: Ints, left: Ints, right: Ints, of: Ints, span: Ints, ms: Floats) -> None:
    filled, first = 0, 0
    for segment in range(len(left)):
        first = _first(ends, left[segment], first)
        at = first
        while at < len(starts) and starts[at] < right[segment]:
            of[filled], span[filled] = segment, at
            ms[filled] = min(right[segment], ends[at]) - max(left[segment], starts[at])
            filled += 1
            at += 1


@compiled
def _add(of: Ints, span: Ints, ms: Floats, values: npt.NDArray[np.generic], sums: Floats) -> None:
    for piece in range(len(of)):
        sums[span[piece]] += values[of[piece]] * ms[piece]
