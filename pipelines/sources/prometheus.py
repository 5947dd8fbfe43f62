"""Source `prometheus`: the samples that a Prometheus (or what speaks its HTTP API) has stored.

Read are the stored samples with their own timestamps, by instant queries of range selectors (``metric[6h]``), one
metric and one bounded window at a time: a query for everything would take the server's memory. An answer that
fails or is partial is an error for its window, never "no data".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from exporter.catalog import resolve
from pipelines.sources.identity import INFO_SERIES
from pipelines.sources.prometheus_api import AnswerTooLargeError, PrometheusApi
from pipelines.sources.tally import Tally
from pipelines.sources.wide import NO_DEVICE, Observations
from pipelines.tables import Batch

if TYPE_CHECKING:
    from pipelines.config import Source

WINDOW: Final = timedelta(hours=6)
"""What one query spans: 512 GPUs at 15 s are 0.7 million samples of a metric in it."""
_SHORTEST: Final = timedelta(minutes=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_prometheus(
    source: Source,
    window: tuple[datetime, datetime] | None,
    *,
    api: PrometheusApi | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Batch:
    """All samples of catalogue metrics in ``window``; without one, all that the server has.

    Raises:
        SourceError: the server can't be asked, or answers in part only.
    """
    with api or PrometheusApi.of(source) as server:
        span = window or stored_span(server, now())
        if span is None:
            return Batch()
        return read_window(server, *span, cluster=source.cluster or "default", name=source.written)


def read_window(api: PrometheusApi, start: datetime, end: datetime, *, cluster: str, name: str) -> Batch:
    """The samples of catalogue metrics in [start, end).

    Args:
        cluster: name of the cluster that they are of.
        name: what findings call the server.

    Raises:
        SourceError: an answer failed or was partial.
    """
    tally = Tally(name)
    observations = Observations(tally, cluster)
    for metric in _readable(api.metric_names(start, end)):
        lower = start
        while lower < end:
            upper = min(lower + WINDOW, end)
            _read_metric(api, metric, observations, tally, start=lower, end=upper)
            lower = upper
    return Batch(samples=observations.table(), findings=tally.findings())


def stored_span(api: PrometheusApi, now: datetime) -> tuple[datetime, datetime] | None:
    """Whole UTC days that hold all samples of catalogue metrics; None where there are none.

    There is no one question for it: ``/status/tsdb`` knows the head block alone, the retention says what may be
    kept, and servers other than Prometheus have neither. But whether any series has samples before T is answered
    from the index, by every such server, and is monotonic in T: so both ends are found by bisection.
    """
    last = (now - _EPOCH) // _DAY + 2  # a clock ahead of ours may have written tomorrow's samples
    names = _readable(api.metric_names(_EPOCH, _EPOCH + last * _DAY))
    if not names or not api.has_series(names, _EPOCH, _EPOCH + last * _DAY):
        return None
    first_end = _bisect(0, last, lambda day: api.has_series(names, _EPOCH, _EPOCH + day * _DAY))
    past_end = _bisect(
        first_end - 1, last, lambda day: not api.has_series(names, _EPOCH + day * _DAY, _EPOCH + last * _DAY)
    )
    return _EPOCH + (first_end - 1) * _DAY, _EPOCH + past_end * _DAY


def _bisect(false_at: int, true_at: int, holds: Callable[[int], bool]) -> int:
    """The first day after ``false_at`` from which ``holds`` is true; it is at ``true_at``."""
    while true_at - false_at > 1:
        middle = (false_at + true_at) // 2
        if holds(middle):
            true_at = middle
        else:
            false_at = middle
    return true_at


def _readable(names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if name in INFO_SERIES or resolve(name) is not None)


def _read_metric(
    api: PrometheusApi, metric: str, observations: Observations, tally: Tally, *, start: datetime, end: datetime
) -> None:
    """Append the samples of one metric in [start, end)."""
    # A range selector is closed on the left up to Prometheus 2 and open from 3 on. Evaluated 1 ms before the end
    # over the whole length it spans [start, end) on the newer and 1 ms more on the older, which is cut here.
    expression = f"{metric}[{(end - start) // _MILLISECOND}ms]"
    if metric in INFO_SERIES:
        expression = f"last_over_time({expression})"
    try:
        result = api.query(expression, end - _MILLISECOND)
    except AnswerTooLargeError:
        if end - start <= _SHORTEST:
            raise
        middle = start + (end - start) / 2
        middle -= middle.microsecond % 1000 * timedelta(microseconds=1)
        _read_metric(api, metric, observations, tally, start=start, end=middle)
        _read_metric(api, metric, observations, tally, start=middle, end=end)
        return
    start_ms = round(start.timestamp() * 1000)
    for series in result:
        labels = {name: value for name, value in series["metric"].items() if name != "__name__"}
        number = observations.series_of(metric, labels)
        if number == NO_DEVICE:
            tally.add("series that names no device (no UUID, no node with a GPU index)")
        if number < 0:
            continue
        for seconds, value in series.get("values", ()):
            time_ms = round(seconds * 1000)
            if time_ms >= start_ms:
                observations.append(time_ms, number, float(value))
