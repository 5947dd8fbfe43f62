"""Closing by two, the order of months, and what each month waits for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from exporter.errors import UsageError, WorkError
from pipelines.book.closing import Closed, close, states
from pipelines.book.proposals import NAME, Proposal
from pipelines.book.verifying import verify
from pipelines.config import Config
from tests.pipelines.book.conftest import CONFIG, Book

LATER = datetime(2027, 1, 15, tzinfo=UTC)
BY_TWO = CONFIG.replace("closing: {", "closing: {approval: true, ")
CROWD = "2026-09-13T00:00:00Z,2026-09-13T01:00:00Z,9,,H100,bio,crowd,\n"


def propose(config: Config, period: str = "2026-09", by: str = "ada", **more: bool | str) -> Proposal:
    found = close(config, period, now=LATER, by=by, **more)  # type: ignore[arg-type]
    assert isinstance(found, Proposal)
    return found


def test_what_one_proposes_another_closes_and_the_book_names_both(book: Book) -> None:
    config = book(config=BY_TWO)
    proposed = propose(config)
    assert not (config.ledger / "books" / "2026-09").exists()
    done = close(config, "2026-09", now=LATER, by="bea", approve=True)
    assert isinstance(done, Closed)
    assert done.total == proposed.total
    manifest = (config.ledger / "books" / "2026-09" / "manifest.json").read_text()
    assert '"closed_by":"bea"' in manifest
    assert '"proposed_by":"ada"' in manifest
    assert verify(config).problems == []


@pytest.mark.parametrize("by", ["ada", "Ada"])
def test_nobody_approves_what_they_proposed(book: Book, by: str) -> None:
    config = book(config=BY_TWO)
    propose(config)
    with pytest.raises(UsageError, match="another person's approval"):
        close(config, "2026-09", now=LATER, by=by, approve=True)


def test_what_changed_since_is_not_what_was_proposed(book: Book) -> None:
    propose(book(config=BY_TWO))
    config = book("2026-09-11T00:00:00Z,2026-09-11T03:00:00Z,1,,H100,bio,late,\n", config=BY_TWO)
    with pytest.raises(WorkError, match="isn't what ada proposed any more"):
        close(config, "2026-09", now=LATER, by="bea", approve=True)
    propose(config)
    assert isinstance(close(config, "2026-09", now=LATER, by="bea", approve=True), Closed)


def test_nothing_proposed_is_nothing_to_approve(book: Book) -> None:
    with pytest.raises(WorkError, match="nobody proposed"):
        close(book(config=BY_TWO), "2026-09", now=LATER, by="bea", approve=True)
    with pytest.raises(UsageError, match=r"set closing\.approval"):
        close(book(), "2026-09", now=LATER, by="bea", approve=True)


def test_what_was_forced_is_approved_with_its_reason(book: Book) -> None:
    strict = BY_TWO.replace("approval: true", "approval: true, findings: [conflicting_owner]")
    config = book(CROWD, config=strict)
    with pytest.raises(WorkError, match="conflicting_owner"):
        propose(config)
    propose(config, force=True, reason="the node is gone")
    close(config, "2026-09", now=LATER, by="bea", approve=True)
    assert '"forced":"the node is gone"' in (config.ledger / "books" / "2026-09" / "manifest.json").read_text()


def test_a_proposal_that_is_gone_is_missed(book: Book) -> None:
    config = book(config=BY_TWO)
    propose(config)
    close(config, "2026-09", now=LATER, by="bea", approve=True)
    path: Path = config.ledger / "books" / NAME
    path.unlink()
    assert any(str(path) in problem for problem in verify(config).problems)


def test_the_first_month_that_is_closed_leaves_no_used_one_behind_unless_told_to(book: Book) -> None:
    config = book()
    with pytest.raises(WorkError, match="earlier months hold usage and are open: 2026-09; close them in turn"):
        close(config, "2026-10", now=LATER, by="ada")
    close(config, "2026-10", now=LATER, by="ada", force=True, reason="the ledger begins in October")
    with pytest.raises(WorkError, match="left open for good"):
        close(config, "2026-09", now=LATER, by="ada")
    assert verify(config).problems == []


def test_a_finding_of_another_month_holds_nothing_open(book: Book) -> None:
    strict = CONFIG.replace("closing: {", "closing: {findings: [conflicting_owner], ")
    config = book(CROWD.replace("2026-09-13", "2026-10-13"), config=strict)
    close(config, "2026-09", now=LATER, by="ada")
    with pytest.raises(WorkError, match="conflicting_owner"):
        close(config, "2026-10", now=LATER, by="ada")


def test_each_month_says_how_far_it_is(book: Book) -> None:
    waiting = BY_TWO.replace("approval: true", "approval: true, grace: 10d")
    config = book(config=waiting)
    propose(config)
    close(config, "2026-09", now=LATER, by="bea", approve=True)
    propose(config, "2026-10")
    assert [(s.period, s.state) for s in states(config, now=LATER)] == [
        ("2026-09", "closed"), ("2026-10", "proposed"), ("2026-11", "due"),
    ]  # fmt: skip
    early = {s.period: s for s in states(config, now=datetime(2026, 11, 5, tzinfo=UTC))}
    assert (early["2026-10"].state, early["2026-11"].state) == ("grace", "open")
    assert early["2026-10"].until == datetime(2026, 11, 11, tzinfo=UTC)
