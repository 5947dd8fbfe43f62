"""Figures as a statement shows them: unknown is n/a, and parts add up to the total beside them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from pipelines.money import format_money

UNKNOWN: Final = "n/a"


def amount(value: Decimal | str | None, currency: str) -> str:
    """Money without its currency: ``1,234.50``, ``−72.28``."""
    if value is None:
        return UNKNOWN
    return format_money(Decimal(value), currency).removeprefix(f"{currency} ").replace("-", "−")


def percent(ratio: float | None) -> str:
    """A ratio as percent to one decimal."""
    return UNKNOWN if ratio is None else f"{ratio:.1%}"


def quantity(value: float | None, places: int = 2) -> str:
    """A number to so many decimals."""
    return UNKNOWN if value is None else f"{value:,.{places}f}"


def adding_up(parts: Sequence[float], places: int = 2) -> tuple[list[str], str]:
    """Round parts that are not negative so that what is shown adds up to the total that is shown."""
    unit = Decimal(1).scaleb(-places)
    exact = [Decimal(repr(part)) for part in parts]
    total = sum(exact, Decimal(0)).quantize(unit)
    shown = [part.quantize(unit, rounding=ROUND_FLOOR) for part in exact]
    missing = int((total - sum(shown, Decimal(0))) / unit)
    for i in sorted(range(len(exact)), key=lambda i: shown[i] - exact[i])[: max(missing, 0)]:
        shown[i] += unit
    return [f"{part:,}" for part in shown], f"{total:,}"
