"""FOCUS 1.4's other datasets: the billing period, and the lines of its invoices, which are the statements'."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Final

from pipelines.book.compose import make_statement
from pipelines.book.conversion import exchange_of
from pipelines.book.focus.rows import Row
from pipelines.book.reckoning import Reckoned
from pipelines.periods import Period
from pipelines.report import TenantReport

_CATEGORY_OF: Final = {
    "usage": "Usage",
    "energy": "Usage",
    "reservation": "Purchase",
    "idle": "Usage",
    "overhead": "Usage",
    "commitment": "Purchase",
    "credit": "Credit",
    "adjustment": "Adjustment",
}


def billing_period(reckoned: Reckoned, period: Period) -> list[Row]:
    """Return the one row of a period."""
    return [
        {
            "BillingPeriodCreated": period.start,
            "BillingPeriodLastUpdated": _updated(reckoned),
            "BillingPeriodStart": period.start,
            "BillingPeriodEnd": period.end,
            "BillingPeriodStatus": "Closed" if reckoned.closed else "Open",
            "InvoiceIssuerName": reckoned.config.closing.issuer or "GPULedger",
        }
    ]


def invoice_detail(reckoned: Reckoned, period: Period) -> list[Row]:
    """Return a row per line of each statement; an open period's invoices have ids of drafts."""
    numbers = reckoned.closed.numbers if reckoned.closed else {}
    updated = _updated(reckoned)
    rows: list[Row] = []
    for tenant in reckoned.report.tenants:
        number = numbers.get(tenant.tenant, f"draft-{tenant.tenant}-{period.start:%Y%m%d}")
        entry = exchange_of(reckoned.config, tenant.tenant, period.end)
        currency = reckoned.config.currency if entry is None else entry.currency
        amounts = _own_amounts(reckoned, tenant) if entry else _amounts(tenant)
        for charge, category in _CATEGORY_OF.items():
            amount = amounts.get(charge, Decimal(0))
            if not amount:
                continue
            rows.append(
                {
                    "BilledCost": amount,
                    "BillingAccountId": tenant.tenant,
                    "BillingCurrency": currency,
                    "BillingPeriodStart": period.start,
                    "BillingPeriodEnd": period.end,
                    "ChargeCategory": category,
                    "InvoiceDetailCreated": updated,
                    "InvoiceDetailLastUpdated": updated,
                    "InvoiceDetailDescription": charge,
                    "InvoiceDetailGrain": json.dumps({"ServiceName": "GPU", "x_Charge": charge}),
                    "InvoiceDetailId": f"{number}/{charge}",
                    "InvoiceId": number,
                    "InvoiceIssueDate": updated if reckoned.closed else None,
                    "InvoiceIssueStatus": "Issued" if reckoned.closed else "Open",
                    "InvoiceIssuerName": reckoned.config.closing.issuer or "GPULedger",
                    "PaymentCurrency": currency,
                    "PaymentCurrencyBilledCost": amount,
                }
            )
    return rows


def _amounts(tenant: TenantReport) -> dict[str, Decimal]:
    return {charge: Decimal(getattr(tenant.charges, charge)) for charge in _CATEGORY_OF}


def _own_amounts(reckoned: Reckoned, tenant: TenantReport) -> dict[str, Decimal]:
    """Return the lines of a statement in the tenant's own currency, summed by kind."""
    made = make_statement(
        reckoned.rated,
        reckoned.report,
        reckoned.config,
        tenant.tenant,
        label="",
        entries=[e for e in reckoned.entries if e.tenant == tenant.tenant],
    )
    found: dict[str, Decimal] = {}
    for line in made.lines:
        found[line.kind] = found.get(line.kind, Decimal(0)) + Decimal(line.amount)
    return found


def _updated(reckoned: Reckoned) -> datetime:
    if reckoned.closed is None:
        return reckoned.report.as_of
    return datetime.fromisoformat(reckoned.closed.manifest["closed_at"])
