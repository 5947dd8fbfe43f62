"""Reserved, on demand, overflow, spot: one tenant's GPUs instant by instant. Times are small numbers."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Final

import pytest

from pipelines.classes import Outage, Reserved, Segment, classify

H100, A100 = "NVIDIA H100", "NVIDIA A100"
WITHIN: Final = (0, 10)


def segment(
    name: str,
    gpus: int | Fraction = 1,
    span: tuple[int, int] = WITHIN,
    *,
    started: int | None = None,
    model: str = H100,
    given: str | None = None,
    spot: bool = False,
) -> Segment:
    order = (span[0] if started is None else started, name, f"GPU-{name}/")
    return Segment(order, *span, Fraction(gpus), model, given, spot)


def reserved(gpus: int, span: tuple[int, int] = WITHIN, model: str = "*", name: str = "r") -> Reserved:
    return Reserved(name, model, gpus, *span)


def told(
    segments: list[Segment], reservations: list[Reserved], quota: int | None = None, outages: list[Outage] | None = None
) -> dict[str, dict[str, Fraction]]:
    """GPU-time by workload and class."""
    pieces, _ = classify(segments, reservations, outages or [], quota=quota, cuts=(), within=WITHIN)
    found: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for piece in pieces:
        found[segments[piece.segment].order[1]][piece.class_] += piece.gpus * (piece.end - piece.start)
    return {name: dict(by_class) for name, by_class in found.items()}


CASES: Final = {
    "without quota and reservation all is on demand": ([segment("a", 3)], [], None, {"a": {"on_demand": 30}}),
    "the earlier start goes first": (
        [segment("z", started=-5), segment("a")], [reserved(1)], None,
        {"z": {"reserved": 10}, "a": {"overflow": 10}},
    ),
    "at one start the name decides": (
        [segment("b"), segment("a")], [reserved(1)], None, {"a": {"reserved": 10}, "b": {"overflow": 10}},
    ),
    "a later lease never takes a reservation from an earlier one": (
        [segment("a", span=(0, 10)), segment("b", span=(5, 10))], [reserved(1)], None,
        {"a": {"reserved": 10}, "b": {"overflow": 5}},
    ),
    "what an ended lease frees is taken from that instant on": (
        [segment("a", span=(0, 5)), segment("b", span=(0, 10))], [reserved(1)], None,
        {"a": {"reserved": 5}, "b": {"overflow": 5, "reserved": 5}},
    ),
    "a lease may straddle": ([segment("a", 3)], [reserved(2)], None, {"a": {"reserved": 20, "overflow": 10}}),
    "a share of a GPU takes a share of a reservation": (
        [segment("a", Fraction(1, 2)), segment("b", Fraction(3, 4))], [reserved(1)], None,
        {"a": {"reserved": 5}, "b": {"reserved": 5, "overflow": Fraction(5, 2)}},
    ),
    "reservations are taken in file order": (
        [segment("a", 2)], [reserved(1, (0, 4), name="first"), reserved(1, name="second")], None,
        {"a": {"reserved": 14, "overflow": 6}},
    ),
    "a model that no active reservation takes is on demand": (
        [segment("a", model=A100), segment("b")], [reserved(1, model="*h100*")], None,
        {"a": {"on_demand": 10}, "b": {"reserved": 10}},
    ),
    "before a reservation begins its leases are on demand": (
        [segment("a", 2)], [reserved(1, (5, 10))], None, {"a": {"on_demand": 10, "reserved": 5, "overflow": 5}},
    ),
    "a quota counts what is reserved": (
        [segment("a", 4)], [reserved(2)], 3, {"a": {"reserved": 20, "on_demand": 10, "overflow": 10}},
    ),
    "a quota beneath the reservation leaves only overflow": (
        [segment("a", 4)], [reserved(2)], 1, {"a": {"reserved": 20, "overflow": 20}},
    ),
    "with a quota what exceeds a reservation but fits is on demand": (
        [segment("a", 3)], [reserved(1)], 5, {"a": {"reserved": 10, "on_demand": 20}},
    ),
    "a quota of none is overflow alone": ([segment("a", 2)], [], 0, {"a": {"overflow": 20}}),
    "spot uses neither": (
        [segment("a", 2, spot=True), segment("b", 1)], [reserved(1)], 1, {"a": {"spot": 20}, "b": {"reserved": 10}},
    ),
    "a given class beats spot, quota and reservation": (
        [segment("a", given="on_demand", spot=True), segment("b", given="overflow"), segment("c", given="spot")],
        [reserved(3)], 9, {"a": {"on_demand": 10}, "b": {"overflow": 10}, "c": {"spot": 10}},
    ),
    "what a source calls reserved goes before what is computed": (
        [segment("a"), segment("b", started=5, given="reserved")], [reserved(1)], None,
        {"b": {"reserved": 10}, "a": {"overflow": 10}},
    ),
    "what a source calls reserved is reserved beyond any reservation": (
        [segment("a", 3, given="reserved")], [reserved(1)], None, {"a": {"reserved": 30}},
    ),
    "given on demand uses up the quota": (
        [segment("a", 2, given="on_demand"), segment("b", 2)], [], 3,
        {"a": {"on_demand": 20}, "b": {"on_demand": 10, "overflow": 10}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("segments", "reservations", "quota", "expected"), CASES.values(), ids=CASES)
def test_a_tenants_gpus_are_classed_instant_by_instant(
    segments: list[Segment], reservations: list[Reserved], quota: int | None, expected: dict[str, dict[str, int]]
) -> None:
    assert told(segments, reservations, quota) == expected


@pytest.mark.parametrize(
    ("used", "outages", "unused", "down"),
    [
        pytest.param(1, [], 30, 0, id="no outage"),
        pytest.param(1, [Outage(0, 5, Fraction(2), None)], 20, 10, id="for a while"),
        pytest.param(3, [Outage(0, 10, Fraction(2), H100)], 0, 10, id="never more than is unused"),
        pytest.param(4, [Outage(0, 10, Fraction(2), H100)], 0, 0, id="nothing is unused"),
        pytest.param(1, [Outage(0, 10, Fraction(1), A100)], 30, 0, id="of another model"),
        pytest.param(1, [Outage(0, 10, Fraction(1), H100), Outage(0, 10, Fraction(1), H100)], 10, 20, id="two"),
    ],
)
def test_a_reservation_is_used_unused_or_down(used: int, outages: list[Outage], unused: int, down: int) -> None:
    _, stretches = classify(
        [segment("a", used)], [reserved(4, model="*H100*")], outages, quota=None, cuts=(), within=WITHIN
    )
    lasts = [(s, s.end - s.start) for s in stretches]
    assert sum(s.down * n for s, n in lasts) == down
    assert sum((s.gpus - s.used - s.down) * n for s, n in lasts) == unused
    assert sum(s.gpus * n for s, n in lasts) == 40


def test_an_outage_is_credited_once_over_all_reservations() -> None:
    both = [reserved(1, name="one"), reserved(3, name="two")]
    _, stretches = classify([], both, [Outage(0, 10, Fraction(2), None)], quota=None, cuts=(), within=WITHIN)
    assert {s.reservation: s.down for s in stretches} == {"one": 1, "two": 1}


def test_a_reservation_counts_within_the_period_alone_and_is_cut_where_rates_change() -> None:
    _, stretches = classify([], [reserved(1, (-50, 50))], [], quota=None, cuts=(4, 99), within=WITHIN)
    assert [(s.start, s.end) for s in stretches] == [(0, 4), (4, 10)]
