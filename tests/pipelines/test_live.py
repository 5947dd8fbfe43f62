"""A live source is followed window by window: nothing lost, nothing twice, whatever clocks and servers do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines import lake
from pipelines.config import Config, load
from pipelines.ingest import Ingested, ingest
from pipelines.lake_upkeep import list_days
from pipelines.ledger import LAKE_NAME, open_ledger
from pipelines.live import name_of
from tests.end_to_end.test_prometheus import FakePrometheus, configure, serving

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Site:
    """A Prometheus, and a ledger that follows it."""

    def __init__(self, folder: Path, server: FakePrometheus, url: str) -> None:
        self.server, self.url = server, url
        self.config: Config = load(configure(folder, f'prometheus: "{url}"'))

    def store(self, start: datetime, end: datetime, every: timedelta = MINUTE) -> None:
        while start < end:
            self.server.scrape(start.timestamp(), 50, 300)
            start += every

    def ingest(self, now: datetime, *, windows: int | None = None) -> Ingested:
        """A pass at a time of day; `windows`: it is told to stop after so many."""
        self.server.asked.clear()
        seen: list[datetime] = []
        with open_ledger(self.config.ledger, "a test") as ledger:
            return ingest(
                ledger,
                self.config.sources,
                self.config,
                configured=True,
                now=now,
                progress=lambda _source, until: seen.append(until),
                stopped=lambda: windows is not None and len(seen) >= windows,
            )

    def held(self) -> list[datetime]:
        """The times of all samples in the lake, as often as they stand there."""
        with open_ledger(self.config.ledger, "a test") as ledger:
            paths = sorted({part.path for part in ledger.parts()})
            times = [t for part in lake.read(ledger.folder / LAKE_NAME, paths) for t in part["time"]]
        return sorted(times)

    def stored(self, before: datetime) -> list[datetime]:
        (times, _) = self.server.stored.values()
        return sorted(datetime.fromtimestamp(t, UTC) for t, _ in times if t < before.timestamp())

    def watermark(self) -> datetime | None:
        with open_ledger(self.config.ledger, "a test") as ledger:
            return ledger.watermarks().get(name_of(self.config.sources[0]))

    def longest_question(self) -> timedelta:
        questions = [query for query in self.server.asked if not query.startswith("sum(")]
        spans = [int(query.partition("[")[2].removesuffix("ms]")) for query in questions]
        return timedelta(milliseconds=max(spans))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    server = FakePrometheus()
    with serving(server) as address:
        yield Site(tmp_path, server, f"http://{address}")


def test_one_address_that_serves_two_clusters_is_followed_for_each(site: Site) -> None:
    """As a store of several tenants does, which a header or a label tells apart."""
    text = site.config.path.read_text().replace(
        "cluster: prod}", 'cluster: prod}\n  - {prometheus: "URL", cluster: lab}'
    )
    site.config.path.write_text(text.replace("URL", site.url))
    site.config = load(site.config.path)
    assert [source.cluster for source in site.config.sources] == ["prod", "lab"]
    site.store(NOON, NOON + HOUR)
    for now in (NOON + HOUR, NOON + HOUR, NOON + 2 * HOUR):
        site.ingest(now)
    with open_ledger(site.config.ledger, "a test") as ledger:
        names = [name_of(source) for source in site.config.sources]
        assert ledger.watermarks() == dict.fromkeys(names, NOON + 2 * HOUR)
        rows = {(day.cluster, day.samples) for day in list_days(ledger)}
    assert rows == {("prod", 60), ("lab", 60)}


def test_months_come_day_by_day_and_go_on_where_they_were_left(site: Site) -> None:
    site.store(NOON, NOON + 5 * DAY, 30 * MINUTE)
    now = NOON + 5 * DAY
    first = site.ingest(now, windows=2)
    assert first.samples == 24 + 48
    assert site.watermark() == datetime(2026, 10, 7, tzinfo=UTC)
    assert site.longest_question() == DAY
    site.ingest(now)
    assert site.longest_question() == DAY  # no day before the third is asked for again but for its last minutes
    assert site.held() == site.stored(now)
    assert site.watermark() == now
    with open_ledger(site.config.ledger, "a test") as ledger:
        assert [day.parts for day in list_days(ledger)] == [1] * 6


def test_a_hole_that_is_filled_later_counts_and_is_said(site: Site) -> None:
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + HOUR + 30 * MINUTE)
    site.store(NOON + HOUR + 30 * MINUTE, NOON + HOUR + 35 * MINUTE)
    assert site.ingest(NOON + HOUR + 35 * MINUTE).samples == 5
    site.store(NOON + HOUR, NOON + HOUR + 30 * MINUTE)  # the server has read its log again
    filled = site.ingest(NOON + HOUR + 40 * MINUTE)
    assert (filled.samples, filled.findings) == (30, {"late_data": 30})
    assert site.held() == site.stored(NOON + 2 * HOUR)
    assert site.ingest(NOON + HOUR + 41 * MINUTE).samples == 0


def test_after_the_look_back_a_hole_is_a_gap_and_not_asked_for_again(site: Site) -> None:
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + 2 * HOUR)
    site.store(NOON + 2 * HOUR, NOON + 12 * HOUR)
    assert site.ingest(NOON + 5 * HOUR).findings == {}
    assert site.longest_question() > HOUR
    assert site.ingest(NOON + 10 * HOUR).findings == {"gap": 1}
    assert site.ingest(NOON + 10 * HOUR + 5 * MINUTE).findings == {}
    assert site.longest_question() == 10 * MINUTE
    assert site.held() == site.stored(NOON + 10 * HOUR + 5 * MINUTE)


def test_a_clock_that_was_ahead_loses_nothing_and_gives_nothing_twice(site: Site) -> None:
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + 3 * HOUR)
    assert site.watermark() == NOON + 3 * HOUR
    for minutes in (5, 10, 15):
        site.store(NOON + HOUR + (minutes - 5) * MINUTE, NOON + HOUR + minutes * MINUTE)
        assert site.ingest(NOON + HOUR + minutes * MINUTE).samples == 5
    assert site.held() == site.stored(NOON + 2 * HOUR)


def test_a_clock_that_is_set_back_for_a_while_loses_nothing_and_gives_nothing_twice(site: Site) -> None:
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + HOUR)
    assert site.ingest(NOON + 10 * MINUTE).samples == 0
    site.store(NOON + HOUR, NOON + HOUR + 5 * MINUTE)
    assert site.ingest(NOON + HOUR + 5 * MINUTE).samples == 5
    assert site.held() == site.stored(NOON + 2 * HOUR)


def test_what_is_stored_minutes_late_counts_and_is_said_from_a_minute_on(site: Site) -> None:
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + HOUR)
    site.store(NOON + HOUR - 0.5 * MINUTE, NOON + HOUR)
    scrape = site.ingest(NOON + HOUR + MINUTE)
    assert (scrape.samples, scrape.findings) == (1, {})
    site.store(NOON + HOUR - 5.5 * MINUTE, NOON + HOUR - 5 * MINUTE)
    late = site.ingest(NOON + HOUR + 2 * MINUTE)
    assert (late.samples, late.findings) == (1, {"late_data": 1})
    assert site.held() == site.stored(NOON + HOUR)


def test_single_samples_that_come_hours_late_are_found_by_their_count(site: Site) -> None:
    now = NOON + HOUR
    late = [NOON + nth * MINUTE for nth in (21, 22, 23)]  # too few to be a hole
    for nth in range(60):
        if (at := NOON + nth * MINUTE) not in late:
            site.store(at, at + MINUTE)
    site.ingest(now)
    for minutes in range(20, 140, 20):
        site.store(now + (minutes - 20) * MINUTE, now + minutes * MINUTE)
        assert site.ingest(now + minutes * MINUTE).samples == 20
    for at in late:
        site.store(at, at + MINUTE)
    found = [site.ingest(now + minutes * MINUTE) for minutes in range(140, 320, 20)]
    assert sum(one.samples for one in found) == 3
    assert [one.findings for one in found if one.findings] == [{"late_data": 3}]
    assert site.held() == site.stored(NOON + 12 * HOUR)


def test_what_nobody_sent_late_is_not_read_again(site: Site) -> None:
    site.store(NOON, NOON + 6 * HOUR)
    site.ingest(NOON + 6 * HOUR)
    for minutes in range(5, 60, 5):
        site.store(NOON + 6 * HOUR + (minutes - 5) * MINUTE, NOON + 6 * HOUR + minutes * MINUTE)
        site.ingest(NOON + 6 * HOUR + minutes * MINUTE)
        spans = [query for query in site.server.asked if not query.startswith("sum(")]
        assert {query.partition("[")[2] for query in spans} <= {"600000ms]", "300000ms]"}
        counts = len(site.server.asked) - len(spans)
        assert counts <= 8


def test_a_server_that_does_not_count_is_followed_all_the_same(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.server, "_count", lambda *_: {"status": "error", "errorType": "bad_data", "error": "no"})
    site.store(NOON, NOON + HOUR)
    site.ingest(NOON + HOUR)
    site.store(NOON + HOUR, NOON + 2 * HOUR)
    assert site.ingest(NOON + 2 * HOUR).samples == 60
    assert site.held() == site.stored(NOON + 2 * HOUR)
