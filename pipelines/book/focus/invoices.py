"""FOCUS 1.4's other datasets: the billing period, and the lines of its invoices, which are the statements'."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Final

from pipelines.book.focus.rows import Row
from pipelines.book.reckoning import Reckoned
from pipelines.periods import Period

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
        for charge, category in _CATEGORY_OF.items():
            amount = Decimal(getattr(tenant.charges, charge))
            if not amount:
                continue
            rows.append(
                {
                    "BilledCost": amount,
                    "BillingAccountId": tenant.tenant,
                    "BillingCurrency": reckoned.config.currency,
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
                    "PaymentCurrency": reckoned.config.currency,
                    "PaymentCurrencyBilledCost": amount,
                }
            )
    return rows


def _updated(reckoned: Reckoned) -> datetime:
    if reckoned.closed is None:
        return reckoned.report.as_of
    return datetime.fromisoformat(reckoned.closed.manifest["closed_at"])
