"""Closing a month: checked, numbered, chained, and on the shelf for good."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from exporter.errors import LedgerError, UsageError, WorkError
from pipelines import publish
from pipelines.book.proposals import Proposal, approved, proposals, propose
from pipelines.book.readiness import MonthState, hold_to_the_order, in_grace, month_states, unready
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.book.shelf import FOLDER, part_of, recover
from pipelines.book.writing import Act, Closed, write
from pipelines.config import Config
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered
from pipelines.periods import Period, parse_period

__all__ = ["Closed", "close", "states", "up_to_date"]

_MONTH: Final = re.compile(r"\d{4}-\d\d", re.ASCII)


def close(
    config: Config, period: str, *, now: datetime, by: str, force: bool = False, reason: str = "", approve: bool = False
) -> Closed | Proposal:
    """Close a month for good; where `closing.approval` is on, propose it, and close it once another person approves.

    Args:
        force: close although coverage is low, findings are open, the grace isn't over or earlier months are open; it
            needs a reason, which the book keeps. Nothing closes a month with hours that have no price.
        approve: close the month as it was proposed.

    Raises:
        UsageError: it is no month, --force has no reason, or who approves is who proposed.
        WorkError: the month can't be closed; the message says why and what to do.
    """
    if not _MONTH.fullmatch(period):
        raise UsageError(f"{period}: only months are closed; write one as 2026-10")
    if force and not reason.strip():
        raise UsageError("--force needs --reason: the book keeps why")
    if approve and not config.closing.approval:
        raise UsageError("--approve: nobody's approval is asked for; set closing.approval: true, or leave it out")
    span = parse_period(period, config.timezone)
    with open_ledger(config.ledger, f"gpuledger close {period}") as ledger:
        books = config.ledger / FOLDER
        recover(books)
        metered = up_to_date(ledger, config)
        publication = publish.current(config.ledger)
        as_of = publication.as_of if publication else now
        reckoning = Reckoning(config, metered, as_of)
        # What is approved was forced by who proposed it, if it was.
        hold_to_the_order(reckoning, metered, config, period, force=force or approve)
        reckoned, part = reckoning.of(span), part_of(metered, span)
        _hold_while_open(span, config, now, period)
        found = approved(books, reckoned, part, period=period, by=by) if approve else None
        forced = found.forced if found else reason
        _hold_to_what_it_must_show(reckoned, span, config, now, period, force=force or bool(forced.strip()))
        if config.closing.approval and found is None:
            return propose(books, reckoned, part, period=period, by=by, forced=reason if force else "", now=now)
        act = Act(
            period,
            now,
            by,
            forced if force or found else "",
            found.by if found else None,
            found.hash if found else None,
        )
        closed = write(books, reckoning.closed, reckoned, part, config, act)
        publish.publish(config, metered, made_from=ledger.made_from() or "", as_of=as_of)
    return closed


def states(config: Config, *, now: datetime) -> list[MonthState]:
    """Return how far each month of the published data is, the oldest first.

    Raises:
        LedgerError: nothing was published yet, or the book was changed.
    """
    metered, as_of = publish.published_fleet(config.ledger)
    waiting = proposals(config.ledger / FOLDER)
    return month_states(Reckoning(config, metered, as_of), metered, config, now, list(waiting))


def up_to_date(ledger: Ledger, config: Config) -> Metered:
    """Return the ledger's stages.

    Raises:
        LedgerError: they weren't made from this configuration and what is imported.
    """
    metered = ledger.metered()
    if metered is None or ledger.made_from() != ledger.basis(config.config_hash):
        raise LedgerError(
            f"{config.ledger}: isn't made from {config.path.name} as it is now; run `gpuledger run --once` first"
        )
    return metered


def _hold_while_open(span: Period, config: Config, now: datetime, period: str) -> None:
    if now < span.end:
        ends = f"{span.end.astimezone(config.timezone):%Y-%m-%d %H:%M}"
        raise WorkError(f"{period} can't be closed: it ends only on {ends} ({config.timezone.key})")


def _hold_to_what_it_must_show(
    reckoned: Reckoned, span: Period, config: Config, now: datetime, period: str, *, force: bool
) -> None:
    problems = [*in_grace(span, config, now), *unready(reckoned, config)]
    unpriced = [f for f in reckoned.report.findings if f.code == "unknown_price"]
    if unpriced:
        raise WorkError(f"{period} can't be closed: {unpriced[0].detail}; add it to rates, then `gpuledger run --once`")
    if problems and not force:
        raise WorkError(f"{period} can't be closed: {'; '.join(problems)}; mend it, or use --force --reason WHY")
