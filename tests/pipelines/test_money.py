from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from pipelines.money import MINOR_UNITS, format_money, largest_remainder, minor_unit, plain, round_money

currencies = st.sampled_from(["USD", "JPY", "KWD", "CLF"])
amounts = st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**9)
weights = st.dictionaries(st.text(max_size=4), st.fractions(min_value=0, max_value=1000), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("currency", "digits"), [("USD", 2), ("EUR", 2), ("JPY", 0), ("KWD", 3), ("UYW", 4), ("XCG", 2)]
)
def test_a_currency_has_the_minor_unit_of_iso_4217(currency: str, digits: int) -> None:
    assert minor_unit(currency) == digits


def test_codes_are_three_capitals_and_stand_once() -> None:
    assert all(len(code) == 3 and code.isascii() and code.isupper() for code in MINOR_UNITS)
    assert len(MINOR_UNITS) == 167


@pytest.mark.parametrize("currency", ["XAU", "XXX", "usd", "", "DOLLAR", "US"])
def test_what_is_no_currency_is_refused(currency: str) -> None:
    with pytest.raises(ConfigError, match=f"{currency!r} is no ISO 4217 currency code; "):
        minor_unit(currency)


@pytest.mark.parametrize(
    ("amount", "currency", "rounded"),
    [
        (Fraction(1, 200), "USD", "0.01"),
        (Fraction(-1, 200), "USD", "-0.01"),
        (Fraction(1, 200) - Fraction(1, 10**30), "USD", "0.00"),
        (Decimal("2.675"), "USD", "2.68"),
        (Decimal("1.005"), "USD", "1.01"),
        (Fraction(5, 2), "JPY", "3"),
        (Fraction(-5, 2), "JPY", "-3"),
        (Decimal("0.0005"), "BHD", "0.001"),
        (7, "USD", "7.00"),
        (Decimal("-0.00"), "USD", "0.00"),
        (Fraction(-1, 1000), "USD", "0.00"),
        (Decimal("123456789012345678901234567890.125"), "USD", "123456789012345678901234567890.13"),
    ],
)
def test_money_is_rounded_half_away_from_zero(amount: Fraction | Decimal | int, currency: str, rounded: str) -> None:
    assert str(round_money(amount, currency)) == rounded


@given(amounts, currencies)
def test_rounding_moves_by_half_a_minor_unit_at_most_and_is_symmetric(amount: Fraction, currency: str) -> None:
    rounded = round_money(amount, currency)
    assert abs(Fraction(rounded) - amount) * 2 * 10 ** minor_unit(currency) <= 1
    assert rounded == -round_money(-amount, currency)
    assert rounded.as_tuple().exponent == -minor_unit(currency)
    assert rounded or not rounded.is_signed()
    assert round_money(rounded, currency) == rounded


@given(amounts, currencies)
def test_rounding_does_not_depend_on_the_decimal_context(amount: Fraction, currency: str) -> None:
    expected = round_money(amount, currency)
    with localcontext() as context:
        context.prec = 3
        assert str(round_money(amount, currency)) == str(expected)


def test_a_hundred_split_by_three_loses_no_cent() -> None:
    thirds = dict.fromkeys("cab", Fraction(1))
    assert largest_remainder(Decimal("100.00"), thirds, "USD") == {
        "a": Decimal("33.34"),
        "b": Decimal("33.33"),
        "c": Decimal("33.33"),
    }


def test_a_reversal_negates_the_same_parts() -> None:
    shares = {"a": Fraction(1), "b": Fraction(2), "c": Fraction(4), "d": Fraction(0)}
    forth = largest_remainder(Decimal("0.10"), shares, "USD")
    back = largest_remainder(Decimal("-0.10"), shares, "USD")
    assert back == {key: -part for key, part in forth.items()}
    assert str(back["d"]) == "0.00"


def test_the_larger_remainder_gets_the_last_unit() -> None:
    assert largest_remainder(Decimal(10), {"a": Fraction(14), "b": Fraction(16)}, "JPY") == {
        "a": Decimal(5),
        "b": Decimal(5),
    }
    assert largest_remainder(Decimal(1), {"a": Fraction(49), "b": Fraction(51)}, "JPY") == {
        "a": Decimal(0),
        "b": Decimal(1),
    }


def test_keys_may_be_tuples() -> None:
    parts = largest_remainder(Decimal("0.01"), {("b", "x"): Fraction(1), ("a", "y"): Fraction(1)}, "USD")
    assert parts == {("a", "y"): Decimal("0.01"), ("b", "x"): Decimal(0)}


@given(amounts, weights, currencies)
def test_parts_add_up_and_stay_within_a_minor_unit_of_their_share(
    amount: Fraction, shares: dict[str, Fraction], currency: str
) -> None:
    total = round_money(amount, currency)
    whole = sum(shares.values(), Fraction(0))
    if not whole:
        shares, whole = {**shares, "payer": Fraction(1)}, Fraction(1)
    parts = largest_remainder(total, shares, currency)
    unit = Fraction(1, 10 ** minor_unit(currency))
    assert sum(map(Fraction, parts.values())) == Fraction(total)
    assert list(parts) == list(shares)
    for key, part in parts.items():
        assert abs(Fraction(part) - Fraction(total) * shares[key] / whole) < unit
        assert part.as_tuple().exponent == -minor_unit(currency)
        assert part or not part.is_signed()
        if not shares[key]:
            assert part == 0


@given(amounts, weights, st.randoms(use_true_random=False))
def test_parts_do_not_depend_on_the_order_of_the_weights(
    amount: Fraction, shares: dict[str, Fraction], random: object
) -> None:
    total = round_money(amount, "USD")
    if not sum(shares.values()):
        return
    keys = list(shares)
    random.shuffle(keys)  # type: ignore[attr-defined]
    assert largest_remainder(total, {key: shares[key] for key in keys}, "USD") == largest_remainder(
        total, shares, "USD"
    )


@pytest.mark.parametrize(
    ("total", "shares", "message"),
    [
        ("1.00", {}, "nobody to share 1.00 USD among"),
        ("1.00", {"a": Fraction(0)}, "nobody to share 1.00 USD among"),
        ("1.00", {"a": Fraction(2), "b": Fraction(-1)}, "a weight is negative"),
        ("1.005", {"a": Fraction(1)}, "1.005 is finer than the minor unit of USD"),
    ],
)
def test_what_cannot_be_split_is_refused(total: str, shares: dict[str, Fraction], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        largest_remainder(Decimal(total), shares, "USD")


def test_nothing_is_split_into_nothing() -> None:
    assert largest_remainder(Decimal(0), {}, "USD") == {}
    assert largest_remainder(Decimal(0), {"a": Fraction(0)}, "USD") == {"a": Decimal("0.00")}


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("1234.5", "USD", "USD 1,234.50"),
        ("-1234567.891", "EUR", "EUR -1,234,567.89"),
        ("1234.5", "JPY", "JPY 1,235"),
        ("0", "KWD", "KWD 0.000"),
        ("-0.001", "USD", "USD 0.00"),
    ],
)
def test_money_for_people_is_grouped_and_names_its_currency(amount: str, currency: str, text: str) -> None:
    assert format_money(Decimal(amount), currency) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [("1234.50", "1234.50"), ("-0.00", "0.00"), ("1E+3", "1000"), ("-2.5", "-2.5"), ("0E-8", "0.00000000")],
)
def test_money_for_machines_is_plain(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text
