"""How far a back-fill is: a bar where somebody looks, a line a day where it is logged."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from gpuledger.reading_progress import ReadingProgress

NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> tuple[ReadingProgress, list[str], list[datetime]]:
    lines: list[str] = []
    clock = [NOW]
    return ReadingProgress(stream, lambda text, _: lines.append(text), lambda: clock[-1]), lines, clock


def test_a_terminal_has_a_bar_that_fills_and_says_how_long_it_takes() -> None:
    terminal = Terminal()
    told, lines, clock = shown(terminal)
    told("http://p", NOW - 100 * DAY)
    clock.append(NOW + timedelta(minutes=5))
    told("http://p", NOW - 50 * DAY)
    first, half = terminal.getvalue().split("\r")[1:]
    assert first.startswith("[" + "." * 30 + "]   0% http://p: read up to 2026-08-23 00:00 UTC")
    assert "left" not in first
    assert half.startswith(
        "[" + "#" * 15 + "." * 15 + "]  50% http://p: read up to 2026-10-12 00:00 UTC, about 5 min left"
    )
    told("http://p", clock[-1])
    assert (
        terminal.getvalue().split("\r")[-1]
        == "[" + "#" * 30 + "] 100% http://p: read up to 2026-12-01 00:05 UTC\x1b[K\n"
    )
    assert not lines


def test_each_source_has_a_line_of_its_own() -> None:
    terminal = Terminal()
    told, _, _ = shown(terminal)
    told("a", NOW - 3 * DAY)
    told("b", NOW - 3 * DAY)
    assert [line.split("% ")[1][0] for line in terminal.getvalue().split("\n")] == ["a", "b"]


def test_a_log_has_a_line_for_each_window_of_a_back_fill_and_none_for_the_present() -> None:
    told, lines, _ = shown(io.StringIO())
    for days in (3, 2, 0):
        told("http://p", NOW - days * DAY)
    assert lines == ["http://p: read up to 2026-11-28 00:00 UTC", "http://p: read up to 2026-11-29 00:00 UTC"]
