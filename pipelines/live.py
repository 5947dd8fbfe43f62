"""A live source → what it has stored since it was read last: window by window, holes and late samples asked again.

Each window is an import of its own, and its watermark moves in the same transaction: a pass that is killed goes on
where the last whole window ended, and months are back-filled without holding more than a day of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

import polars as pl

from pipelines import lake
from pipelines.config import Config, Source
from pipelines.instants import from_ms, to_ms
from pipelines.intervals import Interval, union
from pipelines.ledger import Import, Ledger
from pipelines.sources import read
from pipelines.sources.prometheus import read_windows, stored_counts
from pipelines.tables import Batch, Finding

STORED_LATE: Final = timedelta(minutes=10)
"""How far back a live source is asked again each time: a scrape is stamped when it starts and stored when it has ended,
up to its timeout later, and remote writers lag behind by minutes."""
IN_TIME: Final = timedelta(minutes=1)
"""Samples stored later than this after their stamp are late, and said to be: no scrape may take longer."""
HOLE: Final = timedelta(minutes=5)
"""The time without any sample of a source that is asked for again; with a longer scrape interval three of these."""
LOOK_BACK: Final = timedelta(hours=6)
"""For how long a hole is asked for again: a Prometheus that was away replays its log, agents send what they kept."""
SLICE: Final = timedelta(hours=1)
"""The longest time whose samples are counted at once: what is read again where the count has changed."""
MILLISECOND: Final = timedelta(milliseconds=1)


class Counted(NamedTuple):
    """How many samples a server said it had in [start, end) when it was asked; times in ms."""

    start: int
    end: int
    asked: int
    samples: int


@dataclass(frozen=True)
class Window:
    """What of a live source is taken in at once.

    Attributes:
        entry: None: there was nothing in it.
        until: the source's new watermark.
        holes: what is asked for again, in ms.
        counted: what tells whether samples came late.
    """

    entry: Import | None
    source: str
    until: datetime
    holes: list[Interval]
    counted: Sequence[Counted] = ()


def name_of(source: Source) -> str:
    """Return what a live source is called in the ledger, whose watermark is its own.

    One address may be asked for GPUs and for Kubernetes, for several clusters, and for several tenants of a store that
    a header tells apart.
    """
    kind = "" if source.kind == "prometheus" else f"{source.kind} "
    of = [*([source.cluster] if source.cluster else []), *(f"{k}: ${v}" for k, v in sorted(source.headers_env.items()))]
    return f"{kind}{source.written}" + (f" ({', '.join(of)})" if of else "")


def windows(ledger: Ledger, source: Source, config: Config, now: datetime) -> Iterator[Window]:
    """Yield what a live source has stored since it was read last; each is to be added before the next is asked for.

    Raises:
        SourceError: it can't be read; what was yielded is whole.
    """
    name = name_of(source)
    since = ledger.watermark(name)
    if since is not None and since > now:
        # The clock was ahead when that was read. What is stamped by then may not have been there yet.
        newest = ledger.newest(name)
        since = None if newest is None else min(newest + MILLISECOND, now)
    if since is not None and since >= now:
        return
    if source.kind == "prometheus":
        yield from _Following(ledger, source, config, now).windows(since)
        return
    if source.kind == "slurmrestd":
        # It looks back by itself, and each pass is told again what the one before was.
        batch = read(source, config, None if since is None else (since, now))
        batch.records = ledger.new_rows("record", batch.records)
        batch.accounting = ledger.new_rows("accounting", batch.accounting)
    else:
        # What a pod held is told anew, and longer, as long as it runs: equal runs are one.
        batch = read(source, config, None if since is None else (since - STORED_LATE, now))
    entry = _entry(source, batch, since, now, now)
    if entry is not None:
        yield Window(entry, name, now, [])


class _Following:
    """One pass over a source of samples.

    Attributes:
        holes: what is to be asked for again with the next pass.
        counted: as the ledger holds it; renewed once what has changed was read.
    """

    def __init__(self, ledger: Ledger, source: Source, config: Config, now: datetime) -> None:
        self._ledger, self._source, self._now = ledger, source, now
        self._name = name_of(source)
        self._shortest = max(HOLE, 3 * (config.scrape_interval or HOLE / 3)) // MILLISECOND
        self._late = Batch()
        self.holes: list[Interval] = []
        self.counted = [Counted(*row) for row in ledger.counted(self._name)]

    def windows(self, since: datetime | None) -> Iterator[Window]:
        """Yield what was stored since, and what was stored late."""
        counted, changed = self._recounted(since)
        if since is not None:
            yield from self._asked_again(since, changed)
        self.counted = counted
        for read_until, batch in read_windows(self._source, None if since is None else (since, self._now)):
            # Where the whole store is read, what is stamped later than now belongs to the next pass.
            until = min(read_until, self._now)
            batch.samples = batch.samples.filter(pl.col("time") < self._now)
            self.holes += self._holes(batch.samples, since, until)
            yield self._window(batch, since, until)
            since = until
        if since is not None and (self._late.samples.height or self._late.findings):
            yield self._window(Batch(), since, since)

    def _window(self, batch: Batch, since: datetime | None, until: datetime) -> Window:
        """Return a window with what was late before it."""
        batch.samples = pl.concat([batch.samples, self._late.samples], how="diagonal")
        batch.findings = [*batch.findings, *self._late.findings]
        self._late = Batch()
        entry = _entry(self._source, batch, since, until, self._now)
        return Window(entry, self._name, until, union(self.holes), self.counted)

    def _recounted(self, since: datetime | None) -> tuple[list[Counted], list[Interval]]:
        """Ask how many samples slices of the look-back have; return the counts, and which slices have changed.

        A slice is counted just before it is asked for the last time as a matter of course, so what comes afterwards
        shows in its count. It is counted again when it is twice as old, four times, and so on, and at the end of the
        look-back: a few counts a pass, however often passes come.
        """
        now, late = to_ms(self._now), STORED_LATE // MILLISECOND
        oldest = now - LOOK_BACK // MILLISECOND
        due = [c for c in self.counted if now - c.end >= 2 * max(c.asked - c.end, late) or c.end <= oldest]
        begin = max((c.end for c in self.counted), default=oldest if since is None else to_ms(since) - late)
        edges = [*range(max(begin, oldest), now - late, SLICE // MILLISECOND), now - late]
        fresh = [] if begin >= now - late else list(pairwise(edges))
        asked = stored_counts(self._source, [*((c.start, c.end) for c in due), *fresh])
        counted = {(c.start, c.end): c for c in self.counted}
        changed = []
        for (start, end), samples in zip([*((c.start, c.end) for c in due), *fresh], asked, strict=True):
            before = counted.get((start, end))
            if samples is not None:
                if before is not None and before.samples != samples:
                    changed.append((start, end))
                counted[start, end] = Counted(start, end, now, samples)
        return [c for c in counted.values() if c.end > oldest], changed

    def _asked_again(self, since: datetime, changed: Sequence[Interval]) -> Iterator[Window]:
        """Find what was stored since, and which holes are left; yield where it is much."""
        end = to_ms(since)
        holes = [(a, min(b, end)) for a, b in self._ledger.holes(self._name) if a < end]
        self.holes = list(holes)
        for first, last in union([*holes, *changed, (to_ms(since - STORED_LATE), end)]):
            inside = [hole for hole in holes if first <= hole[0] < last]
            times = pl.Series("time", [], pl.Int64)
            for _, batch in read_windows(self._source, (from_ms(first), from_ms(last))):
                self._keep_late(batch.samples, since)
                times = pl.concat([times, batch.samples["time"].dt.epoch("ms").unique()])
                if self._late.samples.height >= lake.ROWS_AT_ONCE:
                    yield self._window(Batch(), since, since)
            self._settle(inside, times)

    def _keep_late(self, asked: pl.DataFrame, since: datetime) -> None:
        late = self._ledger.unseen(asked, self._name)
        self._late.samples = pl.concat([self._late.samples, late], how="diagonal")
        times = late.filter(pl.col("time") < since - IN_TIME)["time"].dt.epoch("ms").sort()
        if len(times):
            detail = "samples that were stored later than the window that they belong to was read"
            self._say(Finding("late_data", len(times), detail, self._source.written, times[0], times[-1] + 1))

    def _settle(self, holes: Sequence[Interval], times: pl.Series) -> None:
        """Put what is left of holes in their place; after `LOOK_BACK` they are no more asked for, and said."""
        for hole in holes:
            self.holes.remove(hole)
            for left in self._between(times, *hole):
                if from_ms(left[1]) >= self._now - LOOK_BACK:
                    self.holes.append(left)
                else:
                    detail = "nothing was stored in time: what nobody else knows of it is unobserved"
                    self._say(Finding("gap", 1, detail, self._source.written, *left))

    def _say(self, finding: Finding) -> None:
        self._late.findings = [*self._late.findings, finding]

    def _holes(self, samples: pl.DataFrame, since: datetime | None, until: datetime) -> list[Interval]:
        """Return the holes of a window that are worth being asked for again."""
        times = samples["time"].dt.epoch("ms")
        if until < self._now - LOOK_BACK or (since is None and times.is_empty()):
            return []
        start = times.sort()[0] if since is None else to_ms(since)
        return self._between(times, start, to_ms(until))

    def _between(self, times: pl.Series, start: int, end: int) -> list[Interval]:
        """Return where between two times there is no sample for so long that it is a hole."""
        inside = times.filter((times >= start) & (times < end)).unique().sort().to_list()
        return [(a, b) for a, b in pairwise([start, *inside, end]) if b - a >= self._shortest]


def _entry(source: Source, batch: Batch, since: datetime | None, until: datetime, now: datetime) -> Import | None:
    if batch.samples.is_empty() and batch.records.is_empty() and not batch.facts and not batch.findings:
        return None
    name = name_of(source)
    window = f"{name} {since.isoformat() if since else 'start'} {until.isoformat()}"
    if since == until:  # what was late: there may be more of it with the next pass
        window = f"{window} {now.isoformat()} {batch.samples.height}"
    import_id = hashlib.sha256(f"{window}\0{source.cluster}".encode()).hexdigest()
    return Import(import_id, source.kind, name, True, batch)
