"""What is asked of all samples of an answer: the compiled checks and those of NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sources.prometheus import answer_jit
from pipelines.sources.prometheus.answer import IN_ARRAYS, STALE_MARKER, Checks

COMPILED = Checks(answer_jit.all_inside, answer_jit.all_rise, answer_jit.any_nan)
BOTH = pytest.mark.parametrize("checks", [IN_ARRAYS, COMPILED], ids=["arrays", "compiled"])
TIMES = st.lists(st.integers(0, 9), max_size=6)


@BOTH
@given(times=TIMES, stale=st.sets(st.integers(0, 5)))
def test_all_lie_inside_where_none_is_early_late_or_a_marker(checks: Checks, times: list[int], stale: set[int]) -> None:
    bits = np.array([STALE_MARKER if at in stale else 7 for at in range(len(times))], np.int64)
    expected = all(2 <= time < 8 for time in times) and not any(at in stale for at in range(len(times)))
    assert checks.all_inside(np.array(times, np.int64), bits, 2, 8, STALE_MARKER) == expected


@BOTH
@given(series=st.lists(TIMES, max_size=4))
def test_times_rise_within_each_series(checks: Checks, series: list[list[int]]) -> None:
    counts = np.array([len(times) for times in series], np.int64)
    flat = np.array([time for times in series for time in times], np.int64)
    expected = all(a < b for times in series for a, b in pairwise(times))
    assert checks.all_rise(counts, flat) == expected


@BOTH
@given(values=st.lists(st.floats(), max_size=6))
def test_what_is_no_number_is_found(checks: Checks, values: list[float]) -> None:
    assert checks.any_nan(np.array(values, np.float64)) == any(value != value for value in values)  # noqa: PLR0124
