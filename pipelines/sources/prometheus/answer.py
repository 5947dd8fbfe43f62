"""What one question for samples yields, whatever the protocol: series as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STALE_MARKER: Final = 0x7FF0000000000002
"""Bits of the NaN by which Prometheus says that a series has ended: no sample."""

_WORTH: Final = 50_000  # samples; below it NumPy is fast enough
SAMPLES_AT_ONCE: Final = 1_000_000
"""Of one metric in one window: beyond it a shorter window is asked for, so that memory doesn't follow the fleet."""


class Question(NamedTuple):
    """The samples of one metric in [start, end), in ms."""

    metric: str
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """Samples of several series, one series after the other.

    Args:
        labels: of each series, without its name.
        counts: samples of each series.
        times: ms of each sample, rising within a series.
        values: as exposed; a NaN is the one of NumPy, whatever its bits were.
    """

    labels: Sequence[Mapping[str, str]]
    counts: Ints
    times: Ints
    values: Floats

    @classmethod
    def of(cls, labels: Sequence[Mapping[str, str]], counts: Ints, times: Ints, values: Floats) -> Answer:
        """Build the answer from samples that may come in any order within a series, and repeatedly."""
        counts, times, values = _in_order(counts, times, values)
        if _checks(len(values)).any_nan(values):
            values = np.where(np.isnan(values), np.nan, values)
        return cls(labels, counts, times, values)


def cut(question: Question, counts: Ints, times: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
    """Keep what was asked for: samples in the window that are no staleness markers."""
    bits = values.view(np.int64)
    if _checks(len(times)).all_inside(times, bits, question.start, question.end, STALE_MARKER):
        return counts, times, values
    inside = (times >= question.start) & (times < question.end)
    return _kept(inside & (bits != STALE_MARKER), counts, times, values)


def some_series(answer: Answer, which: npt.NDArray[np.bool_]) -> Answer:
    """The answer without the other series."""
    samples = np.repeat(which, answer.counts)
    labels = [labels for labels, kept in zip(answer.labels, which, strict=True) if kept]
    return Answer(labels, answer.counts[which], answer.times[samples], answer.values[samples])


def summed(counts: Ints, parts: Sequence[int] | Ints) -> Ints:
    """Sums of consecutive counts, ``parts`` of them at a time."""
    before = np.concatenate([[0], np.cumsum(counts)])
    ends = np.cumsum(parts, dtype=np.int64)
    sums: Ints = before[ends] - before[ends - np.asarray(parts, np.int64)]
    return sums


def _kept(keep: npt.NDArray[np.bool_], counts: Ints, times: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
    if keep.all():
        return counts, times, values
    return summed(keep.astype(np.int64), counts), times[keep], values[keep]


def _in_order(counts: Ints, times: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
    """Sort the samples of each series by time, and drop exact repetitions: chunks of some servers overlap."""
    if _checks(len(times)).all_rise(counts, times):
        return counts, times, values
    series = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((values.view(np.int64), times, series))
    series, times, values = series[order], times[order], values[order]
    again = np.zeros(len(times), np.bool_)
    again[1:] = (
        (np.diff(series) == 0) & (np.diff(times) == 0) & (values.view(np.int64)[1:] == values.view(np.int64)[:-1])
    )
    return _kept(~again, counts, times, values)


class Checks(NamedTuple):
    """What is asked of all samples of an answer, most of which have nothing to be mended.

    Attributes:
        all_inside: of times, bits of values, start and end of a window and a marker: all lie in it, none is the marker.
        all_rise: of counts and times: these rise within each series.
        any_nan: of values: one is no number.
    """

    all_inside: Callable[[Ints, Ints, int, int, int], bool]
    all_rise: Callable[[Ints, Ints], bool]
    any_nan: Callable[[Floats], bool]


def _all_inside(times: Ints, bits: Ints, start: int, end: int, marker: int) -> bool:
    return bool(((times >= start) & (times < end) & (bits != marker)).all())


def _all_rise(counts: Ints, times: Ints) -> bool:
    rises = times[1:] > times[:-1]
    borders = np.cumsum(counts)[:-1] - 1
    rises[borders[(borders >= 0) & (borders < len(rises))]] = True
    return bool(rises.all())


def _any_nan(values: Floats) -> bool:
    return bool(np.isnan(values).any())


IN_ARRAYS: Final = Checks(_all_inside, _all_rise, _any_nan)


def _checks(samples: int) -> Checks:
    """Return the compiled checks where they are worth loading, else NumPy's."""
    return _fastest_checks() if samples >= _WORTH else IN_ARRAYS


@cache
def _fastest_checks() -> Checks:
    try:
        from pipelines.sources.prometheus import answer_jit  # noqa: PLC0415 - numba takes half a second to load
    except ImportError:
        return IN_ARRAYS
    return Checks(answer_jit.all_inside, answer_jit.all_rise, answer_jit.any_nan)
