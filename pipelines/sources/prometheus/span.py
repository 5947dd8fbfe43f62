"""The days that a server holds samples of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pipelines.sources.prometheus.query_api import PrometheusApi

_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stored_span(
    api: PrometheusApi, now: datetime, readable: Callable[[Sequence[str]], list[str]]
) -> tuple[datetime, datetime] | None:
    """Whole UTC days that hold all samples of readable metrics; None where there are none.

    There is no one question for it: ``/status/tsdb`` knows the head block alone, the retention says what may be
    kept, and servers other than Prometheus have neither. But whether any series has samples before T is answered
    from the index, by every such server, and is monotonic in T: so both ends are found by bisection.

    Args:
        readable: picks the names of metrics that are to be read.
    """
    last = (now - _EPOCH) // _DAY + 2  # a clock ahead of ours may have written tomorrow's samples
    names = readable(api.metric_names(_EPOCH, _EPOCH + last * _DAY))
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
