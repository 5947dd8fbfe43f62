"""What a page is about: whose rows, which days, and which days they are compared with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from app.ledger_files import Parameter, Reader
from app.spans import Days, containing
from pipelines.config import Config
from pipelines.instants import from_ms, to_ms

YOUNG: Final = timedelta(days=3)
"""A month younger than this isn't opened by itself: on the first of the month people come for the last one."""

IN_DAYS: Final = "period BETWEEN $first_month AND $last_month AND day >= $first::DATE AND day < $after::DATE"
"""Of tables by local day: the span's rows."""

WHOLE: Final = "period BETWEEN $first_whole AND $last_whole"
"""Of tables by month: the months that lie whole in the span."""

CUT: Final = f"period BETWEEN $first_month AND $last_month AND NOT {WHOLE}"
"""Of tables by month: those of which the span holds a part."""

ALLOWED: Final = "($tenant IS NULL OR tenant = $tenant)"


@dataclass(frozen=True)
class Month:
    """A local month of the ledger; [start, end) in UTC."""

    name: str
    start: datetime
    end: datetime

    @cached_property
    def days(self) -> Days:
        """Its local days."""
        return containing(date.fromisoformat(f"{self.name}-01"), "month")


@dataclass(frozen=True)
class Span:
    """Local days of the ledger; [start, end) in UTC.

    Attributes:
        seen_from, seen_to: the part of it that the ledger holds data of; None: not known.
        months: those of the ledger that it touches, the oldest first.
    """

    days: Days
    start: datetime
    end: datetime
    seen_from: datetime | None
    seen_to: datetime | None
    months: tuple[Month, ...]

    @property
    def name(self) -> str:
        """As in the address."""
        return self.days.key

    @property
    def label(self) -> str:
        """For people."""
        return self.days.label

    @property
    def months_label(self) -> str:
        """The months that it touches, for people: ``October 2026 to November 2026``."""
        first, last = self.months[0].days, self.months[-1].days
        return first.label if first == last else f"{first.label} to {last.label}"

    @property
    def is_whole(self) -> bool:
        """Whether the ledger's data reaches over all of it, as far as that is known."""
        begins = self.seen_from is None or self.seen_from <= self.start
        return begins and (self.seen_to is None or self.seen_to >= self.end)

    @cached_property
    def whole(self) -> tuple[Month, ...]:
        """The months that lie whole in it."""
        return tuple(m for m in self.months if self.days.first <= m.days.first and m.days.after <= self.days.after)

    @property
    def cut(self) -> tuple[Month, ...]:
        """The months of which it holds a part."""
        return tuple(m for m in self.months if m not in self.whole)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What queries name it by."""
        return {
            "first": self.days.first.isoformat(),
            "after": self.days.after.isoformat(),
            "since": to_ms(self.start),
            "until": to_ms(self.end),
            "first_month": self.months[0].name,
            "last_month": self.months[-1].name,
            "first_whole": self.whole[0].name if self.whole else "~",
            "last_whole": self.whole[-1].name if self.whole else "",
        }


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
    span: Span
    other: Span | None
    tenant: str | None
    tenants: Mapping[str, Tenant]

    @property
    def comparable(self) -> Span | None:
        """What to compare with, where both are whole; a part of a range says nothing about change."""
        return self.other if self.other and self.other.is_whole and self.span.is_whole else None

    @property
    def month(self) -> Month:
        """The month that the range ends in: statements are by month."""
        return self.span.months[-1]

    def tenant_name(self, tenant: str | None) -> str:
        """A tenant's name for people."""
        if tenant is None:
            return "No tenant"
        return self.tenants[tenant].name if tenant in self.tenants else tenant

    def ask(self, query: str, span: Span | None = None, **given: Parameter) -> pl.DataFrame:
        """Return the answer to a query about a span (without one, this scope's); it may name what they are by."""
        known = {**(span or self.span).parameters, "tenant": self.tenant, **given}
        return self.reader.ask(query, {name: known[name] for name in _named(query)})

    def has(self, table: str) -> bool:
        """Whether the file holds a table; releases before have published fewer."""
        query = "SELECT count(*) FROM duckdb_tables() WHERE table_name = $table"
        return bool(self.reader.ask(query, {"table": table}).item())


@lru_cache(maxsize=512)
def _named(query: str) -> frozenset[str]:
    return frozenset(re.findall(r"\$([a-z_]+)", query))


@dataclass(frozen=True)
class Contents:
    """What a file says of itself.

    Attributes:
        seen: of which time it holds data, in UTC.
    """

    currency: str
    zone: ZoneInfo
    months: tuple[Month, ...]
    seen: tuple[datetime | None, datetime | None]
    tenants: Mapping[str, Tenant]

    def span(self, days: Days) -> Span | None:
        """Return days as a span of the ledger; None: it holds nothing of them, as of those that are still to come."""
        start, end = days.bounds(self.zone)
        months = tuple(m for m in self.months if m.start < end and start < m.end)
        first, last = self.seen
        if not months or (last is not None and last <= start and months[-1].start < start):
            return None
        return Span(
            days,
            start,
            end,
            None if first is None else max(first, start),
            None if last is None else min(last, end),
            months,
        )


def contents(reader: Reader, *, whole_fleet: bool, as_of: datetime) -> Contents:
    """Return what a published file is about."""
    return reader.once(("contents", whole_fleet, as_of), lambda: _contents(reader, whole_fleet, as_of))


def _contents(reader: Reader, whole_fleet: bool, as_of: datetime) -> Contents:
    setting = reader.ask("SELECT currency, timezone FROM setting").row(0, named=True)
    seen: tuple[datetime | None, datetime | None] = (None, as_of)
    if whole_fleet:
        first, last = reader.ask("SELECT span_start, span_end FROM metered_from").row(0)
        seen = (None if first is None else from_ms(first), None if last is None else from_ms(last))
    bounds = reader.ask('SELECT period, epoch_ms(start) AS s, epoch_ms("end") AS e FROM period ORDER BY period')
    rows = reader.ask("SELECT * FROM tenant").to_dicts()
    named = Counter(row["name"] or row["id"] for row in rows)
    return Contents(
        currency=setting["currency"],
        zone=ZoneInfo(setting["timezone"]),
        months=tuple(Month(name, from_ms(start), from_ms(end)) for name, start, end in bounds.iter_rows()),
        seen=seen,
        tenants={
            row["id"]: Tenant(
                row["id"],
                _told_apart(row["name"] or row["id"], row["id"], named),
                row["parent"],
                None if row["budget_monthly"] is None else Decimal(row["budget_monthly"]),
                None if row["budget_gpu_hours"] is None else Decimal(row["budget_gpu_hours"]),
                row["quota_gpus"],
            )
            for row in rows
        },
    )


def _told_apart(name: str, tenant: str, named: Mapping[str, int]) -> str:
    return name if named[name] == 1 else f"{name} ({tenant})"


def month_to_open(known: Contents, as_of: datetime) -> Month:
    """Return the newest month, or the one before where the newest has hardly begun."""
    newest = known.months[-1]
    reached = min(newest.end, known.seen[1] or newest.end)
    if newest.end > as_of:
        reached = min(reached, as_of)
    begun = reached - newest.start >= YOUNG
    return newest if begun or len(known.months) == 1 else known.months[-2]
