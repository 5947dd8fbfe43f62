"""A server's samples, window by window, several requests in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from exporter.catalog import resolve
from pipelines.facts import joined
from pipelines.sources.identities import Identities
from pipelines.sources.identity import INFO_SERIES
from pipelines.sources.prometheus.answer import Answer, Question
from pipelines.sources.prometheus.columns import Columns
from pipelines.sources.prometheus.connection import AnswerTooLargeError
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.prometheus.server import Server, Ways, faster_ways
from pipelines.sources.prometheus.span import stored_span
from pipelines.sources.tally import Tally
from pipelines.sources.training import TRAININGS, training_facts
from pipelines.tables import SAMPLE_LABELS, Batch, Finding
from pipelines.uncollected import uncollected

if TYPE_CHECKING:
    from pipelines.config import Source

IN_FLIGHT: Final = 3
"""Requests at once: enough to keep a server and this machine busy while the other works."""
_LONGEST: Final = timedelta(days=1)
_SHORTEST: Final = timedelta(minutes=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def read_prometheus(
    source: Source,
    window: tuple[datetime, datetime] | None,
    *,
    api: PrometheusApi | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ways: Ways = faster_ways,
) -> Batch:
    """All samples of catalogue metrics in ``window``; without one, all that the server has.

    Args:
        ways: finds how the server can be read besides its query API.

    Raises:
        SourceError: the server can't be asked, or answers in part only.
    """
    batches = [batch for _, batch in read_windows(source, window, api=api, now=now, ways=ways)]
    counts: dict[tuple[str, str], int] = {}
    for finding in (finding for batch in batches for finding in batch.findings):
        counts[finding.code, finding.detail] = counts.get((finding.code, finding.detail), 0) + finding.count
    tables = [batch.samples for batch in batches if batch.samples.height]
    return Batch(
        samples=pl.concat(tables, how="diagonal") if tables else pl.DataFrame(schema=SAMPLE_LABELS),
        findings=[Finding(code, count, detail) for (code, detail), count in counts.items()],
        facts=joined(batch.facts for batch in batches),
    )


def read_windows(
    source: Source,
    window: tuple[datetime, datetime] | None,
    *,
    api: PrometheusApi | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ways: Ways = faster_ways,
) -> Iterator[tuple[datetime, Batch]]:
    """The same, batch by batch, each with the time up to which all is read: memory doesn't follow the window.

    A batch is of at most a UTC day, and of at most `SAMPLES_AT_ONCE` samples of each metric.

    Raises:
        SourceError: while the batch after those yielded is read; these are whole.
    """
    with api or PrometheusApi.of(source) as asked:
        span = window or stored_span(asked, now(), readable)
        names = readable(asked.metric_names(*span)) if span else []
        if span is None or not names:
            return
        server = Server(asked, Question(names[0], _ms(span[1]) - 1, _ms(span[1])), ways)
        with ThreadPoolExecutor(IN_FLIGHT, "prometheus") as pool:
            yield from _Reading(server, names, source, pool).windows(*span)


def stored_counts(
    source: Source, spans: Sequence[tuple[int, int]], *, api: PrometheusApi | None = None
) -> list[int | None]:
    """How many samples of catalogue metrics the server says it has in each span (ms); None: it doesn't say.

    Raises:
        SourceError: the server can't be asked what metrics it has.
    """
    if not spans:
        return []
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    with api or PrometheusApi.of(source) as asked:
        names = readable(asked.metric_names(_EPOCH + first * _MILLISECOND, _EPOCH + last * _MILLISECOND))
        counts: list[int | None] = []
        for start, end in spans:
            unasked = bool(counts) and counts[-1] is None  # it would say no to the others too
            counts.append(None if unasked else asked.count(names, start, end) if names else 0)
        return counts


def readable(names: Sequence[str]) -> list[str]:
    """The names that the catalogue knows, and those of trainings, sorted."""
    return sorted(name for name in names if name in INFO_SERIES or name in TRAININGS or resolve(name) is not None)


class _Reading:
    """One pass over a server."""

    def __init__(self, server: Server, names: Sequence[str], source: Source, pool: ThreadPoolExecutor) -> None:
        self._server, self._names, self._pool = server, names, pool
        self._called = source.written
        self._cluster = source.cluster or "default"
        self._identities = Identities(self._cluster)

    def windows(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, Batch]]:
        """Consecutive windows, as long as one answer and a day allow."""
        length = _LONGEST
        while start < end:
            midnight = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(days=1)
            until = min(start + length, midnight, end)
            try:
                batch = self._window(_ms(start), _ms(until))
            except AnswerTooLargeError:
                if until - start <= _SHORTEST:
                    raise
                length = max((until - start) // 2, _SHORTEST)
                continue
            yield until, batch
            start = until

    @uncollected()  # labels by the ten thousand, all of which are kept
    def _window(self, start: int, end: int) -> Batch:
        tally = Tally(self._called)
        columns = Columns(tally, self._identities, self._pool)
        answers = self._answers([Question(name, start, end) for name in self._names])
        told: list[tuple[str, Answer]] = []
        for name, answer in zip(self._names, answers, strict=True):
            if name in TRAININGS:
                told.append((name, answer))
            else:
                columns.add(name, answer)
        facts = training_facts(told, self._cluster, tally)
        return Batch(samples=columns.table(), findings=tally.findings(), facts=facts)

    def _answers(self, questions: Sequence[Question]) -> Iterator[Answer]:
        """Answers in the order of the questions, a few of which are under way."""
        waiting: deque[Future[Answer]] = deque()
        try:
            for question in questions:
                waiting.append(self._pool.submit(self._server.read, question))
                if len(waiting) > IN_FLIGHT:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _ms(time: datetime) -> int:
    """Whole ms from this time on: samples are stamped in whole ms, and a window begins where the last one ended."""
    return -((_EPOCH - time) // _MILLISECOND)
