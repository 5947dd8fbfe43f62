"""What the address and the controls above every page say: tenant, month, and the month to compare with."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app import address, grafana
from app.ledger_files import LedgerFiles, Reader
from app.scope import Contents, Month, Scope, contents, month_to_open
from app.sign_in import Viewer
from exporter.errors import LedgerError
from pipelines.config import Config

ALL: Final = "all"
NONE: Final = "none"


def choose(config: Config, files: LedgerFiles, who: Viewer) -> Scope:
    """Draw the controls and return what they choose.

    Raises:
        LedgerError: nothing is published, or the ledger holds no usage, or none of a member's tenants has any.
    """
    as_of = files.publication().as_of
    grafana.take_tenant()
    with st.container(horizontal=True):
        reader, tenant = _own(files, who.tenants) if who.tenants is not None else _any(files)
        known = contents(reader, whole_fleet=who.tenants is None)
        if not known.months:
            raise LedgerError("the ledger holds no usage yet; check `sources` and run `gpuledger run --once`")
        grafana.take_range(known.months, known.zone)
        month = _month(known, month_to_open(known.months, as_of))
        other = _other(known, month)
    whole_fleet = who.tenants is None
    return Scope(config, reader, whole_fleet, known.currency, known.zone, as_of, month, other, tenant, known.tenants)


def _any(files: LedgerFiles) -> tuple[Reader, str | None]:
    """Let an operator choose among all tenants, in the fleet's file."""
    reader = files.fleet()
    tenants = contents(reader, whole_fleet=True).tenants
    names = {ALL: "All tenants", **{t.id: t.name for t in tenants.values()}}
    chosen = address.select("Tenant", "tenant", list(names), ALL, names.__getitem__, width=address.WIDE)
    return reader, None if chosen == ALL else chosen


def _own(files: LedgerFiles, tenants: tuple[str, ...]) -> tuple[Reader, str]:
    """Let a member choose among the tenants of their own, each in its own file.

    A name is in that file too, so only the chosen one's is opened; the others show their ids.
    """
    published = [tenant for tenant in tenants if tenant in files.publication().tenants]
    if not published:
        raise LedgerError("your tenants have no usage, reservation or charge yet; nothing is published for them")
    chosen = address.select("Tenant", "tenant", published, published[0], str, width=address.WIDE)
    reader = files.tenant(chosen)
    if reader is None:
        raise LedgerError(f"{chosen}: nothing is published any more; load the page again")
    return reader, chosen


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
