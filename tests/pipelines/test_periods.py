from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import UsageError
from pipelines.periods import (
    Period,
    local_midnight,
    local_midnights,
    local_months,
    parse_duration,
    parse_period,
    parse_time,
)

# Zones whose clocks change at midnight, by half an hour, by a whole day, or on another date.
zones = st.sampled_from(
    [
        *("UTC", "America/New_York", "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut", "America/Havana"),
        *("Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca"),
    ]
).map(ZoneInfo)
instants = st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
spans = st.integers(min_value=1, max_value=100 * 86400).map(lambda seconds: timedelta(seconds=seconds))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "start", "hours"),
    [
        ("2026-11", "America/New_York", "2026-11-01T04:00", 721),
        ("2026-03", "America/New_York", "2026-03-01T05:00", 743),
        ("2026-03", "Europe/Berlin", "2026-02-28T23:00", 743),
        ("2026-10", "Europe/Berlin", "2026-09-30T22:00", 745),
        ("2020-10", "Europe/Amsterdam", "2020-09-30T22:00", 745),
        ("2026-11", "UTC", "2026-11-01T00:00", 720),
        ("2024-02", "UTC", "2024-02-01T00:00", 29 * 24),
        ("2026-12", "UTC", "2026-12-01T00:00", 744),
        ("2026", "America/New_York", "2026-01-01T05:00", 8760),
        ("2026-11-01", "America/New_York", "2026-11-01T04:00", 25),
        ("2026-03-08", "America/New_York", "2026-03-08T05:00", 23),
        # The clock jumps from 00:00 to 01:00: the day starts at the jump.
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00", 23),
        ("2018-11", "America/Sao_Paulo", "2018-11-01T03:00", 719),
        ("2026-03-29", "Asia/Beirut", "2026-03-28T22:00", 23),
        # Midnight occurs twice: the day starts at the first one.
        ("2026-11-01", "America/Havana", "2026-11-01T04:00", 25),
        ("2026-04-05", "Australia/Lord_Howe", "2026-04-04T13:00", Fraction(49, 2)),
        ("2011-12", "Pacific/Apia", "2011-12-01T10:00", 30 * 24),
    ],
)
def test_a_period_is_local_and_as_long_as_its_clock_says(text: str, zone: str, start: str, hours: Fraction) -> None:
    period = parse_period(text, ZoneInfo(zone))
    assert period.start == utc(start)
    assert period.hours == hours


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-13",
        "2026-00",
        "2026-02-30",
        "26-11",
        "2026-11-",
        "2026-1",
        "2026/11",
        "2026-11-03T00",
        "9999",
        "0000",
        "²026",
    ],
)
def test_what_is_no_period_is_refused_with_the_three_forms(text: str) -> None:
    with pytest.raises(UsageError, match="expected a month, a day or a year; write it as 2026-11, 2026-11-03 or 2026"):
        parse_period(text, ZoneInfo("UTC"))


