"""What the address and the controls above every page say: tenant, month, and the month to compare with."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app import address
from app.ledger_files import LedgerFiles
from app.scope import Contents, Month, Scope, contents, month_to_open
from exporter.errors import LedgerError

ALL: Final = "all"
NONE: Final = "none"


def choose(files: LedgerFiles) -> Scope:
    """Draw the controls and return what they choose.

    Raises:
        LedgerError: nothing is published, or the ledger holds no usage.
    """
    as_of = files.publication().as_of
    reader = files.fleet()
    known = contents(reader, whole_fleet=True)
    if not known.months:
        raise LedgerError("the ledger holds no usage yet; check `sources` and run `gpuledger run --once`")
    tenant_at, month_at, other_at = st.columns([2, 1, 1])
    with tenant_at:
        tenant = _tenant(known)
    with month_at:
        month = _month(known, month_to_open(known.months, as_of))
    with other_at:
        other = _other(known, month)
    return Scope(reader, True, known.currency, known.zone, as_of, month, other, tenant, known.tenants)


def _tenant(known: Contents) -> str | None:
    names = {ALL: "All tenants", **{t.id: t.name for t in known.tenants.values()}}
    chosen = address.select("Tenant", "tenant", list(names), ALL, names.__getitem__)
    return None if chosen == ALL else chosen


def _month(known: Contents, opened: Month) -> Month:
    months = {month.name: month for month in reversed(known.months)}
    return months[address.select("Month", "month", list(months), opened.name, lambda name: months[name].label)]


def _other(known: Contents, month: Month) -> Month | None:
    months = {m.name: m for m in reversed(known.months) if m.name != month.name}
    before = next((name for name in months if name < month.name), NONE)
    options = [NONE, *months]
    chosen = address.select(
        "Compared with", "compare", options, before, lambda name: months[name].label if name in months else "Nothing"
    )
    return months.get(chosen)
