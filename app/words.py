"""How things are said: amounts, hours, shares, times, and text that came from outside."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from pipelines.money import format_money, minor_unit

UNKNOWN: Final = "n/a"
_TENTH: Final = Decimal("0.1")
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>:$&^=@/])")


def money(amount: Decimal | Fraction | int | None, currency: str) -> str:
    """Money with its currency: ``USD 1,234.50``."""
    return UNKNOWN if amount is None else format_money(amount, currency)


def amount(value: Decimal | Fraction | int | None, currency: str) -> str:
    """Money under a heading that names the currency: ``1,234.50``."""
    return UNKNOWN if value is None else format_money(value, currency).removeprefix(f"{currency} ")


def money_format(currency: str) -> str:
    """The printf pattern of an amount, for columns of numbers."""
    return f"%,.{minor_unit(currency)}f"


def hours(value: float | None) -> str:
    """GPU-hours to a tenth, rounded as tables in the browser round them."""
    return UNKNOWN if value is None else f"{Decimal(value).quantize(_TENTH, ROUND_HALF_UP):,}"


def share(part: float | Decimal | None, whole: float | Decimal | None = 1) -> str:
    """A part of a whole in percent; n/a where either is unknown or the whole is nothing."""
    if part is None or whole is None or not whole:
        return UNKNOWN
    return f"{100 * float(part) / float(whole):.1f}%"


def change(now: float | Decimal | None, before: float | Decimal | None) -> str | None:
    """The change against another time in percent; None where there is nothing to compare with."""
    if now is None or before is None or not before:
        return None
    return f"{100 * (float(now) - float(before)) / abs(float(before)):+.1f}%"


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 lease``, ``1,200 leases``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def instant(at: datetime, zone: ZoneInfo) -> str:
    """A time in the ledger's zone: ``30 Nov 2026 13:47 EST``."""
    return f"{at.astimezone(zone):%-d %b %Y %H:%M %Z}"


def literal(text: str | None) -> str:
    """Text from outside, for Markdown: shown as it is, never as markup."""
    return UNKNOWN if text is None else _escaped(" ".join(text.split()))


def sentence(text: str) -> str:
    """A message of this program, for Markdown: with a full stop, and a capital letter unless it begins with a name.

    What stands between backticks, as commands do, is code, in which nothing else is markup.
    """
    whole = " ".join(text.split())
    begins = whole[:1].upper() if whole.partition(" ")[0].strip(",:").isalpha() else whole[:1]
    parts = (begins + whole[1:] + ("" if whole.endswith((".", "?")) else ".")).split("`")
    if len(parts) % 2 == 0:
        return _escaped("`".join(parts))
    return "".join(f"`{part}`" if nth % 2 else _escaped(part) for nth, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)
