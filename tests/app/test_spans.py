"""Ranges of days: what they are called, and what comes before them."""

from __future__ import annotations

from datetime import date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.spans import KINDS, Days, Kind, containing, parse, touching

DAYS = st.dates(date(1990, 1, 1), date(2100, 12, 31))


@pytest.mark.parametrize(
    ("text", "label", "first", "last"),
    [
        ("2026", "2026", "2026-01-01", "2026-12-31"),
        ("2026-Q1", "Q1 2026", "2026-01-01", "2026-03-31"),
        ("2026-02", "February 2026", "2026-02-01", "2026-02-28"),
        ("2026-W01", "Week 01, 29 Dec 2025 to 4 Jan 2026", "2025-12-29", "2026-01-04"),
        ("2026-W53", "Week 53, 28 Dec 2026 to 3 Jan 2027", "2026-12-28", "2027-01-03"),
        ("2026-11-03", "3 Nov 2026", "2026-11-03", "2026-11-03"),
        ("2026-11-03..2026-11-09", "3 to 9 Nov 2026", "2026-11-03", "2026-11-09"),
        ("2026-10-28..2026-11-09", "28 Oct to 9 Nov 2026", "2026-10-28", "2026-11-09"),
        ("2026-11-03..2026-11-03", "3 Nov 2026", "2026-11-03", "2026-11-03"),
    ],
)
def test_a_range_is_named_in_the_address(text: str, label: str, first: str, last: str) -> None:
    days = parse(text)
    assert days is not None
    assert (days.label, days.first.isoformat(), days.last.isoformat()) == (label, first, last)
    assert days.key == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "now-7d", "2026-13", "2026-W54", "2025-W53", "2026-Q5", "2026-02-30", "9999", "0000", "2026-11-3"),
        *("2026-11-03..", "2026-11-09..2026-11-03", "<script>", "９０２６"),
    ],
)
def test_what_is_no_range_names_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "before", "year_before"),
    [
        ("2026-11", "2026-10", "2025-11"),
        ("2026-01", "2025-12", "2025-01"),
        ("2024-02-29", "2024-02-28", "2023-02-28"),
        ("2026-W53", "2026-W52", "2025-W52"),
        ("2026-Q1", "2025-Q4", "2025-Q1"),
        ("2026-11-03..2026-11-09", "2026-10-27..2026-11-02", "2025-11-03..2025-11-09"),
    ],
)
def test_there_is_one_before_and_one_a_year_before(text: str, before: str, year_before: str) -> None:
    days = parse(text)
    assert days is not None
    assert (days.before().key, days.year_before().key) == (before, year_before)


@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("UTC", "2026-04-01T00:00Z", "2026-04-30T00:00Z"),
        ("Europe/Berlin", "2026-03-31T22:00Z", "2026-04-29T22:00Z"),
        ("America/New_York", "2026-04-01T04:00Z", "2026-04-30T04:00Z"),
    ],
)
def test_the_last_day_that_is_picked_is_in_it_whole(zone: str, start: str, end: str) -> None:
    days = parse("2026-04-01..2026-04-29")
    assert days is not None
    assert (days.count, days.last) == (29, date(2026, 4, 29))
    assert days.bounds(ZoneInfo(zone)) == (datetime.fromisoformat(start), datetime.fromisoformat(end))


@given(DAYS, st.sampled_from(KINDS))
def test_ranges_of_a_kind_tile_the_calendar(day: date, kind: Kind) -> None:
    here = containing(day, kind)
    assert here.first <= day < here.after
    assert parse(here.key) == here
    assert here.before().after == here.first


@given(DAYS, st.integers(1, 400), st.sampled_from([k for k in KINDS if k != "days"]))
def test_what_touches_a_ledger_covers_it(first: date, count: int, kind: Kind) -> None:
    after = date.fromordinal(first.toordinal() + count)
    found = touching(first, after, kind)
    assert found[-1].first <= first
    assert found[0].after >= after
    assert all(late.first == early.after for late, early in pairwise(found))
    assert all(isinstance(days, Days) for days in found)
