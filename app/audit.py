"""The audit trail: what was closed and booked, by whom and when, and whether the book is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from app.scope import Scope
from exporter.errors import GpuLedgerError
from pipelines.book import chain, journal, proposals
from pipelines.book.shelf import CHAIN, FOLDER, ClosedBook

KINDS: Final = {"closed": "Closed", "proposed": "Proposed for closing", "booked": "Booked"}


@dataclass(frozen=True)
class Act:
    """Something that was done to the book.

    Attributes:
        kind: of KINDS; what: for people; hash: of its line, which names the one before.
    """

    at: datetime | None
    kind: str
    period: str
    by: str
    what: str
    hash: str


def trail(scope: Scope) -> tuple[list[Act], list[str]]:
    """Return what was done, the newest first, and what is wrong with the chains that hold it."""
    books = scope.config.ledger / FOLDER
    acts: list[Act] = []
    problems: list[str] = []
    for name, read in ((CHAIN, _closed), (proposals.NAME, _proposed), (journal.NAME, _booked)):
        lines, faults = chain.examined(books / name)
        problems += [fault.replace(f"{books}/", "") for fault in faults]
        acts += [act for line in lines for act in read(books, line)]
    return sorted(acts, key=lambda act: (act.at is not None, act.at, act.kind), reverse=True), problems


def _closed(books: Path, line: chain.Json) -> Iterator[Act]:
    book = ClosedBook(books / str(line.get("period")), str(line.get("period")), line)
    manifest = _manifest(book)
    statements = manifest.get("statements", [])
    reason = manifest.get("forced") or ""
    what = f"{len(statements)} statements" + (f", forced: {reason}" if reason else "")
    by = str(manifest.get("closed_by") or "")
    yield Act(_time(manifest.get("closed_at")), "closed", book.period, by, what, line["hash"])


def _proposed(_books: Path, line: chain.Json) -> Iterator[Act]:
    what = f"{line.get('total')} {line.get('currency')}"
    yield Act(_time(line.get("at")), "proposed", str(line.get("period")), str(line.get("by") or ""), what, line["hash"])


def _booked(_books: Path, line: chain.Json) -> Iterator[Act]:
    entries = line.get("entries") or []
    for entry in entries:
        amount = Decimal(str(entry.get("amount", 0)))
        reason = f": {entry['reason']}" if entry.get("reason") else ""
        what = f"{entry.get('kind')} of {amount} for {entry.get('tenant')}{reason}"
        yield Act(
            _time(line.get("at")), "booked", str(entry.get("period")), str(line.get("by") or ""), what, line["hash"]
        )


def _manifest(book: ClosedBook) -> dict[str, Any]:
    try:
        return book.manifest
    except (GpuLedgerError, ValueError):
        return {}


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
