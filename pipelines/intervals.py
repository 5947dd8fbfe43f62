"""Half-open intervals [start, end) in ms, as sorted disjoint lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals that touch or overlap."""
    result: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[0] < i[1]):
        if result and start <= result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        else:
            result.append((start, end))
    return result


def subtract(intervals: list[Interval], others: list[Interval]) -> list[Interval]:
    """Return what of `intervals` (sorted, disjoint) lies in none of `others` (sorted, disjoint)."""
    result: list[Interval] = []
    for start, end in intervals:
        at = start
        for cut_start, cut_end in others:
            if cut_end <= at:
                continue
            if cut_start >= end:
                break
            if cut_start > at:
                result.append((at, cut_start))
            at = max(at, cut_end)
        if at < end:
            result.append((at, end))
    return result


def insert(intervals: list[Interval], start: int, end: int) -> None:
    """Add [start, end) to sorted disjoint intervals, in place: what a union with one more gives, without a copy."""
    if start >= end:
        return
    first = bisect_left(intervals, (start, -(1 << 62)))
    if first and intervals[first - 1][1] >= start:
        first -= 1
    last = bisect_right(intervals, (end, 1 << 62))
    if first < last:
        start, end = min(start, intervals[first][0]), max(end, intervals[last - 1][1])
    intervals[first:last] = [(start, end)]


def cut(intervals: list[Interval], start: int, end: int) -> None:
    """Take [start, end) out of sorted disjoint intervals, in place."""
    if start >= end:
        return
    first = bisect_left(intervals, (start, -(1 << 62)))
    if first and intervals[first - 1][1] > start:
        first -= 1
    last = bisect_left(intervals, (end, -(1 << 62)))
    if first < last:
        left, right = (intervals[first][0], start), (end, intervals[last - 1][1])
        intervals[first:last] = [i for i in (left, right) if i[0] < i[1]]


def intersect(intervals: list[Interval], others: list[Interval]) -> list[Interval]:
    """Return what lies in both (each sorted and disjoint)."""
    result: list[Interval] = []
    i = j = 0
    while i < len(intervals) and j < len(others):
        start, end = max(intervals[i][0], others[j][0]), min(intervals[i][1], others[j][1])
        if start < end:
            result.append((start, end))
        if intervals[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return result


def covers_all(intervals: list[Interval], start: int, end: int) -> bool:
    """Return whether one of the (sorted, disjoint) intervals holds [start, end) whole."""
    at = bisect_right(intervals, (start, 1 << 62)) - 1
    return at >= 0 and intervals[at][1] >= end


def overlaps(intervals: list[Interval], start: int, end: int) -> bool:
    """Return whether any of the (sorted, disjoint) intervals meets [start, end)."""
    at = bisect_right(intervals, (start, 1 << 62)) - 1
    if at >= 0 and intervals[at][1] > start:
        return True
    return at + 1 < len(intervals) and intervals[at + 1][0] < end


def contains(intervals: list[Interval], t: int) -> bool:
    """Return whether `t` lies in one of the (sorted, disjoint) intervals."""
    at = bisect_right(intervals, (t, 1 << 62)) - 1
    return at >= 0 and intervals[at][1] > t
