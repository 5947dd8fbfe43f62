"""What is asked of every sample, in one pass. Imported only where numba is installed; see `answer`.

Nearly all answers are good: loops that never leave early are compiled to several samples an instruction.
"""

from __future__ import annotations

from pipelines.compiled import compiled
from pipelines.sources.prometheus.answer import Floats, Ints


@compiled
def all_inside(times: Ints, bits: Ints, start: int, end: int, marker: int) -> bool:
    """Whether all samples lie in the window and none is a marker; see `answer.Checks`."""
    outside = False
    for at in range(len(times)):
        outside |= times[at] < start or times[at] >= end or bits[at] == marker
    return not outside


@compiled
def all_rise(counts: Ints, times: Ints) -> bool:
    """Whether times rise within each series; see `answer.Checks`."""
    first, falls = 0, False
    for series in range(len(counts)):
        last = first + counts[series]
        for at in range(first + 1, last):
            falls |= times[at] <= times[at - 1]
        first = last
    return not falls


@compiled
def any_nan(values: Floats) -> bool:
    """Whether a value is no number; see `answer.Checks`."""
    found = False
    for at in range(len(values)):
        found |= values[at] != values[at]
    return found
