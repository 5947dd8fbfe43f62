"""A reckoned period → rows of FOCUS's CostAndUsage; what a tenant is billed in them is its statement, to the cent.

A charge is a row per local day, workload, model, class and rate. Costs at list and contracted prices are quantity ×
price as the row has them; billed cost is a whole number of cents, a largest-remainder part of the statement's line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from pipelines.book.breakdown import hours_of
from pipelines.book.entries import Entry
from pipelines.book.reckoning import Reckoned
from pipelines.config import Config, Reservation, Tenant
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.money import largest_remainder, round_money
from pipelines.periods import Period, local_midnights, parse_period
from pipelines.rates import RateCard
from pipelines.rating import Charge, TenantUse
from pipelines.report import TenantReport

Row = dict[str, Any]
HOURS: Final = "GPU-Hours"
QUANTITY_DIGITS: Final = 9
_CATEGORY_OF: Final = {
    "usage": "Usage",
    "energy": "Usage",
    "reservation": "Purchase",
    "idle": "Usage",
    "overhead": "Usage",
    "commitment": "Purchase",
    "credit": "Credit",
}


@dataclass(frozen=True)
class _Part:
    """Charges of one day, workload, model, class, reservation and rate."""

    start: int
    end: int
    workload: str
    model: str | None
    class_: str
    reservation: str | None
    rate: Fraction
    listed: Fraction


def cost_and_usage(reckoned: Reckoned, period: Period) -> list[Row]:
    """Return the rows of a period (`columns.COST_AND_USAGE`, both versions' names), the same each time."""
    config = reckoned.config
    days = [period.start, *local_midnights(period.start, period.end, config.timezone), period.end]
    bounds = [to_ms(day) for day in days]
    charges: dict[str | None, list[Charge]] = {}
    for charge in reckoned.rated.charges:
        charges.setdefault(charge.tenant, []).append(charge)
    card = RateCard(config)
    rows: list[Row] = []
    for report in reckoned.report.tenants:
        use = reckoned.rated.tenants.get(report.tenant, TenantUse())
        parts = _parted(charges.get(report.tenant, []), bounds, card)
        common = _common(report.tenant, reckoned, period)
        rows += _usage(parts, report, common, config)
        rows += _committed(parts, use, report, common, config, period)
        rows += _fixed(report, common, config)
        rows += [_entry(entry, common, config) for entry in reckoned.entries if entry.tenant == report.tenant]
    for row in rows:  # names come from users, and the specification wants descriptions in ASCII
        row["ChargeDescription"] = row["ChargeDescription"].encode("ascii", "replace").decode()
    return rows


def _parted(charges: list[Charge], bounds: list[int], card: RateCard) -> dict[_Part, Fraction]:
    """Sum the hours of each part; a charge is never longer than a local day."""
    found: dict[_Part, Fraction] = {}
    day = 0
    for charge in sorted(charges, key=lambda c: (c.start, c.workload, c.lease, c.class_)):
        while bounds[day + 1] <= charge.start:
            day += 1
        part = _Part(
            bounds[day],
            bounds[day + 1],
            charge.workload,
            charge.model,
            charge.class_,
            charge.reservation,
            charge.rate or Fraction(0),
            _listed(charge, card),
        )
        found[part] = found.get(part, Fraction(0)) + hours_of(charge)
    return found


def _listed(charge: Charge, card: RateCard) -> Fraction:
    """Return the price before discounts and tiers; beyond quota it is one of its own, spot is off the on-demand one."""
    class_ = "overflow" if charge.class_ == "overflow" else "on_demand"
    if charge.class_ == "reserved" and charge.reservation is None:
        class_ = "reserved"
    return card.price(charge.model, class_, charge.start) or Fraction(0)


def _common(tenant: str, reckoned: Reckoned, period: Period) -> Row:
    config = reckoned.config
    settings = next((t for t in config.tenants if t.id == tenant), None)
    issuer = config.closing.issuer or "GPULedger"
    number = reckoned.closed.numbers.get(tenant) if reckoned.closed else None
    return {
        "BillingAccountId": tenant,
        "BillingAccountName": settings.name if settings else tenant,
        "BillingAccountType": "Tenant",
        "BillingCurrency": config.currency,
        "BillingPeriodStart": period.start,
        "BillingPeriodEnd": period.end,
        "ChargePeriodStart": period.start,
        "ChargePeriodEnd": period.end,
        "InvoiceId": number,
        "InvoiceIssuerName": issuer,
        "ProviderName": issuer,
        "PublisherName": issuer,
        "ServiceProviderName": issuer,
        "HostProviderName": issuer,
        "PricingCurrency": config.currency,
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Other (Compute)",
        "ServiceName": "GPU",
        "Tags": _tags(settings),
        "x_CostCenter": settings.cost_center if settings else None,
    }


def _tags(settings: Tenant | None) -> str | None:
    if settings is None or not (settings.tags or settings.cost_center):
        return None
    own = {"cost_center": settings.cost_center} if settings.cost_center else {}
    return json.dumps({**own, **settings.tags}, sort_keys=True, ensure_ascii=False)


def _usage(parts: Mapping[_Part, Fraction], report: TenantReport, common: Row, config: Config) -> Iterator[Row]:
    held = {part: hours for part, hours in parts.items() if part.reservation is None}
    billed = _split(Decimal(report.charges.usage), {p: h * p.rate for p, h in held.items()}, config.currency)
    for part, hours in held.items():
        dynamic = part.class_ == "spot"
        yield {
            **common,
            **_workload(part),
            **_priced(hours, contracted=part.rate, listed=part.listed),
            "BilledCost": billed[part],
            "EffectiveCost": billed[part],
            "PricingCurrencyEffectiveCost": billed[part],
            "ChargeCategory": "Usage",
            "ChargeFrequency": "Usage-Based",
            "ChargeDescription": f"{part.model or 'GPU'} {part.class_.replace('_', ' ')}, {part.workload}",
            "PricingCategory": "Dynamic" if dynamic else "Standard",
        }


def _workload(part: _Part) -> Row:
    model = part.model or "unknown"
    return {
        "ChargePeriodStart": from_ms(part.start),
        "ChargePeriodEnd": from_ms(part.end),
        "ResourceId": part.workload,
        "ResourceName": part.workload,
        "ResourceType": "GPU workload",
        "SkuId": model,
        "SkuMeter": "GPU time",
        "SkuPriceId": f"{model}/{part.class_}/{_decimal(part.rate)}",
        "x_GpuClass": part.class_,
        "x_GpuModel": part.model,
    }


def _priced(hours: Fraction, *, contracted: Fraction, listed: Fraction, consumed: bool = True) -> Row:
    """Return quantities and prices; the costs are what the row's own quantity and price give."""
    quantity = _decimal(hours)
    at_contract, at_list = _decimal(contracted), _decimal(listed)
    return {
        "PricingQuantity": quantity,
        "PricingUnit": HOURS,
        "ConsumedQuantity": quantity if consumed else None,
        "ConsumedUnit": HOURS if consumed else None,
        "ContractedUnitPrice": at_contract,
        "ContractedCost": quantity * at_contract,
        "PricingCurrencyContractedUnitPrice": at_contract,
        "ListUnitPrice": at_list,
        "ListCost": quantity * at_list,
        "PricingCurrencyListUnitPrice": at_list,
    }


def _committed(
    parts: Mapping[_Part, Fraction], use: TenantUse, report: TenantReport, common: Row, config: Config, period: Period
) -> Iterator[Row]:
    """Yield each reservation's fee, and what it was effectively used for: used + unused is the fee, to the cent."""
    present = [r for r in config.reservations if use.fees.get(r.id)]
    fees = _split(Decimal(report.charges.reservation), {r.id: use.fees[r.id] for r in present}, config.currency)
    given_back = _split(
        Decimal(report.charges.credit), {r.id: use.credits.get(r.id, Fraction(0)) for r in present}, config.currency
    )
    for reservation in present:
        start = max(to_ms(reservation.from_), to_ms(period.start))
        end = min(to_ms(reservation.to), to_ms(period.end))
        hours = Fraction(reservation.gpus * (end - start), HOUR_MS)
        rate = use.fees[reservation.id] / hours
        used = {part: h for part, h in parts.items() if part.reservation == reservation.id}
        open_hours = hours - sum(used.values(), Fraction(0))
        weights: dict[_Part | None, Fraction] = {part: h * part.rate for part, h in used.items()}
        weights[None] = max(use.fees[reservation.id] - sum(weights.values(), Fraction(0)), Fraction(0))
        effective = _split(fees[reservation.id], weights, config.currency)
        within = {"ChargePeriodStart": from_ms(start), "ChargePeriodEnd": from_ms(end)}
        yield {
            **common,
            **_commitment(reservation, hours),
            **within,
            **_priced(hours, contracted=rate, listed=rate, consumed=False),
            **_costs(billed=fees[reservation.id], effective=Decimal(0)),
            "ChargeCategory": "Purchase",
            "ChargeFrequency": "Recurring",
            "ChargeDescription": f"{reservation.gpus} x {reservation.model} reserved as {reservation.id}",
            "PricingCategory": "Committed",
            "SkuId": f"reservation/{reservation.model}",
            "SkuMeter": "GPU time",
            "SkuPriceId": f"reservation/{reservation.model}/{_decimal(rate)}",
        }
        for part, part_hours in used.items():
            yield {
                **common,
                **_commitment(reservation, part_hours),
                **_workload(part),
                **_priced(part_hours, contracted=part.rate, listed=part.listed),
                **_costs(billed=Decimal(0), effective=effective[part]),
                "ChargeCategory": "Usage",
                "ChargeFrequency": "Usage-Based",
                "ChargeDescription": f"{part.model or 'GPU'} under {reservation.id}, {part.workload}",
                "PricingCategory": "Committed",
                "CommitmentDiscountStatus": "Used",
            }
        if open_hours:
            yield {
                **common,
                **_commitment(reservation, open_hours),
                **within,
                **_priced(open_hours, contracted=weights[None] / open_hours, listed=rate, consumed=False),
                **_costs(billed=Decimal(0), effective=effective[None]),
                "ChargeCategory": "Usage",
                "ChargeFrequency": "Usage-Based",
                "ChargeDescription": f"Not used of {reservation.id}",
                "PricingCategory": "Committed",
                "CommitmentDiscountStatus": "Unused",
                "SkuId": f"reservation/{reservation.model}",
                "SkuMeter": "GPU time",
                "SkuPriceId": f"reservation/{reservation.model}/{_decimal(rate)}",
            }
        if given_back[reservation.id]:
            yield _credited(given_back[reservation.id], f"Down GPUs of {reservation.id}", {**common, **within})


def _commitment(reservation: Reservation, hours: Fraction) -> Row:
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": reservation.id,
        "CommitmentDiscountName": f"{reservation.gpus} x {reservation.model}",
        "CommitmentDiscountType": "GPU reservation",
        "CommitmentDiscountQuantity": _decimal(hours),
        "CommitmentDiscountUnit": HOURS,
        "x_GpuClass": "reserved",
    }