def test_a_day_that_the_zone_skipped_is_refused() -> None:
    with pytest.raises(UsageError, match="Pacific/Apia skipped that day"):
        parse_period("2011-12-30", ZoneInfo("Pacific/Apia"))


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2026-11-03", "America/New_York", "2026-11-03T05:00"),
        ("2026-11-03T09:30", "America/New_York", "2026-11-03T14:30"),
        ("2026-11-03 09:30:15", "America/New_York", "2026-11-03T14:30:15"),
        ("2026-11-03T09:30:00.25Z", "America/New_York", "2026-11-03T09:30:00.25"),
        ("2026-11-03T09:30:00z", "America/New_York", "2026-11-03T09:30"),
        ("2026-11-03T09:30+05:45", "America/New_York", "2026-11-03T03:45"),
        ("2026-11-03T09:30-0300", "America/New_York", "2026-11-03T12:30"),
        ("2026-11-03 09:30:00 +01", "America/New_York", "2026-11-03T08:30"),
        # Twice on that day: the first.
        ("2026-11-01T01:30", "America/New_York", "2026-11-01T05:30"),
        # Skipped on that day: an hour later by the clock.
        ("2026-03-08T02:30", "America/New_York", "2026-03-08T07:30"),
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00"),
    ],
)
def test_a_time_without_offset_is_local(text: str, zone: str, instant: str) -> None:
    assert parse_time(text, ZoneInfo(zone)) == utc(instant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-11",
        "20261103",
        "2026-W40-1",
        "2026-11-03T25:00",
        "2026-11-03T09",
        "2026-11-03T09:30 EST",
        "0001-01-01",
        "1793700000",
    ],
)
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="expected ISO 8601; write it as 2026-11-03, "):
        parse_time(text, ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1d", 86400),
        ("2w", 1209600),
        ("0s", 0),
        ("1500ms", 1.5),
        ("1m1ms", 60.001),
    ],
)
def test_a_duration_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("60", "write 60s for seconds"),
        ("", "write it as 30s, 5m, 1h30m or 1d"),
        ("5 m", "write it as 30s"),
        ("-5m", "write it as 30s"),
        ("1.5h", "write it as 30s"),
        ("30m1h", "write it as 30s"),
        ("5min", "write it as 30s"),
        ("99999999999w", "write it as 30s"),
    ],
)
def test_what_is_no_duration_is_refused_with_a_mend(text: str, mend: str) -> None:
    with pytest.raises(UsageError, match=f"duration '{text}': expected a number with its unit; {mend}"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (datetime(2026, 1, 1), datetime(2026, 1, 2)),  # noqa: DTZ001
        (datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2026, 1, 2, tzinfo=UTC)),
        (utc("2026-01-01"), utc("2026-01-01")),
        (utc("2026-01-02"), utc("2026-01-01")),
    ],
)
def test_a_period_is_in_utc_and_has_a_length(start: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match=r"both ends|the end must be after the start"):
        Period(start, end)


def test_midnights_at_the_ends_are_left_out() -> None:
    zone = ZoneInfo("America/New_York")
    month = parse_period("2026-11", zone)
    inside = local_midnights(month.start, month.end, zone)
    assert len(inside) == 29
    assert inside[:2] == [utc("2026-11-02T05:00"), utc("2026-11-03T05:00")]


def test_a_skipped_day_has_no_midnight_of_its_own() -> None:
    zone = ZoneInfo("Pacific/Apia")
    assert local_midnights(utc("2011-12-29T00:00"), utc("2012-01-01T00:00"), zone) == [
        utc("2011-12-29T10:00"),
        utc("2011-12-30T10:00"),
        utc("2011-12-31T10:00"),
    ]


@given(instants, spans, zones)
def test_midnights_are_the_days_of_the_span(start: datetime, span: timedelta, zone: ZoneInfo) -> None:
    end = start + span
    midnights = local_midnights(start, end, zone)
    edges = [start, *midnights, end]
    assert all(one < other for one, other in pairwise(edges))
    assert all(timedelta(hours=22) <= other - one <= timedelta(hours=26) for one, other in pairwise(midnights))
    # Every local date that the span touches starts at one of its edges; St John's returned to the day before.
    days = {moment.astimezone(zone).date() for moment in midnights}
    assert len(days) == len(midnights)
    assert all(local_midnight(day, zone) in midnights for day in days)


@given(instants, spans, zones)
def test_months_cover_the_span_without_a_hole(start: datetime, span: timedelta, zone: ZoneInfo) -> None:
    end = start + span
    months = local_months(start, end, zone)
    assert months[0].start <= start < months[0].end
    assert months[-1].start < end <= months[-1].end
    assert all(one.end == other.start for one, other in pairwise(months))
    for month in months:
        local = (month.start + timedelta(days=3)).astimezone(zone)
        assert month == parse_period(f"{local:%Y-%m}", zone)


@given(st.dates(date(1990, 1, 1), date(2037, 1, 1)), zones)
def test_a_day_starts_where_the_one_before_ends(day: date, zone: ZoneInfo) -> None:
    starts = [local_midnight(day + timedelta(days=n), zone) for n in range(3)]
    assert starts == sorted(starts)
    if starts[0] < starts[1] < starts[2]:
        first, second = (parse_period(f"{day + timedelta(days=n)}", zone) for n in range(2))
        assert first.end == second.start


@given(instants, zones)
def test_a_time_with_an_offset_is_what_it_was(instant: datetime, zone: ZoneInfo) -> None:
    assert parse_time(instant.astimezone(zone).isoformat(), zone) == instant


def test_hours_are_exact() -> None:
    assert Period(utc("2026-01-01T00:00"), utc("2026-01-01T00:20")).hours == Fraction(1, 3)
