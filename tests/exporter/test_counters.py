from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.counters import Unwrapper

SIZE = 1 << 32


@given(st.integers(0, SIZE - 1), st.lists(st.tuples(st.integers(0, SIZE - 1), st.floats(1e-3, 100)), min_size=1))
def test_a_counter_too_slow_for_two_wraps_is_followed_exactly(start: int, steps: list[tuple[int, float]]) -> None:
    counter, true, now = Unwrapper(), start, 0.0
    first = counter.feed(true % SIZE, now, bits=32)
    assert first is not None
    for increase, seconds in steps:
        true, now = true + increase, now + seconds
        total = counter.feed(true % SIZE, now, bits=32, fastest=0.999 * SIZE / seconds)
        assert total is not None
        assert total - first == true - start


@given(st.lists(st.integers(0, 2**40), min_size=1), st.floats(0.999, 1.001))
def test_a_known_rate_tells_how_often_a_counter_wrapped(increases: list[int], error: float) -> None:
    counter, true, now = Unwrapper(), 0, 0.0
    counter.feed(0, now, bits=32)
    for increase in increases:
        true, now = true + increase, now + 15
        assert counter.feed(true % SIZE, now, bits=32, rate=increase * error / 15) == true


def test_a_counter_that_may_have_wrapped_unseen_is_unknown_until_its_rate_is_known() -> None:
    counter = Unwrapper()
    assert counter.feed(100, 0, bits=32) == 100
    assert counter.feed(200, 15, bits=32) is None
    assert counter.feed(200, 15, bits=32, fastest=1e9) is None
    # 1 GB/s since the last reading that counted, 30 s ago: seven wraps.
    assert counter.feed(300, 30, bits=32, rate=1e9) == 300 + 7 * SIZE


def test_a_counter_may_go_on_after_a_hole_without_what_fell_into_it() -> None:
    counter = Unwrapper()
    counter.feed(100, 0, bits=32)
    assert counter.feed(200, 60, bits=32, fastest=1e9) is None
    counter.resume(200, 60)
    assert counter.feed(250, 61, bits=32, fastest=1e9) == 150


def test_a_32_bit_counter_in_a_64_bit_type_is_found_out_by_its_first_wrap() -> None:
    counter = Unwrapper(may_be_narrow=True)
    assert counter.feed(SIZE - 10, 0, bits=64) == SIZE - 10
    assert counter.feed(SIZE - 5, 1, bits=64) == SIZE - 5
    assert not counter.narrow
    assert counter.feed(3, 2, bits=64) is None
    assert counter.narrow
    assert counter.feed(3, 2, bits=64, rate=4.0) == SIZE + 3


def test_a_32_bit_counter_in_a_64_bit_type_is_found_out_by_its_rate() -> None:
    counter = Unwrapper(may_be_narrow=True)
    counter.feed(100, 0, bits=64)
    assert counter.feed(5000, 10, bits=64, rate=1e9) == 5000 + 2 * SIZE


def test_a_wide_counter_that_falls_was_reset() -> None:
    for counter in (Unwrapper(), Unwrapper(may_be_narrow=True)):
        totals = [counter.feed(raw, at, bits=64) for at, raw in enumerate((10**15, 10**15 + 5, 3, 10))]
        assert totals == [10**15, 10**15 + 5, 3, 10]
