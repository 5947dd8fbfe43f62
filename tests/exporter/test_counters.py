from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.counters import Unwrapper

SIZE = 1 << 32


@given(st.lists(st.integers(0, SIZE - 1), min_size=1), st.integers(0, 2**40))
def test_increases_of_less_than_a_wrap_are_exact(increases: list[int], start: int) -> None:
    counter, true = Unwrapper(), start
    first = counter.feed(true % SIZE, bits=32)
    for increase in increases:
        true += increase
        assert counter.feed(true % SIZE, bits=32) - first == true - start


@given(st.lists(st.integers(0, 2**40), min_size=1), st.floats(0.999, 1.001))
def test_a_known_rate_tells_how_often_a_counter_wrapped(increases: list[int], error: float) -> None:
    counter, true = Unwrapper(), 0
    counter.feed(0, bits=32)
    for increase in increases:
        true += increase
        assert counter.feed(true % SIZE, bits=32, expected=increase * error) == true


def test_a_wide_counter_that_falls_was_reset() -> None:
    counter = Unwrapper()
    assert counter.feed(10**15, bits=64) == 10**15
    assert counter.feed(10**15 + 5, bits=64) == 10**15 + 5
    assert counter.feed(3, bits=64) == 3
    assert counter.feed(10, bits=64) == 10
