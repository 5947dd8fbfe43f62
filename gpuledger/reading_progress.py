"""How far a live source has been read: a bar on a terminal, a line for each day of a back-fill in logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TextIO

WIDTH: Final = 30  # columns of a bar
BEHIND: Final = timedelta(days=1)
"""Further behind the present than this, a window is a part of a back-fill, which logs follow."""


class ReadingProgress:
    """Told after each window until when a source is read.

    Args:
        stream: takes the bar, where it is a terminal.
        log: takes lines where it isn't: a text, and its fields by name.
        clock: the present, towards which sources are read.
    """

    def __init__(
        self, stream: TextIO, log: Callable[[str, dict[str, object]], None], clock: Callable[[], datetime]
    ) -> None:
        self._stream, self._log, self._clock = stream, log, clock
        self._drawn: str | None = None  # the source whose bar stands on the last line
        self._begun: dict[str, tuple[datetime, datetime]] = {}  # by source: when it was first told, and of what time

    def __call__(self, source: str, until: datetime) -> None:
        """Show it."""
        now = self._clock()
        if self._stream.isatty():
            self._draw(source, until, now)
        elif now - until > BEHIND:
            fields: dict[str, object] = {"source": source, "until": until.isoformat()}
            self._log(f"{source}: read up to {until:%Y-%m-%d %H:%M} UTC", fields)

    def _draw(self, source: str, until: datetime, now: datetime) -> None:
        if source not in self._begun and now - until <= BEHIND:
            return  # a pass as they all are
        first_at, first = self._begun.setdefault(source, (now, until))
        read, left = until - first, now - until
        whole = read + left
        part = 1.0 if left <= timedelta(minutes=1) or not whole else read / whole
        filled = round(WIDTH * part)
        text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {part:4.0%} {source}: read up to {until:%Y-%m-%d %H:%M} UTC"
        if part < 1 and read:
            remaining = (now - first_at) * (left / read)
            text += f", about {max(1, round(remaining / timedelta(minutes=1)))} min left"
        between = "\n" if self._drawn not in (None, source) else "\r"
        self._stream.write(f"{between}{text}\x1b[K")
        self._drawn = source
        if part == 1:
            self._stream.write("\n")
            self._drawn = None
            del self._begun[source]
        self._stream.flush()
