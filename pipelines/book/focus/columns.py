"""Columns of the FOCUS datasets by version, as https://focus.finops.org/ lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["text", "decimal", "time", "json"]
VERSIONS: Final = ("1.2", "1.4")
DATASETS: Final = ("CostAndUsage", "BillingPeriod", "InvoiceDetail")


@dataclass(frozen=True)
class Column:
    """A column: what it holds, and whether it may be null."""

    name: str
    kind: Kind = "text"
    nullable: bool = True


def _columns(text: str) -> tuple[Column, ...]:
    """Read ``Name[:kind][!]``; ``!`` is never null."""
    found = []
    for word in text.split():
        name, _, kind = word.removesuffix("!").partition(":")
        found.append(Column(name, kind or "text", not word.endswith("!")))  # type: ignore[arg-type]
    return tuple(found)


_SHARED: Final = """
AvailabilityZone BilledCost:decimal! BillingAccountId! BillingAccountName BillingAccountType BillingCurrency!
BillingPeriodEnd:time! BillingPeriodStart:time! CapacityReservationId CapacityReservationStatus ChargeCategory!
ChargeClass ChargeDescription ChargeFrequency! ChargePeriodEnd:time! ChargePeriodStart:time!
CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName CommitmentDiscountQuantity:decimal
CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit ConsumedQuantity:decimal ConsumedUnit
ContractedCost:decimal! ContractedUnitPrice:decimal EffectiveCost:decimal! InvoiceId InvoiceIssuerName!
ListCost:decimal! ListUnitPrice:decimal PricingCategory PricingCurrency PricingCurrencyContractedUnitPrice:decimal
PricingCurrencyEffectiveCost:decimal PricingCurrencyListUnitPrice:decimal PricingQuantity:decimal PricingUnit
RegionId RegionName ResourceId ResourceName ResourceType ServiceCategory! ServiceName! ServiceSubcategory SkuId
SkuMeter SkuPriceDetails:json SkuPriceId SubAccountId SubAccountName SubAccountType Tags:json
"""
_CUSTOM: Final = " x_GpuClass x_GpuModel x_CostCenter"

COST_AND_USAGE: Final[Mapping[str, tuple[Column, ...]]] = {
    "1.2": _columns(_SHARED + "ProviderName! PublisherName!" + _CUSTOM),
    "1.4": _columns(
        _SHARED
        + "AllocatedMethodDetails:json AllocatedMethodId AllocatedResourceId AllocatedResourceName AllocatedTags:json "
        + "ContractApplied:json HostProviderName ServiceProviderName!"
        + _CUSTOM
    ),
}
BILLING_PERIOD: Final = _columns(
    "BillingPeriodCreated:time! BillingPeriodEnd:time! BillingPeriodLastUpdated:time! BillingPeriodStart:time! "
    "BillingPeriodStatus! InvoiceIssuerName!"
)
INVOICE_DETAIL: Final = _columns(
    "BilledCost:decimal! BillingAccountId! BillingCurrency! BillingPeriodEnd:time! BillingPeriodStart:time! "
    "ChargeCategory! InvoiceDetailCreated:time! InvoiceDetailDescription InvoiceDetailGrain:json InvoiceDetailId! "
    "InvoiceDetailLastUpdated:time! InvoiceId! InvoiceIssueDate:time InvoiceIssueStatus! InvoiceIssuerName! "
    "PaymentCurrency PaymentCurrencyBilledCost:decimal PaymentCurrencyInvoiceDetailId PaymentDueDate:time "
    "PaymentTerms PurchaseOrderNumber ReferenceInvoiceId"
)


def columns(dataset: str, version: str) -> tuple[Column, ...]:
    """Return the columns of a dataset in a version."""
    return {"BillingPeriod": BILLING_PERIOD, "InvoiceDetail": INVOICE_DETAIL}.get(dataset) or COST_AND_USAGE[version]
