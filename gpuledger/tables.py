"""Text tables for a terminal: aligned columns, and parts that visibly add up to their total."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import ROUND_FLOOR, Decimal

RULE = "─"
# Control characters, and marks that turn the direction in which text is shown.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def spread(parts: Sequence[float], *, places: int = 1, fixed: Collection[int] = ()) -> tuple[list[str], str]:
    """Round ``parts`` for display so that what is shown adds up to the total that is shown.

    Rounding each part by itself would show 0.4 + 0.4 = 0.9 somewhere. So the total is rounded, and the units that
    rounding down left over go to the parts that lost most (largest remainder, ties to the earlier).

    Args:
        parts: not negative.
        places: digits after the point.
        fixed: positions that keep their own rounding because they are shown elsewhere too.

    Returns:
        The parts and their total as text, with thousands separators.
    """
    unit = Decimal(1).scaleb(-places)
    exact = [Decimal(repr(part)) for part in parts]
    total = sum(exact, Decimal(0)).quantize(unit)
    shown = [part.quantize(unit, rounding=None if i in fixed else ROUND_FLOOR) for i, part in enumerate(exact)]
    missing = int((total - sum(shown, Decimal(0))) / unit)
    by_loss = sorted((i for i in range(len(exact)) if i not in fixed), key=lambda i: shown[i] - exact[i])
    for i in by_loss[: max(missing, 0)]:
        shown[i] += unit
    return [f"{part:,}" for part in shown], f"{total:,}"


def counted(number: int, noun: str) -> str:
    """Return "1 fault", "2 faults"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def align(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,), gap: int = 2) -> list[str]:
    """Rows as lines of equal columns; columns not in ``left`` are flush right. An empty row is a rule."""
    columns = max(len(row) for row in rows)
    widths = [max((len(row[i]) for row in rows if len(row) > i), default=0) for i in range(columns)]
    separator = " " * gap
    lines = []
    for row in rows:
        if not row:
            lines.append(RULE * (sum(widths) + gap * (columns - 1)))
            continue
        cells = [cell.ljust(widths[i]) if i in left else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        lines.append(separator.join(cells).rstrip())
    return lines


def one_line(text: str) -> str:
    """``text`` on one line, without what would steer a terminal."""
    return _STEERING.sub("\ufffd", " ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """``text`` as `one_line` of at most ``width`` characters."""
    line = one_line(text)
    return line if len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"
