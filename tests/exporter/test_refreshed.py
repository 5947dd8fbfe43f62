from __future__ import annotations

import threading

from exporter.refreshed import Refreshed
from tests.exporter.conftest import Clock


def test_a_value_is_read_again_once_it_is_old(clock: Clock) -> None:
    numbers = iter(range(10))
    value = Refreshed("x", lambda: next(numbers), -1, seconds=30, clock=clock)
    assert [value(), value()] == [0, 0]
    clock.now += 31
    assert value() == 1


def test_a_neighbour_that_fails_leaves_the_last_value(clock: Clock) -> None:
    answers: list[str | Exception] = ["a", OSError("down"), "b"]

    def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    value = Refreshed("x", read, "", seconds=30, clock=clock)
    assert value() == "a"
    clock.now += 31
    assert value() == "a"
    assert isinstance(value.error, OSError)
    clock.now += 31
    assert value() == "b"
    assert value.error is None


def test_a_neighbour_that_hangs_costs_no_more_than_patience(clock: Clock) -> None:
    gate = threading.Event()

    def read() -> str:
        gate.wait(10)
        return "late"

    value = Refreshed("x", read, "empty", seconds=30, clock=clock, patience_seconds=0.01)
    assert value() == "empty"
    clock.now += 31
    assert value() == "empty"  # asked again while the first reading still hangs: no second one is begun
    gate.set()
    value._worker.wait(5)
    assert value() == "late"
