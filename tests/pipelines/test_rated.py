"""Sums over many leases: exact, whatever their denominators and their order."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipelines.rated import Held, exact_sum, quotient

FRACTIONS = st.lists(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**9), max_size=40)


@given(FRACTIONS, st.randoms())
def test_a_sum_is_what_adding_one_after_the_other_gives(amounts: list[Fraction], random: object) -> None:
    shuffled = list(amounts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert exact_sum(amounts) == exact_sum(shuffled) == sum(amounts, Fraction(0))


def test_the_total_of_what_was_never_metered_is_unknown_energy() -> None:
    third = Fraction(1, 3)
    parts = [Held(allocated=third, leases=1), Held(allocated=third, seen=third, leases=1, observed_leases=1)]
    total = Held.total(parts)
    assert (total.allocated, total.seen, total.leases, total.observed_leases) == (2 * third, third, 2, 1)
    assert total.joules is None
    assert Held.total([*parts, Held(joules=1.5), Held(joules=2.0)]).joules == 3.5
    assert Held.total([]) == Held()


def test_a_quotient_is_the_float_nearest_to_the_exact_one() -> None:
    amount, by = Fraction(10**40 + 1, 3 * 10**20), Fraction(7 * 10**19, 11)
    assert quotient(amount, by) == float(amount / by)
    assert quotient(Fraction(1, 3), 3) == float(Fraction(1, 9))
    assert quotient(Fraction(0), 3_600_000) == 0.0
