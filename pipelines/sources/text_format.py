"""Lines of Prometheus text or OpenMetrics → observations.

A million lines take about a second: the series part of a line is parsed once and then looked up as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from pipelines.sources.bounds import EARLIEST_MS, LATEST_MS
from pipelines.sources.labels import BadSeriesError, metric_name, parse_series
from pipelines.sources.tally import Tally
from pipelines.sources.wide import FOREIGN, NO_DEVICE, Observations

# Series seen; beyond it the cache starts anew, so that a file of ever new series can't fill the memory.
_MAX_CACHED: Final = 1 << 18
_MAX_CACHED_BYTES: Final = 1 << 12


class TextReader:
    """Reads lines into ``observations`` and counts the bad ones.

    Args:
        openmetrics: timestamps are seconds and the text ends with ``# EOF``; else milliseconds.
        at: the time of lines without a timestamp.
    """

    def __init__(
        self, observations: Observations, tally: Tally, *, openmetrics: bool = False, at: datetime | None = None
    ) -> None:
        self.untimed = 0
        self._observations = observations
        self._tally = tally
        self._openmetrics = openmetrics
        self._to_ms: Callable[[bytes], int] = _seconds_to_ms if openmetrics else int
        self._at_ms = None if at is None else round(at.timestamp() * 1000)
        self._cache: dict[bytes, int] = {}
        self._ended = False
        self._lines = 0

    def read(self, first_number: int, lines: Iterable[bytes]) -> None:
        """Read a block of lines, the first of which has this number in its file."""
        cached = self._cache.get
        rows = self._observations
        add_time, add_series, add_value = rows.times.append, rows.series.append, rows.values.append
        to_ms = self._to_ms
        for number, line in enumerate(lines, first_number):
            head, brace, tail = line.rpartition(b"}")
            series = cached(head) if brace else None
            if series is None or self._ended:
                self._read_new(line, number)
                continue
            fields = tail.split()
            if len(fields) == 2 and series >= 0 and b"_" not in tail:
                try:
                    value, time_ms = float(fields[0]), to_ms(fields[1])
                except ValueError:
                    self._read_fields(fields, series, number)
                    continue
                if EARLIEST_MS <= time_ms < LATEST_MS:
                    add_time(time_ms)
                    add_series(series)
                    add_value(value)
                    continue
            self._read_fields(fields, series, number)

    def finish(self) -> None:
        """Say what only the end of the text shows."""
        if self._openmetrics and self._lines and not self._ended:
            self._tally.add("no `# EOF` at the end: the file may be cut short")
        if self.untimed:
            self._tally.add("sample without a timestamp, and the source gives no `at:`", count=self.untimed)

    def _read_new(self, line: bytes, number: int) -> None:
        """Any line whose series part isn't cached: comments, blanks, new series, garbage."""
        text = line.strip()
        if not text:
            return
        self._lines += 1
        if self._ended:
            self._tally.add("line after `# EOF`", number)
            return
        if text.startswith(b"#"):
            self._ended = self._openmetrics and text == b"# EOF"
            return
        try:
            series, end = self._parse(text)
        except BadSeriesError as error:
            self._tally.add(str(error), number)
            return
        head = line.rpartition(b"}")[0]
        if len(head.lstrip()) + 1 == end <= _MAX_CACHED_BYTES:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[head] = series
        rest = text[end:]
        if self._openmetrics:
            rest = rest.partition(b" # ")[0]  # an exemplar
        self._read_fields(rest.split(), series, number)

    def _parse(self, text: bytes) -> tuple[int, int]:
        """Series number and the end of the series part."""
        if not text.startswith(b"{"):
            name, end = metric_name(text)
            if text[end : end + 1] != b"{":
                return self._observations.series_of(name, {}), end
            if not self._observations.known(name):
                # What the labels of other metrics look like is nobody's concern here.
                return FOREIGN, text.rfind(b"}") + 1 or end
        name, labels, end = parse_series(text)
        return self._observations.series_of(name, labels), end

    def _read_fields(self, fields: list[bytes], series: int, number: int) -> None:
        """Value and time of a line, with the reason where they are bad."""
        if not 1 <= len(fields) <= 2:
            self._tally.add("line that is not `series value [timestamp]`", number)
            return
        try:
            value = _number(fields[0])
        except ValueError:
            self._tally.add("value that is no number", number)
            return
        try:
            time_ms = self._to_ms(fields[1]) if len(fields) == 2 else self._at_ms
        except (ValueError, OverflowError):
            time_ms = -1
        if time_ms is not None and (time_ms < 0 or b"_" in fields[-1]):
            self._tally.add("malformed timestamp", number)
        elif time_ms is not None and not EARLIEST_MS <= time_ms < LATEST_MS:
            self._tally.add("timestamp before 2000 or after 2099 (seconds for ms, or ms for seconds?)", number)
        elif series == NO_DEVICE:
            self._tally.add("series that names no device (no UUID, no node with a GPU index)", number)
        elif series == FOREIGN:
            return
        elif time_ms is None:
            self.untimed += 1
        else:
            self._observations.append(time_ms, series, value)


def _number(field: bytes) -> float:
    if b"_" in field:
        raise ValueError(field)
    return float(field)


def _seconds_to_ms(field: bytes) -> int:
    return round(float(field) * 1000)
