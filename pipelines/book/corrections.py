"""Late data: what is known now of a closed period, less what was charged for it, is booked in the open one.

It is a difference, so that the same data again adds nothing, and data that goes away is given back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from pipelines.book.entries import Entry
from pipelines.book.shelf import ClosedBook, part_of, period_of, unchanged
from pipelines.config import Config
from pipelines.metering import Metered
from pipelines.rating import rate
from pipelines.report import LINES, Report, TenantReport
from pipelines.statement import make_report, within_of
from pipelines.tables import Finding

METERING: Final = ("sharing", "mig", "attribution", "scrape_interval", "timezone")
"""Sections that say how is metered: what another one makes of a closed period is no late data."""


def late_entries(
    closed: Sequence[ClosedBook], metered: Metered, config: Config, open_period: str
) -> tuple[list[Entry], list[Finding]]:
    """Return the corrections of closed periods for data that came after their closing.

    Args:
        metered: all that is known now.
        config: the present one; each closed period is rated by its own.
        open_period: what they are booked in.

    Returns:
        The entries, at most one per closed period, tenant and kind of charge, and what is to be said about them.
    """
    booked: dict[tuple[str, str, str], tuple[Decimal, float]] = defaultdict(lambda: (Decimal(0), 0.0))
    for book in closed:
        for entry in book.entries:
            if entry.kind == "late_data":
                key = (entry.charge_period, entry.tenant, entry.charge)
                amount, hours = booked[key]
                booked[key] = (amount + entry.amount, hours + (entry.gpu_hours or 0.0))
    entries: list[Entry] = []
    findings: list[Finding] = []
    for book in closed:
        part = part_of(metered, period_of(book))
        if unchanged(book, part):
            now = book.report  # the same usage of the same holders under the same configuration
        else:
            then = book.config
            changed = [name for name in METERING if getattr(then, name) != getattr(config, name)]
            if changed:
                findings.append(Finding("late_data", 1, _incomparable(book.period, changed)))
                now = book.report
            else:
                now = _rated(part, then, book)
        entries += _differences(book, now, booked, open_period)
    if entries:
        periods = sorted({e.charge_period for e in entries})
        findings.append(Finding("late_data", len(entries), f"corrections of {', '.join(periods)} in {open_period}"))
    return entries, findings


def _rated(part: Metered, config: Config, book: ClosedBook) -> Report:
    period = period_of(book)
    return make_report(rate(part, config, within_of(period)), config, period, [], book.report.as_of)


def _incomparable(period: str, changed: Sequence[str]) -> str:
    return (
        f"{period} was closed with another {changed[0]}: what came later isn't told from that change; "
        f"restore {changed[0]} to book it"
    )


def _differences(
    book: ClosedBook, now: Report, booked: dict[tuple[str, str, str], tuple[Decimal, float]], open_period: str
) -> list[Entry]:
    was = {t.tenant: t for t in book.report.tenants}
    known = {t.tenant: t for t in now.tenants}
    entries = []
    tenants = {*was, *known} | {tenant for period, tenant, _ in booked if period == book.period}
    for tenant in sorted(tenants):
        for charge in LINES:
            amount, hours = booked.get((book.period, tenant, charge), (Decimal(0), 0.0))
            owed = _charge(known.get(tenant), charge) - _charge(was.get(tenant), charge) - amount
            if owed:
                more = _hours(known.get(tenant)) - _hours(was.get(tenant)) - hours
                entries.append(
                    Entry(
                        id=f"{open_period}/late/{book.period}/{tenant}/{charge}",
                        period=open_period,
                        charge_period=book.period,
                        tenant=tenant,
                        kind="late_data",
                        charge=charge,
                        amount=owed,
                        gpu_hours=round(more, 6) if charge == "usage" else None,
                    )
                )
    return entries


def _charge(row: TenantReport | None, charge: str) -> Decimal:
    return Decimal(0) if row is None else Decimal(getattr(row.charges, charge))


def _hours(row: TenantReport | None) -> float:
    """Return the hours that the usage line charges."""
    return 0.0 if row is None else row.gpu_hours.on_demand + row.gpu_hours.overflow + row.gpu_hours.spot
