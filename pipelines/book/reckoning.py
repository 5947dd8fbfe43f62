"""What a period comes to: a closed one as it was closed, an open one as it is known now with what was booked in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl

from exporter.errors import WorkError
from pipelines.book import spans
from pipelines.book.corrections import late_entries
from pipelines.book.entries import Entry
from pipelines.book.journal import journal
from pipelines.book.shelf import FOLDER, ClosedBook, period_of, shelf
from pipelines.config import Config
from pipelines.findings import within
from pipelines.instants import from_ms
from pipelines.metering import Metered
from pipelines.periods import Period, local_months
from pipelines.rating import Rated, clipped, rate
from pipelines.report import Report
from pipelines.statement import make_report, within_of
from pipelines.tables import Finding


@dataclass(frozen=True)
class Reckoned:
    """A period's money: rated, reported, and what the book adds.

    Attributes:
        findings: those of the report that don't come from rating.
        closed: the book that it comes from; None: the period is open.
        kept: what it was metered from, of (a part of) a closed month; None: what is known now.
        pieces: of a span over closed months each month that it was added up from, in order.
    """

    config: Config
    rated: Rated
    report: Report
    entries: list[Entry]
    findings: list[Finding]
    closed: ClosedBook | None = None
    kept: Metered | None = None
    pieces: tuple[Reckoned, ...] = ()

    @property
    def period(self) -> Period:
        """Its bounds."""
        return Period(self.report.period.from_, self.report.period.to)

    def metered_from(self, known: Metered) -> Metered:
        """Return what it was metered from, where `known` is what is known now."""
        return known if self.kept is None else self.kept

    def alone(self) -> tuple[Reckoned, ...]:
        """Return what was rated by itself: its pieces, or the whole."""
        return self.pieces or (self,)


class Reckoning:
    """The book over what is metered now."""

    def __init__(self, config: Config, metered: Metered, as_of: datetime) -> None:
        self._config, self.metered, self._as_of = config, metered, as_of
        self.books: Path = config.ledger / FOLDER
        self.closed = shelf(self.books)
        self.out_of_step = out_of_step(config, self.closed)
        self.open_period = None if self.out_of_step else open_period(config, metered, self.closed)
        self._bounds = [(book, period_of(book)) for book in self.closed]
        self._findings: list[Finding] = []
        self._entries: list[Entry] | None = None

    def hold_in_step(self) -> None:
        """Hold the configuration to the book that it goes on with.

        Raises:
            WorkError: it counts months or money otherwise.
        """
        if self.out_of_step:
            raise WorkError(f"{self._config.path.name}: {self.out_of_step}")

    @property
    def entries(self) -> list[Entry]:
        """What is booked in periods that are open."""
        if self._entries is None:
            done = {book.period for book in self.closed}
            booked = [e for e in journal(self.books) if e.period not in done]
            late: list[Entry] = []
            if self.closed and self.open_period is not None:
                late, self._findings = late_entries(self.closed, self.metered, self._config, self.open_period)
            self._entries = [*late, *booked]
        return self._entries

    def of(self, period: Period) -> Reckoned:
        """Return what a period comes to. Entries count in any period that holds the whole month they are booked in.

        A span over closed months is the sum of its months: the closed ones as they were closed.

        Raises:
            WorkError: its months are in two currencies.
        """
        months = local_months(period.start, period.end, self._config.timezone)
        for book, bounds in self._bounds:
            # By name too: a zone that was changed since moves no closed month.
            if bounds == period or (months == [period] and name(period, self._config) == book.period):
                return of_book(book)
        if not any(bounds.start < period.end and period.start < bounds.end for _, bounds in self._bounds):
            return self._open(period)
        pieces = list(self._pieces(period))
        return pieces[0] if len(pieces) == 1 else self._added(pieces, period)

    def _pieces(self, period: Period) -> Iterator[Reckoned]:
        """Yield a period's parts, cut at the bounds of closed months, and what is open at local months."""
        months = local_months(period.start, period.end, self._config.timezone)
        edges = [period.end, *(m.end for m in months), *(bounds.start for _, bounds in self._bounds)]
        start = period.start
        while start < period.end:
            closed = next(((b, p) for b, p in self._bounds if p.start <= start < p.end), None)
            if closed is None:
                piece = Period(start, min(e for e in edges if e > start))
                yield self._open(piece)
            else:
                book, bounds = closed
                piece = Period(start, min(bounds.end, period.end))
                yield of_book(book) if piece == bounds else part_of_book(book, piece)
            start = piece.end

    def _added(self, pieces: Sequence[Reckoned], period: Period) -> Reckoned:
        alone = [spans.Piece(piece.config, piece.rated, piece.report) for piece in pieces]
        cards = clipped(self.metered.usage, within_of(period)).select(pl.struct("cluster", "device").n_unique()).item()
        rated, report = spans.added(alone, self._config, period, self._as_of, cards)
        entries = [entry for piece in pieces for entry in piece.entries]
        findings = [finding for piece in pieces for finding in piece.findings]
        return Reckoned(self._config, rated, report, entries, findings, pieces=tuple(pieces))

    def _open(self, period: Period) -> Reckoned:
        """Return what a period without closed months comes to, by what is known and configured today."""
        months = local_months(period.start, period.end, self._config.timezone)
        inside = {name(m, self._config) for m in months if period.start <= m.start and m.end <= period.end}
        entries = [e for e in self.entries if e.period in inside]
        findings = [
            *within(self.metered.findings, within_of(period)),
            *(self._findings if self.open_period in inside else []),
            *([Finding("late_data", 1, self.out_of_step)] if self.out_of_step else []),
        ]
        rated = rate(self.metered, self._config, within_of(period))
        report = make_report(
            rated,
            self._config,
            period,
            [*findings, *rated.findings],
            self._as_of,
            adjustments=sums(entries),
        )
        return Reckoned(self._config, rated, report, entries, findings)


