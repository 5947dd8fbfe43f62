"""Reservations against capacity and each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given as given_examples
from hypothesis import strategies as st

from pipelines.booking import Booking, Place, active_over, conflicts, given

START = datetime(2026, 10, 5, tzinfo=UTC)
DAY = timedelta(days=1)
N1 = Place("prod", "n1", "NVIDIA H100 80GB HBM3")
N2 = Place("prod", "n2", "NVIDIA H100 80GB HBM3")
A100 = Place("prod", "a1", "NVIDIA A100-SXM4-80GB")
CAPACITY = {N1: 8, N2: 8, A100: 8}


def book(name: str, gpus: int, model: str | None = "*H100*", *nodes: str, source: str = "configuration") -> Booking:
    return Booking(name, source, f"tenant-{name}", model, gpus, START, START + DAY, frozenset(nodes))


def refused(*bookings: Booking) -> list[str]:
    return [str(conflict) for conflict in conflicts(bookings, {(START, START + DAY): CAPACITY})]


def test_what_fits_is_not_refused() -> None:
    assert refused(book("a", 8), book("b", 8), book("c", 8, "*A100*")) == []


def test_a_double_booking_names_what_it_collides_with_and_what_is_there() -> None:
    (line,) = refused(book("a", 12), book("b", 8))
    assert line == (
        "b: 8 GPUs of *H100* from 2026-10-05T00:00Z to 2026-10-06T00:00Z don't fit beside a: 4 are there; "
        "take fewer, another time or another model"
    )


def test_who_came_first_moves_if_that_makes_room() -> None:
    # The first could have either model; the second needs the one that it took.
    assert refused(book("any", 16, "*"), book("picky", 8, "*A100*")) == []
    assert refused(book("any", 17, "*"), book("picky", 8, "*A100*")) != []


def test_a_reservation_of_nodes_takes_those() -> None:
    slurm = book("train", 8, None, "n1", source="slurm")
    assert refused(book("a", 8), slurm) == []
    assert refused(book("a", 9), slurm) != []
    assert refused(slurm, book("again", 1, None, "n1", source="slurm")) != []


def test_what_a_scheduler_sets_aside_keeps_the_promise_of_the_configuration() -> None:
    promise = book("r1", 16)
    aside = Booking("train", "slurm", promise.tenant, None, 8, START, START + DAY, frozenset({"n1"}))
    assert refused(promise, aside) == []
    assert [(b.id, b.gpus) for b in active_over([promise, aside], START, START + DAY)] == [("r1", 8), ("train", 8)]


def test_a_conflict_that_goes_on_is_one() -> None:
    stretches = {(START + n * DAY / 4, START + (n + 1) * DAY / 4): CAPACITY for n in range(4)}
    (conflict,) = conflicts([book("a", 40)], stretches)
    assert (conflict.start, conflict.end, conflict.missing) == (START, START + DAY, 24)


@given_examples(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["*", "*H100*", "*A100*"]), st.booleans()), max_size=5)
)
def test_no_card_is_given_twice_and_none_is_held_back(wanted: list[tuple[int, str, bool]]) -> None:
    bookings = [book(str(n), gpus, model, *(["n1"] if fixed else [])) for n, (gpus, model, fixed) in enumerate(wanted)]
    got = given(bookings, CAPACITY)
    for place, cards in CAPACITY.items():
        assert sum(theirs.get(place, 0) for theirs in got.values()) <= cards
    for booking, theirs in got.items():
        assert sum(theirs.values()) <= booking.gpus
        assert all(booking.takes(place) for place, count in theirs.items() if count)
        spare = sum(
            cards - sum(each.get(place, 0) for each in got.values())
            for place, cards in CAPACITY.items()
            if booking.takes(place)
        )
        assert sum(theirs.values()) == booking.gpus or spare == 0


@pytest.mark.parametrize(("source", "model", "takes"), [("slurm", "h100", True), ("configuration", "h100", False)])
def test_a_schedulers_model_is_a_name_and_the_configurations_a_glob(source: str, model: str, takes: bool) -> None:
    assert book("a", 1, model, source=source).takes(N1) is takes
