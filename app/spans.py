"""Ranges of local days: a day, a week, a month, a quarter, a year, or from one day to another.

In an address a range is written as people write it: ``2026-11-03``, ``2026-W45``, ``2026-11``, ``2026-Q4``, ``2026``,
``2026-11-03..2026-11-09`` (both days are in it). Days are those of the ledger's zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, Literal, cast, get_args
from zoneinfo import ZoneInfo

from pipelines.periods import local_midnight

Kind = Literal["month", "day", "week", "quarter", "year", "days"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_FORM: Final = re.compile(
    r"(?P<from>\d{4}-\d\d-\d\d)\.\.(?P<to>\d{4}-\d\d-\d\d)"
    r"|(?P<day>\d{4}-\d\d-\d\d)|(?P<month>\d{4}-\d\d)|(?P<week>\d{4}-W\d\d)|(?P<quarter>\d{4}-Q[1-4])|(?P<year>\d{4})",
    re.ASCII,
)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Days:
    """Local days [first, after), and how they are called."""

    kind: Kind
    first: date
    after: date

    @property
    def key(self) -> str:
        """As in the address."""
        match self.kind:
            case "day":
                return self.first.isoformat()
            case "week":
                return f"{self.first:%G-W%V}"
            case "month":
                return f"{self.first:%Y-%m}"
            case "quarter":
                return f"{self.first:%Y}-Q{(self.first.month + 2) // 3}"
            case "year":
                return f"{self.first:%Y}"
        return f"{self.first.isoformat()}..{self.last.isoformat()}"

    @property
    def last(self) -> date:
        """The last day in it."""
        return self.after - _DAY

    @property
    def count(self) -> int:
        """How many days."""
        return (self.after - self.first).days

    @property
    def label(self) -> str:
        """For people: ``November 2026``, ``3 Nov 2026``, ``3 to 9 Nov 2026``."""
        match self.kind:
            case "day":
                return f"{self.first:%-d %b %Y}"
            case "week":
                return f"Week {self.first:%V}, {_between(self.first, self.last)}"
            case "month":
                return f"{self.first:%B %Y}"
            case "quarter":
                return f"Q{(self.first.month + 2) // 3} {self.first:%Y}"
            case "year":
                return f"{self.first:%Y}"
        return _between(self.first, self.last)

    @property
    def short(self) -> str:
        """For a narrow control: ``W46, 9–15 Nov``."""
        if self.kind != "week":
            return self.label
        month = "" if self.first.month == self.last.month else f" {self.first:%b}"
        return f"W{self.first:%V}, {self.first:%-d}{month}–{self.last:%-d %b}"

    def before(self) -> Days:
        """The range before it: of the same kind, or as many days."""
        if self.kind == "days":
            return Days("days", self.first - (self.after - self.first), self.first)
        return containing(self.first - _DAY, self.kind)

    def year_before(self) -> Days:
        """The same range a year earlier; a week is the one of the same number, or the year's last."""
        if self.kind == "week":
            year, week, _ = self.first.isocalendar()
            return containing(date.fromisocalendar(year - 1, min(week, _weeks(year - 1)), 1), "week")
        if self.kind == "days":
            first = _year_earlier(self.first)
            return Days("days", first, first + (self.after - self.first))
        return containing(_year_earlier(self.first), self.kind)

    def bounds(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Its ends in UTC."""
        return local_midnight(self.first, zone), local_midnight(self.after, zone)


def parse(text: str) -> Days | None:
    """Return the range that a text names; None: it names none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    try:
        if match["from"]:
            first, last = date.fromisoformat(match["from"]), date.fromisoformat(match["to"])
            return Days("days", first, last + _DAY) if first <= last else None
        year = int(text[:4])
        day = {
            "day": lambda: date.fromisoformat(text),
            "week": lambda: date.fromisocalendar(year, int(text[6:]), 1),
            "month": lambda: date(year, int(text[5:]), 1),
            "quarter": lambda: date(year, 3 * int(text[6]) - 2, 1),
            "year": lambda: date(year, 1, 1),
        }[str(match.lastgroup)]()
        return containing(day, cast("Kind", match.lastgroup))
    except (ValueError, OverflowError):
        return None


def containing(day: date, kind: Kind) -> Days:
    """Return the range of a kind that a day lies in; of ``days`` the day alone."""
    match kind:
        case "week":
            first = day - timedelta(days=day.weekday())
            return Days(kind, first, first + timedelta(days=7))
        case "month":
            first = day.replace(day=1)
            return Days(kind, first, _months_on(first, 1))
        case "quarter":
            first = day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)
            return Days(kind, first, _months_on(first, 3))
        case "year":
            return Days(kind, date(day.year, 1, 1), date(day.year + 1, 1, 1))
    return Days(kind, day, day + _DAY)


def touching(first: date, after: date, kind: Kind) -> list[Days]:
    """Return the ranges of a kind that touch [first, after), the newest first."""
    found = []
    at = containing(after - _DAY, kind)
    while at.after > first:
        found.append(at)
        at = at.before()
    return found


def _between(first: date, last: date) -> str:
    if first == last:
        return f"{last:%-d %b %Y}"
    month = "" if (first.year, first.month) == (last.year, last.month) else f" {first:%b}"
    year = "" if first.year == last.year else f" {first:%Y}"
    return f"{first:%-d}{month}{year} to {last:%-d %b %Y}"


def _months_on(first: date, months: int) -> date:
    count = first.month - 1 + months
    return date(first.year + count // 12, count % 12 + 1, 1)


def _year_earlier(day: date) -> date:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year - 1, day=28)


def _weeks(year: int) -> int:
    return date(year, 12, 28).isocalendar().week