def of_book(book: ClosedBook) -> Reckoned:
    """Return a closed period: rated by what was metered and configured then; its report is the one that was kept."""
    config, metered = book.config, book.metered()
    rated = rate(metered, config, within_of(period_of(book)))
    return Reckoned(config, rated, book.report, book.entries, metered.findings, book, metered)


def part_of_book(book: ClosedBook, part: Period) -> Reckoned:
    """Return a part of a closed month: rated by what was metered and configured then."""
    config, metered, within_part = book.config, book.metered(), within_of(part)
    findings = within(metered.findings, within_part)
    rated = rate(metered, config, within_part)
    report = make_report(rated, config, part, [*findings, *rated.findings], book.report.as_of)
    return Reckoned(config, rated, report, [], findings, kept=metered)


def sums(entries: Iterable[Entry]) -> dict[str, Decimal]:
    """Return what entries come to by tenant."""
    found: dict[str, Decimal] = defaultdict(Decimal)
    for entry in entries:
        found[entry.tenant] += entry.amount
    return dict(found)


def name(month: Period, config: Config) -> str:
    """Return a local month as "2026-10"."""
    return f"{month.start.astimezone(config.timezone):%Y-%m}"


def out_of_step(config: Config, closed: list[ClosedBook]) -> str:
    """Say why the book can't go on under a configuration; "" where it can."""
    if not closed:
        return ""
    last = closed[-1]
    then, end = last.config, period_of(last).end
    if config.currency != then.currency:
        return f"currency {config.currency} isn't the book's, {then.currency}; restore it, or begin another ledger"
    if local_months(end, end.replace(microsecond=1), config.timezone)[0].start != end:
        return (
            f"no month of timezone {config.timezone.key} begins where {last.period} ended: time would be billed twice"
            f" or never; restore {then.timezone.key}"
        )
    return ""


def open_period(config: Config, metered: Metered, closed: list[ClosedBook]) -> str | None:
    """Return the month that comes to be closed next: after the last closed one, else the first with data."""
    if closed:
        end = period_of(closed[-1]).end
        return name(local_months(end, end.replace(microsecond=1), config.timezone)[0], config)
    if metered.span is None:
        return None
    start, end = (from_ms(t) for t in metered.span)
    return name(local_months(start, end, config.timezone)[0], config)
