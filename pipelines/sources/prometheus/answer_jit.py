"""What is asked of every sample, in one pass. Imported only where numba is installed; see `answer`."""

from __future__ import annotations

from pipelines.compiled import compiled
from pipelines.sources.prometheus.answer import Floats, Ints


@compiled
def all_inside(times: Ints, bits: Ints, start: int, end: int, marker: int) -> bool:
    """Whether all samples lie in the window and none is a marker; see `answer.Checks`."""
    for at in range(len(times)):  # noqa: SIM110 - numba compiles no generators
        if times[at] < start or times[at] >= end or bits[at] == marker:
            return False
    return True


@compiled
def all_rise(counts: Ints, times: Ints) -> bool:
    """Whether times rise within each series; see `answer.Checks`."""
    first = 0
    for series in range(len(counts)):
        last = first + counts[series]
        for at in range(first + 1, last):
            if times[at] <= times[at - 1]:
                return False
        first = last
    return True


@compiled
def any_nan(values: Floats) -> bool:
    """Whether a value is no number; see `answer.Checks`."""
    for at in range(len(values)):  # noqa: SIM110 - numba compiles no generators
        if values[at] != values[at]:
            return True
    return False
