"""The one place where a local day, month, time or duration becomes UTC.

Where the clock was set back, a local time that occurs twice means the first; one that the clock
skipped moves forward by what was skipped, so a day whose midnight is missing starts when the clock jumps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from exporter.errors import UsageError

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)\s?(Z|z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_PERIOD: Final = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", re.ASCII)
_DURATION: Final = re.compile(
    r"(?=\d)(?:(?P<weeks>\d+)w)?(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m(?!s))?(?:(?P<seconds>\d+)s)?"
    r"(?:(?P<milliseconds>\d+)ms)?",
    re.ASCII,
)


@dataclass(frozen=True, order=True)
class Period:
    """A span of time [start, end), aware and in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.utcoffset() != timedelta(0) or self.end.utcoffset() != timedelta(0):
            raise ValueError(f"period {self.start} to {self.end}: both ends must be aware and in UTC")
        if self.end <= self.start:
            raise ValueError(f"period {self.start} to {self.end}: the end must be after the start")

    @property
    def hours(self) -> Fraction:
        """Its exact length in hours."""
        return Fraction((self.end - self.start) // timedelta(microseconds=1), 3_600_000_000)


def parse_period(text: str, zone: ZoneInfo) -> Period:
    """The local year, month or day that "2026", "2026-11" or "2026-11-03" names.

    Raises:
        UsageError: the text is none of these, or the zone skipped that day.
    """
    try:
        year, month, day = _matched(_PERIOD, text).groups()
        first = date(int(year), int(month or 1), int(day or 1))
        after = first + timedelta(days=1) if day else _next_month(first) if month else date(int(year) + 1, 1, 1)
        start, end = local_midnight(first, zone), local_midnight(after, zone)
    except (ValueError, OverflowError):
        raise UsageError(
            f"period {text!r}: expected a month, a day or a year; write it as 2026-11, 2026-11-03 or 2026"
        ) from None
    if start == end:
        raise UsageError(f"period {text!r}: {zone.key} skipped that day; choose another")
    return Period(start, end)


def parse_time(text: str, zone: ZoneInfo) -> datetime:
    """An ISO 8601 time as UTC; without an offset it is local to `zone`, a date is its local midnight.

    Raises:
        UsageError: the text is no such time.
    """
    try:
        day, clock, offset = _matched(_TIME, text).groups()
        local = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(offset or '').upper()}")
        return _utc(local if offset else local.replace(tzinfo=zone))
    except (ValueError, OverflowError):
        raise UsageError(
            f"time {text!r}: expected ISO 8601; write it as 2026-11-03, 2026-11-03T09:30 or 2026-11-03T09:30:00Z"
        ) from None


def parse_duration(text: str) -> timedelta:
    """A duration such as "30s", "5m", "1h30m", "1d" or "2w"; units go from the largest to the smallest.

    Raises:
        UsageError: the text is no such duration.
    """
    try:
        counts = _matched(_DURATION, text).groupdict()
        return timedelta(**{unit: int(count) for unit, count in counts.items() if count})
    except (ValueError, OverflowError):
        mend = f"write {text}s for seconds" if text.isdecimal() else "write it as 30s, 5m, 1h30m or 1d"
        raise UsageError(f"duration {text!r}: expected a number with its unit; {mend}") from None


def local_midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a local day, in UTC."""
    return _utc(datetime.combine(day, time(), tzinfo=zone))


def local_midnights(start: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
    """Every local midnight strictly between two instants, ascending, in UTC."""
    days = _dates(start.astimezone(zone).date() - timedelta(days=1), end.astimezone(zone).date())
    # A day that the zone skipped has the next day's midnight: the set holds it once.
    return sorted({m for day in days if start < (m := local_midnight(day, zone)) < end})


def local_months(start: datetime, end: datetime, zone: ZoneInfo) -> list[Period]:
    """The whole local months that overlap [start, end), ascending and contiguous."""
    first = start.astimezone(zone).date().replace(day=1)
    months = []
    while (begin := local_midnight(first, zone)) < end:
        following = _next_month(first)
        month = Period(begin, local_midnight(following, zone))
        if month.end > start:
            months.append(month)
        first = following
    return months


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _utc(local: datetime) -> datetime:
    # `fold=0` is the first of two; in a gap it takes the offset before, which moves forward.
    return local.replace(fold=0).astimezone(UTC)


def _next_month(first: date) -> date:
    return date(first.year + first.month // 12, first.month % 12 + 1, 1)


def _dates(first: date, last: date) -> Iterator[date]:
    for number in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(number)
