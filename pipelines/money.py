"""The one place where money is rounded, split and written out.

Amounts are exact (`Fraction` or `Decimal`) until a line is made; floats never enter.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Final, TypeVar

from exporter.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    K = TypeVar("K", bound=SupportsRichComparison)
else:
    K = TypeVar("K")

# ISO 4217 list one, by digits of the minor unit. Codes without a minor unit (XAU, XDR, XXX, …) can't
# be billed in. ANG and BGN were withdrawn in 2025 and 2026; ledgers still reach back to them.
_CODES: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: (
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE "
        "CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL "
        "HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR "
        "MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK "
        "SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD "
        "XCD XCG YER ZAR ZMW ZWG"
    ),
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MANY_BITS: Final = 4096  # beyond it, numbers with one denominator are slower than fractions
MINOR_UNITS: Final[Mapping[str, int]] = {
    code: digits for digits, codes in sorted(_CODES.items()) for code in codes.split()
}
"""Digits of the minor unit by ISO 4217 code."""


def minor_unit(currency: str) -> int:
    """Digits after the point in ISO 4217's minor unit: 2 for USD, 0 for JPY, 3 for KWD.

    Raises:
        ConfigError: the code is not an active one of ISO 4217.
    """
    digits = MINOR_UNITS.get(currency)
    if digits is None:
        near = difflib.get_close_matches(currency.upper(), MINOR_UNITS, n=1)
        mend = f"did you mean {near[0]}?" if near else "write a code such as USD, EUR or JPY"
        raise ConfigError("currency", f"{currency!r} is no ISO 4217 currency code", mend)
    return digits


def round_money(amount: Fraction | Decimal | int, currency: str) -> Decimal:
    """Round to the currency's minor unit, half away from zero; zero has no sign."""
    digits = minor_unit(currency)
    numerator, denominator = amount.as_integer_ratio()
    numerator *= 10**digits
    units = (2 * abs(numerator) + denominator) // (2 * denominator)
    return _from_units(units if numerator >= 0 else -units, digits)


def largest_remainder(total: Decimal, weights: Mapping[K, Fraction], currency: str) -> dict[K, Decimal]:
    """Split `total` by `weights` into whole minor units that add up to it exactly.

    Each part is its exact share cut towards zero; the units left over go to the largest cut-off
    remainders, ties to the smaller key. A negative total gives the negated parts of the positive one.

    Args:
        total: a multiple of the minor unit.
        weights: not negative; a weight of zero gets zero.

    Raises:
        ValueError: no positive weight for a total other than zero, a negative weight, or a total finer
            than the minor unit.
    """
    digits = minor_unit(currency)
    scaled = Fraction(total) * 10**digits
    if scaled.denominator != 1:
        raise ValueError(f"{total} is finer than the minor unit of {currency}; round it first")
    if any(weight.numerator < 0 for weight in weights.values()):
        raise ValueError("a weight is negative; shares need weights of zero or more")
    if not any(weights.values()):
        if scaled:
            raise ValueError(f"nobody to share {total} {currency} among: all weights are zero")
        return {key: _from_units(0, digits) for key in weights}

    units, sign = abs(scaled.numerator), -1 if scaled < 0 else 1
    parts, remainders = _divided(units, weights)
    by_remainder = sorted(sorted(parts), key=lambda key: -remainders[key])
    for key in by_remainder[: units - sum(parts.values())]:
        parts[key] += 1
    return {key: _from_units(sign * part, digits) for key, part in parts.items()}


def _divided(units: int, weights: Mapping[K, Fraction]) -> tuple[dict[K, int], dict[K, int] | dict[K, Fraction]]:
    """Return each weight's whole units, and what is cut off them, all by one scale."""
    common = lcm(*{weight.denominator for weight in weights.values()})
    if common.bit_length() <= MANY_BITS:
        # Whole numbers of one denominator: the same parts, many times as fast.
        scaled = {key: w.numerator * (common // w.denominator) for key, w in weights.items()}
        total = sum(scaled.values())
        divided = {key: divmod(amount * units, total) for key, amount in scaled.items()}
        return {key: part for key, (part, _) in divided.items()}, {key: rest for key, (_, rest) in divided.items()}
    whole = sum(weights.values(), Fraction(0))
    exact = {key: units * Fraction(weight) / whole for key, weight in weights.items()}
    parts = {key: share.numerator // share.denominator for key, share in exact.items()}
    return parts, {key: exact[key] - parts[key] for key in exact}


def apportion(total: Decimal, exact: Mapping[K, Fraction], currency: str) -> dict[K, Decimal]:
    """Round amounts of either sign so that they add up to their rounded sum, or one near it, exactly.

    Each is cut to the unit below; the units left over go to the largest cut-off remainders, ties to the smaller key.
    With their own rounded sum for a total, each is less than one unit from its exact amount.

    Raises:
        ValueError: there are no amounts to make up a total other than zero, or it is finer than the minor unit.
    """
    digits = minor_unit(currency)
    scaled = {key: Fraction(amount) * 10**digits for key, amount in exact.items()}
    units = {key: amount.numerator // amount.denominator for key, amount in scaled.items()}
    missing = Fraction(total) * 10**digits - sum(units.values())
    if missing.denominator != 1:
        raise ValueError(f"{total} is finer than the minor unit of {currency}; round it first")
    if not units:
        if missing:
            raise ValueError(f"nothing makes up {total} {currency}")
        return {}
    each, rest = divmod(int(missing), len(units))
    by_remainder = sorted(sorted(exact), key=lambda key: units[key] - scaled[key])
    for n, key in enumerate(by_remainder):
        units[key] += each + (n < rest)
    return {key: _from_units(amount, digits) for key, amount in units.items()}


def format_money(amount: Fraction | Decimal | int, currency: str) -> str:
    """Money for people: ``USD 1,234.50``, ``JPY -1,235``."""
    return f"{currency} {round_money(amount, currency):,f}"


def plain(amount: Decimal) -> str:
    """Money for machines: ``1234.50``, without grouping, exponent or a sign on zero."""
    return format(amount or abs(amount), "f")


def _from_units(units: int, digits: int) -> Decimal:
    # Built from text: arithmetic would round to the context's precision.
    return Decimal(f"{units}e-{digits}")
