"""What people book: credits, debits, reprices and reversals, each an entry in an open period, never changed.

Entries for late data aren't here: they follow from the closed book and what is known now, until a period is closed
with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pipelines.book import chain
from pipelines.book.entries import Entry

NAME: Final = "journal.jsonl"


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values; money is text."""
    return {**asdict(entry), "amount": format(entry.amount, "f")}


def entry_from_json(values: dict[str, Any]) -> Entry:
    """Return the entry that JSON values are."""
    return Entry(**{**values, "amount": Decimal(values["amount"])})


def journal(books: Path) -> list[Entry]:
    """Return all that was booked, in order.

    Raises:
        LedgerError: the journal was changed.
    """
    return [entry_from_json(e) for line in chain.lines(books / NAME) for e in line["entries"]]


def head(books: Path) -> str:
    """Return the hash of the last line."""
    lines = chain.lines(books / NAME)
    return lines[-1]["hash"] if lines else chain.START


def book(books: Path, entries: Sequence[Entry], *, at: datetime, by: str, note: dict[str, Any] | None = None) -> None:
    """Append entries that belong together, whole or not at all.

    Raises:
        LedgerError: the journal was changed, or can't be written.
    """
    content = {
        "at": at.isoformat(timespec="seconds"),
        "by": by,
        "entries": [entry_to_json(e) for e in entries],
        "note": note or {},
    }
    chain.append(books / NAME, chain.linked(content, chain.lines(books / NAME)))


def note_of(books: Path, entry: str) -> dict[str, Any]:
    """Return what was noted where an entry was booked by hand; nothing of one that wasn't.

    Raises:
        LedgerError: the journal was changed.
    """
    lines = chain.lines(books / NAME)
    return next((dict(line["note"]) for line in lines if any(e["id"] == entry for e in line["entries"])), {})


def next_id(entries: Iterable[Entry], period: str) -> str:
    """Return the id of the next entry of a period."""
    return f"{period}/{1 + sum(e.period == period for e in entries)}"
