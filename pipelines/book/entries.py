"""Entries of the book: what is booked in one period about another, never changed once booked."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

EntryKind = Literal["late_data", "reprice", "credit", "debit", "reversal"]

_NAMES: Final[dict[EntryKind, str]] = {
    "late_data": "Correction for late data",
    "reprice": "Repriced",
    "credit": "Credit",
    "debit": "Debit",
    "reversal": "Reversal",
}


@dataclass(frozen=True, order=True)
class Entry:
    """One amount for one tenant.

    Attributes:
        id: names it; a reversal names the entry that it negates in `reverses`.
        period: the period that it is booked in; `charge_period`: the one that it is about.
        charge: the kind of charge that it corrects ("usage", "idle", …); "" for a credit of its own.
        gpu_hours: what the correction adds to the hours that were charged; None: it is about money alone.
    """

    id: str
    period: str
    charge_period: str
    tenant: str
    kind: EntryKind
    charge: str
    amount: Decimal
    gpu_hours: float | None = None
    reason: str = ""
    reverses: str | None = None

    def described(self) -> str:
        """Return what a statement calls it."""
        name = _NAMES[self.kind] + (f" of {self.reverses}" if self.reverses else "")
        charge = f": {self.charge}" if self.charge else ""
        return f"{name}{charge}" + (f" ({self.reason})" if self.reason else "")