def _costs(*, billed: Decimal, effective: Decimal) -> Row:
    return {"BilledCost": billed, "EffectiveCost": effective, "PricingCurrencyEffectiveCost": effective}


def _fixed(report: TenantReport, common: Row, config: Config) -> Iterator[Row]:
    """Yield the lines that have no finer parts: shares of idle capacity and overheads, and energy."""
    for charge, description, category in (
        ("idle", "Share of idle capacity", "Usage"),
        ("overhead", "Share of overheads", "Usage"),
        ("commitment", "Shortfall of the minimum commitment", "Purchase"),
    ):
        amount = Decimal(getattr(report.charges, charge))
        consumed = {"ConsumedQuantity": Decimal(1), "ConsumedUnit": "Shares"} if category == "Usage" else {}
        if amount < 0:
            yield _credited(amount, description, common)
        elif amount:
            yield {
                **common,
                **_flat(amount),
                **consumed,
                "ChargeCategory": category,
                "ChargeFrequency": "Recurring",
                "ChargeDescription": description,
                "PricingCategory": "Other",
                "PricingQuantity": Decimal(1),
                "PricingUnit": "Shares",
                "SkuId": charge,
                "SkuMeter": "Share",
                "SkuPriceId": charge,
                **dict.fromkeys(("ListUnitPrice", "ContractedUnitPrice"), amount),
                **{f"PricingCurrency{name}": amount for name in ("ListUnitPrice", "ContractedUnitPrice")},
            }
    energy = Decimal(report.charges.energy)
    if energy:
        quantity = Decimal(repr(report.energy_kwh or 0.0))
        price = Decimal(config.energy.price_per_kwh or 0) * config.energy.pue
        yield {
            **common,
            **_costs(billed=energy, effective=energy),
            "ListCost": quantity * price,
            "ContractedCost": quantity * price,
            "ListUnitPrice": price,
            "ContractedUnitPrice": price,
            "PricingCurrencyListUnitPrice": price,
            "PricingCurrencyContractedUnitPrice": price,
            "PricingQuantity": quantity,
            "PricingUnit": "kWh",
            "ConsumedQuantity": quantity,
            "ConsumedUnit": "kWh",
            "ChargeCategory": "Usage",
            "ChargeFrequency": "Usage-Based",
            "ChargeDescription": "Energy",
            "PricingCategory": "Standard",
            "ResourceId": f"{report.tenant}/energy",
            "ResourceName": "Energy of what was held",
            "ResourceType": "Energy",
            "SkuId": "energy",
            "SkuMeter": "Energy",
            "SkuPriceId": f"energy/{price}",
        }


