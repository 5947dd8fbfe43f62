"""How long segments lie in spans: both ways to work it out, against the definition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.overlap import InArrays, Overlap, Way
from pipelines.overlap_jit import InLoops

WAYS = pytest.mark.parametrize("way", [InArrays(), InLoops()], ids=["arrays", "loops"])
Segment = tuple[int, int, int, int | None, float | None]

SEGMENTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 50),
        st.integers(0, 20),
        st.one_of(st.none(), st.integers(0, 10**9)),
        st.one_of(st.none(), st.floats(0, 1e12)),
    ).map(lambda s: (s[0], s[1], s[1] + s[2], s[3], s[4])),
    max_size=12,
)


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    found = []
    for dev in range(3):
        edges = sorted(draw(st.sets(st.integers(0, 60), max_size=6)))
        kept = draw(st.lists(st.booleans(), min_size=6, max_size=6))
        found += [
            (dev, start, end) for start, end, keep in zip(edges, edges[1:], kept, strict=False) if keep and start < end
        ]
    return found


def frames(of: Sequence[tuple[int, int, int]], segments: Sequence[Segment]) -> tuple[pl.DataFrame, pl.DataFrame]:
    key = {"dev": pl.Int32, "start": pl.Int64, "end": pl.Int64}
    return (
        pl.DataFrame(list(of), schema=key, orient="row"),
        pl.DataFrame(list(segments), schema={**key, "whole": pl.Int64, "part": pl.Float64}, orient="row"),
    )


@WAYS
@given(of=spans(), segments=SEGMENTS)
def test_a_span_has_what_its_devices_segments_measured_in_it(
    way: Way, of: list[tuple[int, int, int]], segments: list[Segment]
) -> None:
    cut, measured = frames(of, segments)
    overlap = Overlap(cut, measured, way=way)

    for at, (dev, start, end) in enumerate(of):
        mine = [(min(e, end) - max(s, start), whole, part) for d, s, e, whole, part in segments if d == dev]
        mine = [(ms, whole, part) for ms, whole, part in mine if ms > 0]
        assert overlap.lasting(measured["whole"])[at] == sum(ms for ms, whole, _ in mine if whole is not None)
        assert overlap.sum(measured["whole"])[at] == sum(ms * whole for ms, whole, _ in mine if whole is not None)
        total = 0.0
        for ms, _, part in mine:
            total += (part or 0.0) * ms
        assert overlap.sum(measured["part"])[at] == total
        assert overlap.any()[at] or not mine


@given(of=spans(), segments=SEGMENTS)
def test_both_ways_give_the_same_bits(of: list[tuple[int, int, int]], segments: list[Segment]) -> None:
    cut, measured = frames(of, segments)
    one, other = (Overlap(cut, measured, way=way) for way in (InArrays(), InLoops()))

    for column in ("whole", "part"):
        assert one.sum(measured[column]).tobytes() == other.sum(measured[column]).tobytes()
        assert one.lasting(measured[column]).tobytes() == other.lasting(measured[column]).tobytes()
    assert np.array_equal(one.any(), other.any())
