"""Closing by two: one person proposes a month as it stands, another one closes it as it was proposed."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from exporter.errors import UsageError, WorkError
from pipelines.book import chain, journal
from pipelines.book.reckoning import Reckoned
from pipelines.book.shelf import digest
from pipelines.metering import Metered

NAME: Final = "proposals.jsonl"


@dataclass(frozen=True)
class Proposal:
    """A month that waits for a second person.

    Attributes:
        state: hash of what would be closed; what changes since makes it another.
        forced: why it would be closed although something speaks against it.
        hash: of its line in the chain of proposals.
    """

    period: str
    by: str
    state: str
    forced: str
    total: str
    currency: str
    hash: str

    def __str__(self) -> str:
        return (
            f"proposed {self.period}: {self.currency} {self.total}; another person than {self.by} closes it with"
            f" `gpuledger close {self.period} --approve`"
        )


def state_of(reckoned: Reckoned, part: Metered) -> str:
    """Return a hash of what closing would write down, whenever it is asked."""
    report = reckoned.report
    content = {
        "report": report.model_dump(mode="json", exclude={"as_of"}),
        "usage": digest(part),
        "entries": [journal.entry_to_json(entry) for entry in reckoned.entries],
    }
    return chain.sha256(chain.canonical(content).encode())


def propose(
    books: Path, reckoned: Reckoned, part: Metered, *, period: str, by: str, forced: str, now: datetime
) -> Proposal:
    """Write down that a month is ready to be closed.

    Raises:
        LedgerError: the proposals were changed, or can't be written.
    """
    content = {
        "period": period,
        "by": by,
        "at": now.isoformat(timespec="seconds"),
        "state": state_of(reckoned, part),
        "forced": forced,
        "total": reckoned.report.fleet.billed,
        "currency": reckoned.report.currency,
    }
    line = chain.linked(content, chain.lines(books / NAME))
    chain.append(books / NAME, line)
    return _proposal(line)


def proposals(books: Path) -> dict[str, Proposal]:
    """Return the last proposal of each month.

    Raises:
        LedgerError: the proposals were changed.
    """
    return {line["period"]: _proposal(line) for line in chain.lines(books / NAME)}


def approved(books: Path, reckoned: Reckoned, part: Metered, *, period: str, by: str) -> Proposal:
    """Return the proposal that a second person approves.

    Raises:
        UsageError: it is the same person.
        WorkError: nothing was proposed, or the month has changed since.
    """
    found = proposals(books).get(period)
    if found is None:
        raise WorkError(f"{period}: nobody proposed to close it; do so with `gpuledger close {period}`")
    if _same(found.by, by):
        raise UsageError(f"{period}: was proposed by {by}, and closing.approval asks for another person's approval")
    if found.state != state_of(reckoned, part):
        raise WorkError(
            f"{period}: isn't what {found.by} proposed any more; look at it again, and propose it anew with"
            f" `gpuledger close {period}`"
        )
    return found


def _same(one: str, other: str) -> bool:
    """Whether two names are one to whoever reads them: case, width of characters and spaces don't count."""
    first, second = ("".join(unicodedata.normalize("NFKC", name).casefold().split()) for name in (one, other))
    return first == second


def _proposal(line: chain.Json) -> Proposal:
    keys = ("period", "by", "state", "forced", "total", "currency", "hash")
    return Proposal(**{key: line[key] for key in keys})