def _flat(amount: Decimal) -> Row:
    return {**_costs(billed=amount, effective=amount), "ListCost": amount, "ContractedCost": amount}


def _credited(amount: Decimal, description: str, common: Row) -> Row:
    return {
        **common,
        **_flat(amount),
        "ChargeCategory": "Credit",
        "ChargeFrequency": "One-Time",
        "ChargeDescription": description,
    }


def _entry(entry: Entry, common: Row, config: Config) -> Row:
    """Return an entry: what corrects a closed period is a correction in this one, with its own charge period."""
    about = parse_period(entry.charge_period, config.timezone)
    row = _credited(round_money(entry.amount, config.currency), entry.described(), common)
    row |= {"ChargePeriodStart": about.start, "ChargePeriodEnd": about.end}
    if entry.kind in {"late_data", "reprice"}:
        row |= {"ChargeClass": "Correction", "ChargeCategory": _CATEGORY_OF[entry.charge]}
    elif entry.kind != "credit":
        row["ChargeCategory"] = "Adjustment"
    return row


def _split(total: Decimal, weights: Mapping[Any, Fraction], currency: str) -> dict[Any, Decimal]:
    """Split by largest remainder; keys are ordered by their text, so that ties fall the same way each time."""
    named = {str(i).zfill(9): key for i, key in enumerate(weights)}
    parts = largest_remainder(total, {name: weights[key] for name, key in named.items()}, currency)
    return {named[name]: part for name, part in parts.items()}


def _decimal(value: Fraction) -> Decimal:
    scaled = round(value * 10**QUANTITY_DIGITS)
    return (Decimal(scaled) / 10**QUANTITY_DIGITS).normalize() + Decimal(0)


def utc(at: datetime) -> str:
    """Return a time as FOCUS writes it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
