"""What a page is about: whose rows, which month, and which month it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from app.ledger_files import Reader
from pipelines.config import Config
from pipelines.instants import from_ms

YOUNG: Final = timedelta(days=3)
"""A month younger than this isn't opened by itself: on the first of the month people come for the last one."""


@dataclass(frozen=True)
class Month:
    """A local month; [start, end) in UTC.

    Attributes:
        name: as "2026-11".
        seen_from, seen_to: the part of it that the ledger holds data of; None: not known.
    """

    name: str
    start: datetime
    end: datetime
    seen_from: datetime | None
    seen_to: datetime | None

    @property
    def label(self) -> str:
        """For people: ``November 2026``."""
        return f"{datetime.strptime(self.name, '%Y-%m'):%B %Y}"  # noqa: DTZ007

    @property
    def is_whole(self) -> bool:
        """Whether the ledger's data reaches over all of it, as far as that is known."""
        begins = self.seen_from is None or self.seen_from <= self.start
        return begins and (self.seen_to is None or self.seen_to >= self.end)


@dataclass(frozen=True)
class Tenant:
    """A tenant as configured when the ledger was published."""

    id: str
    name: str
    parent: str | None
    budget: Decimal | None
    budget_gpu_hours: Decimal | None
    quota_gpus: int | None


@dataclass(frozen=True)
class Scope:
    """What a page is about.

    Attributes:
        config: as it is now; for where the ledger is, never for prices.
        reader: the file that it reads, and no other.
        whole_fleet: whether that is the operator's file; else it is one tenant's.
        tenant: whose rows; None: the whole fleet.
        tenants: those in the file, by id, in file order.
    """

    config: Config
    reader: Reader
    whole_fleet: bool
    currency: str
    zone: ZoneInfo
    as_of: datetime
    month: Month
    other: Month | None
    tenant: str | None
    tenants: Mapping[str, Tenant]

    @property
    def comparable(self) -> Month | None:
        """The month to compare with, where both are whole; a part of a month says nothing about change."""
        return self.other if self.other and self.other.is_whole and self.month.is_whole else None

    def tenant_name(self, tenant: str | None) -> str:
        """A tenant's name for people."""
        if tenant is None:
            return "No tenant"
        return self.tenants[tenant].name if tenant in self.tenants else tenant


@dataclass(frozen=True)
class Contents:
    """What a file says of itself."""

    currency: str
    zone: ZoneInfo
    months: tuple[Month, ...]
    tenants: Mapping[str, Tenant]


def contents(reader: Reader, *, whole_fleet: bool) -> Contents:
    """Return what a published file is about."""
    setting = reader.ask("SELECT currency, timezone FROM setting").row(0, named=True)
    seen_from = seen_to = None
    if whole_fleet:
        seen = reader.ask("SELECT span_start, span_end FROM metered_from").row(0)
        seen_from, seen_to = (None if t is None else from_ms(t) for t in seen)
    bounds = reader.ask('SELECT period, epoch_ms(start) AS s, epoch_ms("end") AS e FROM period ORDER BY period')
    months = tuple(
        Month(name, from_ms(start), from_ms(end), _latest(seen_from, from_ms(start)), _earliest(seen_to, from_ms(end)))
        for name, start, end in bounds.iter_rows()
    )
    rows = reader.ask("SELECT * FROM tenant").iter_rows(named=True)
    return Contents(
        currency=setting["currency"],
        zone=ZoneInfo(setting["timezone"]),
        months=months,
        tenants={
            row["id"]: Tenant(
                row["id"],
                row["name"] or row["id"],
                row["parent"],
                None if row["budget_monthly"] is None else Decimal(row["budget_monthly"]),
                None if row["budget_gpu_hours"] is None else Decimal(row["budget_gpu_hours"]),
                row["quota_gpus"],
            )
            for row in rows
        },
    )


def month_to_open(months: tuple[Month, ...], as_of: datetime) -> Month:
    """Return the newest month, or the one before where the newest has hardly begun."""
    newest = months[-1]
    reached = min(newest.seen_to or as_of, as_of) if newest.end > as_of else newest.seen_to or newest.end
    begun = reached - newest.start >= YOUNG
    return newest if begun or len(months) == 1 else months[-2]


def _latest(a: datetime | None, b: datetime) -> datetime | None:
    return None if a is None else max(a, b)


def _earliest(a: datetime | None, b: datetime) -> datetime | None:
    return None if a is None else min(a, b)
