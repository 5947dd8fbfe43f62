"""Differences per tenant, for people."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from gpuledger.tables import align
from pipelines.money import format_money

if TYPE_CHECKING:
    from pipelines.book.whatif import WhatIf

CHARGES: Final = ("usage", "reservation", "idle", "energy", "overhead", "commitment", "credit")


def render(found: WhatIf) -> str:
    """The table: what each owes now and then, and the lines that differ."""
    moved = [c for c in CHARGES if any(Decimal(getattr(t.difference, c)) for t in found.tenants)]
    rows = [["Tenants", "now", "then", *(moved if len(moved) > 1 else []), f"difference {found.currency}"]]
    for tenant in found.tenants:
        lines = [getattr(tenant.difference, c) for c in moved] if len(moved) > 1 else []
        amounts = [tenant.now, tenant.then, *lines]
        shown = [_amount(a, found.currency) for a in amounts]
        rows.append([f"  {tenant.tenant}", *shown, _signed(tenant.difference.total, found.currency)])
    blank = [""] * (len(rows[0]) - 2)
    rows += [[], ["  billed", *blank, _signed(found.fleet.billed, found.currency)]]
    rows += [["  unbilled", *blank, _signed(found.fleet.unbilled, found.currency)]]
    text = align(rows)
    if found.not_considered:
        names = ", ".join(found.not_considered)
        text += ["", f"Not considered, because usage would have to be metered anew: {names}"]
    return "\n".join(text)


def _amount(amount: str, currency: str) -> str:
    return format_money(Decimal(amount), currency).removeprefix(f"{currency} ")


def _signed(amount: str, currency: str) -> str:
    text = _amount(amount, currency)
    return f"+{text}" if Decimal(amount) > 0 else text
