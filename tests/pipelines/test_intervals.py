"""Sorted disjoint intervals against plain sets of instants."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipelines.intervals import Interval, contains, covers_all, cut, insert, intersect, overlaps, subtract, union

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


def instants(intervals: list[Interval]) -> set[int]:
    return {t for start, end in intervals for t in range(start, end)}


@given(SPANS)
def test_a_union_is_sorted_disjoint_and_holds_the_same_instants(spans: list[Interval]) -> None:
    found = union(spans)
    assert instants(found) == instants(spans)
    assert all(start < end for start, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@given(SPANS, SPANS)
def test_difference_and_intersection_are_those_of_sets(one: list[Interval], other: list[Interval]) -> None:
    a, b = union(one), union(other)
    assert instants(subtract(a, b)) == instants(a) - instants(b)
    assert instants(intersect(a, b)) == instants(a) & instants(b)


@given(SPANS, st.integers(0, 30), st.integers(1, 10))
def test_questions_are_answered_as_for_sets(spans: list[Interval], start: int, length: int) -> None:
    found, asked = union(spans), set(range(start, start + length))
    assert contains(found, start) == (start in instants(found))
    assert overlaps(found, start, start + length) == bool(asked & instants(found))
    assert covers_all(found, start, start + length) == (asked <= instants(found))


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_one_more_and_one_less_in_place_are_what_union_and_difference_give(
    spans: list[Interval], start: int, end: int
) -> None:
    more, less = union(spans), union(spans)
    insert(more, start, end)
    cut(less, start, end)
    assert more == union([*spans, (start, end)])
    assert less == subtract(union(spans), union([(start, end)]))
