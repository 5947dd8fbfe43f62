"""How long segments of devices lie in spans of the same devices, and sums over that.

There are two ways with the same result, to the last bit: `overlap_jit` compiles the obvious loops with numba (the extra
`fast`); without it NumPy does the same in arrays.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Pieces = tuple[Ints, Ints, Floats]
"""Of each piece of a segment that lies in a span: the segment, the span, and for how long (ms)."""

_KEY_SHIFT: Final = 44  # room for 500 years of ms below a device's number
_KEY_OFFSET: Final = 1 << 43
_WORTH: Final = 50_000  # segments; below it loading numba takes longer than it spares


class Way(Protocol):
    """How pieces are made and summed."""

    def cut(self, starts: Ints, ends: Ints, left: Ints, right: Ints) -> Pieces:
        """Return the pieces of the segments [left, right) in the spans [start, end), segment by segment.

        Args:
            starts, ends: rising; spans are disjoint.
        """

    def total(self, pieces: Pieces, values: npt.NDArray[np.generic], count: int) -> Floats:
        """Return per span the sum of its segments' value × ms, added in the order of the pieces."""


class InArrays:
    """By NumPy."""

    def cut(self, starts: Ints, ends: Ints, left: Ints, right: Ints) -> Pieces:
        """See `Way`."""
        first = np.searchsorted(ends, left, side="right")
        last = np.searchsorted(starts, right, side="left")
        pieces = np.maximum(last - first, 0)
        of = np.repeat(np.arange(len(left)), pieces)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        span = first[of] + nth
        # Whole numbers of ms, as floats: exact, and converted once.
        return of, span, (np.minimum(right[of], ends[span]) - np.maximum(left[of], starts[span])).astype(float)

    def total(self, pieces: Pieces, values: npt.NDArray[np.generic], count: int) -> Floats:
        """See `Way`."""
        of, span, ms = pieces
        weights = values[of].astype(np.float64) * ms
        return np.bincount(span, weights=weights, minlength=count).astype(np.float64)


@cache
def fastest_way() -> Way:
    """The compiled loops where numba is installed, else NumPy."""
    try:
        from pipelines.overlap_jit import InLoops  # noqa: PLC0415 - numba takes half a second to load
    except ImportError:
        return InArrays()
    return InLoops()


class Overlap:
    """How long each segment of a device lies in each of its spans.

    Args:
        spans: ``dev``, ``start``, ``end``, sorted; disjoint within a device.
        segments: the same columns, in any order; they may overlap.
        way: None: the fastest that is there.
    """

    def __init__(self, spans: pl.DataFrame, segments: pl.DataFrame, *, way: Way | None = None) -> None:
        self._way = way or (fastest_way() if segments.height >= _WORTH else InArrays())
        self._count = spans.height
        starts, ends = _keys(spans["dev"], spans["start"]), _keys(spans["dev"], spans["end"])
        left, right = _keys(segments["dev"], segments["start"]), _keys(segments["dev"], segments["end"])
        self._pieces = self._way.cut(starts, ends, left, right)
        self._lasting: Floats | None = None

    def any(self) -> Flags:
        """Return which spans have a segment."""
        touched = np.zeros(self._count, np.bool_)
        touched[self._pieces[1]] = True
        return touched

    def lasting(self, which: pl.Series) -> Floats:
        """Return per span for how many ms a value is there; exact below 2^53."""
        if which.null_count():
            return self._way.total(self._pieces, which.is_not_null().to_numpy(), self._count)
        if self._lasting is None:
            _, span, ms = self._pieces
            self._lasting = np.bincount(span, weights=ms, minlength=self._count).astype(np.float64)
        return self._lasting

    def sum(self, values: pl.Series) -> Floats:
        """Return per span the sum of value × ms, null being 0; whole numbers stay exact below 2^53 a span."""
        filled = values.fill_null(0) if values.null_count() else values
        return self._way.total(self._pieces, filled.to_numpy(), self._count)


def _keys(dev: pl.Series, t: pl.Series) -> Ints:
    keys: Ints = (dev.to_numpy().astype(np.int64) << _KEY_SHIFT) + t.to_numpy() + _KEY_OFFSET
    return keys
