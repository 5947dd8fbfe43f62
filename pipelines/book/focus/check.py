"""What must hold of a FOCUS export, row by row and in sum.

Stricter than the public validator where that is blind: times without Z, ends before starts, costs that aren't price ×
quantity, unknown values of closed lists, custom columns without ``x_``, and money that isn't the statements'.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from pipelines.book.focus.columns import Column, columns

Text = Mapping[str, str]
"""A row as it is written: text by column; "" is null."""

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "ChargeCategory": frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"}),
    "ChargeClass": frozenset({"Correction"}),
    "ChargeFrequency": frozenset({"One-Time", "Recurring", "Usage-Based"}),
    "PricingCategory": frozenset({"Standard", "Dynamic", "Committed", "Other"}),
    "CommitmentDiscountCategory": frozenset({"Spend", "Usage"}),
    "CommitmentDiscountStatus": frozenset({"Used", "Unused"}),
    "CapacityReservationStatus": frozenset({"Used", "Unused"}),
    "BillingPeriodStatus": frozenset({"Open", "Closed"}),
    "InvoiceIssueStatus": frozenset({"Open", "Issued", "Voided"}),
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_TOGETHER: Final = (
    ("PricingQuantity", "PricingUnit"),
    ("ConsumedQuantity", "ConsumedUnit"),
    ("CommitmentDiscountQuantity", "CommitmentDiscountUnit"),
    ("CommitmentDiscountId", "CommitmentDiscountCategory"),
    ("CommitmentDiscountId", "CommitmentDiscountType"),
    ("CapacityReservationId", "CapacityReservationStatus"),
)


def check(
    rows: Sequence[Text],
    header: Sequence[str],
    *,
    version: str,
    dataset: str = "CostAndUsage",
    totals: Mapping[str, Decimal] | None = None,
) -> list[str]:
    """Return what is wrong, each with its row (the first after the header is 2) and column.

    Args:
        totals: what each tenant's statement comes to; what is billed must be it, to the cent.
    """
    wanted = columns(dataset, version)
    problems = list(_header(header, wanted))
    by_name = {column.name: column for column in wanted}
    for number, row in enumerate(rows, start=2):
        faults = [*_values(row, by_name)]
        if not faults and dataset == "CostAndUsage":
            faults += _charge(row)
        problems += [f"row {number}: {fault}" for fault in faults]
    if not problems and dataset != "BillingPeriod":
        problems += _sums(rows, totals)
    return problems


def _header(header: Sequence[str], wanted: Sequence[Column]) -> Iterator[str]:
    names = [column.name for column in wanted]
    for name in names:
        if name not in header:
            yield f"header: column {name} is missing"
    for name in header:
        if name not in names and not name.startswith("x_"):
            yield f"header: {name} is no column of FOCUS; a custom column begins with x_"
    if len(set(header)) != len(header):
        yield "header: a column stands twice"


def _values(row: Text, wanted: Mapping[str, Column]) -> Iterator[str]:
    for name, value in row.items():
        column = wanted.get(name, Column(name))
        if value == "":
            if not column.nullable:
                yield f"{name} is null"
            continue
        if value.casefold() in {"null", "none", "nan", "n/a"}:
            yield f"{name} is {value!r}: null is empty"
        elif column.kind == "time" and not _is_time(value):
            yield f"{name} is {value!r}: not a time in UTC with Z"
        elif column.kind == "decimal" and not _is_decimal(value):
            yield f"{name} is {value!r}: not a plain decimal"
        elif column.kind == "json" and not _is_object(value):
            yield f"{name} is {value!r}: not a JSON object"
        elif name in ALLOWED and value not in ALLOWED[name]:
            yield f"{name} is {value!r}: not one of {', '.join(sorted(ALLOWED[name]))}"
        elif name.endswith("Currency") and not _CURRENCY.fullmatch(value):
            yield f"{name} is {value!r}: not an ISO 4217 code"
        elif value != value.strip():
            yield f"{name} is {value!r}: with spaces around it"


def _is_time(value: str) -> bool:
    if not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_decimal(value: str) -> bool:
    try:
        return Decimal(value).is_finite() and "e" not in value.lower()
    except InvalidOperation:
        return False


def _is_object(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


def _charge(row: Text) -> Iterator[str]:
    """Compare the columns of one charge with each other."""
    for name in ("BillingPeriod", "ChargePeriod"):
        if row[f"{name}End"] <= row[f"{name}Start"]:
            yield f"{name}End {row[f'{name}End']} is not after its start"
    correction = row["ChargeClass"] == "Correction"
    inside = row["BillingPeriodStart"] <= row["ChargePeriodStart"] and row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
    if not inside and not correction and row["ChargeCategory"] in {"Usage", "Purchase"}:
        yield "the charge period is outside the billing period, and it is no correction"
    for one, other in _TOGETHER:
        if (row[one] == "") != (row[other] == ""):
            yield f"{one} and {other} go together"
    category = row["ChargeCategory"]
    if not correction and category in {"Usage", "Purchase"}:
        yield from _priced(row)
        if row["PricingCategory"] == "":
            yield f"{category} without PricingCategory"
    if not row["ChargeDescription"].isascii():
        yield f"ChargeDescription {row['ChargeDescription']!r} is not ASCII"
    if category == "Purchase" and row["ChargeFrequency"] == "Usage-Based":
        yield "Purchase is Usage-Based"
    if category == "Credit" and not correction and Decimal(row["BilledCost"]) > 0:
        yield f"Credit of {row['BilledCost']} is above 0"
    yield from _commitment(row, category)


def _priced(row: Text) -> Iterator[str]:
    for price, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        if row[price] == "" or row["PricingQuantity"] == "":
            yield f"{price} or PricingQuantity is null"
        elif Decimal(row[price]) * Decimal(row["PricingQuantity"]) != Decimal(row[cost]):
            yield f"{cost} {row[cost]} is not {row[price]} × {row['PricingQuantity']}"


def _commitment(row: Text, category: str) -> Iterator[str]:
    status = row["CommitmentDiscountStatus"]
    if category != "Usage" and status:
        yield f"{category} has CommitmentDiscountStatus {status}"
    if category == "Usage" and row["CommitmentDiscountId"] and not status:
        yield "usage of a commitment without CommitmentDiscountStatus"
    if status and Decimal(row["BilledCost"]) != 0:
        yield f"BilledCost of what is covered by a commitment is {row['BilledCost']}"
    if category == "Usage" and status != "Unused" and row["ConsumedQuantity"] == "" and row["ChargeClass"] == "":
        yield "Usage without ConsumedQuantity"
    if status == "Unused" and row["ConsumedQuantity"] != "":
        yield "what was not used has a ConsumedQuantity"


def _sums(rows: Sequence[Text], totals: Mapping[str, Decimal] | None) -> Iterator[str]:
    billed: dict[str, Decimal] = defaultdict(Decimal)
    bought: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    used: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        account = row["BillingAccountId"]
        billed[account] += Decimal(row["BilledCost"])
        if row.get("CommitmentDiscountId") and row["ChargeClass"] == "":
            key = (account, row["CommitmentDiscountId"])
            used[key] += Decimal(row["EffectiveCost"])
            bought[key] += Decimal(row["BilledCost"])
    for key in sorted(used):
        if used[key] != bought[key]:
            yield f"commitment {key[1]}: used and unused come to {used[key]}, it was bought for {bought[key]}"
    if totals is not None:
        for account in sorted({*billed, *totals}):
            owed = totals.get(account, Decimal(0))
            if billed[account] != owed:
                yield f"{account}: billed {billed[account]}, its statement says {owed}"
