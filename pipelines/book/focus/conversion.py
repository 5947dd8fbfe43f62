"""Rows of one account in its own currency: what it is billed adds up to its statement, to the cent.

Prices are the ledger's by the stamped rate, and costs at them are price × quantity again; the columns of the pricing
currency stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pipelines.book.focus.rows import Row
from pipelines.config import Exchange
from pipelines.money import apportion, round_money

PRICE_DIGITS: Final = Decimal(1).scaleb(-9)


def converted_total(total: Decimal, entry: Exchange) -> Decimal:
    """Return what an account owes, in its own currency."""
    return round_money(Fraction(total) * Fraction(entry.rate), entry.currency)


def in_own_currency(rows: Sequence[Row], total: Decimal, entry: Exchange) -> list[Row]:
    """Return an account's rows by a rate of exchange.

    Args:
        total: what the account owes in the ledger's currency.
    """
    rate = Fraction(entry.rate)
    billed = apportion(
        converted_total(total, entry), {i: Fraction(r["BilledCost"]) * rate for i, r in enumerate(rows)}, entry.currency
    )
    effective = {**billed, **_amortised(rows, billed, rate, entry.currency)}
    return [_row(row, billed[i], effective[i], entry) for i, row in enumerate(rows)]


def _amortised(rows: Sequence[Row], billed: Mapping[int, Decimal], rate: Fraction, currency: str) -> dict[int, Decimal]:
    """Return the effective costs of commitments: what was used of each, and what not, is what it is billed for."""
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if row.get("CommitmentDiscountId") and not row.get("ChargeClass"):
            groups.setdefault(row["CommitmentDiscountId"], []).append(i)
    found: dict[int, Decimal] = {}
    for members in groups.values():
        use = {i: Fraction(rows[i]["EffectiveCost"]) * rate for i in members if rows[i]["ChargeCategory"] == "Usage"}
        fee = sum((billed[i] for i in members), Decimal(0))
        found |= {i: round_money(0, currency) for i in members if i not in use}
        found |= apportion(fee, use, currency)
    return found


def _row(row: Row, billed: Decimal, effective: Decimal, entry: Exchange) -> Row:
    made = {**row, "BillingCurrency": entry.currency, "BilledCost": billed, "EffectiveCost": effective}
    for price, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        if row.get(price) is None:
            made[cost] = billed
        else:
            made[price] = (Decimal(row[price]) * entry.rate).quantize(PRICE_DIGITS).normalize() + Decimal(0)
            made[cost] = made[price] * Decimal(row["PricingQuantity"])
    return made
