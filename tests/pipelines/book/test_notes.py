"""What a statement says of its coverage: one thing, and in closed books what was said then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipelines.book import compose
from pipelines.book.closing import close
from pipelines.book.notes import notes, observed
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.book.words import PERSIAN
from pipelines.book.words_fa import NOTES
from tests.pipelines.book.conftest import Book

NOW = datetime(2027, 1, 1, tzinfo=UTC)
NEVER = "Nothing of what was held was observed: utilisation and waste are unknown, not zero."


def told(coverage: float | None, utilization: float | None) -> list[str]:
    return notes(coverage, utilization, unpriced=False)


def test_of_what_was_never_observed_that_is_all_that_is_said() -> None:
    assert told(0.0, None) == [NEVER]


def test_of_what_was_observed_in_part_the_share_is_said() -> None:
    (said,) = told(0.75, 0.5)
    assert "on the 75.0% of the held time" in said


@pytest.mark.parametrize(("coverage", "utilization"), [(1.0, 0.5), (None, None)])
def test_where_all_or_nothing_was_held_and_observed_nothing_is_said(
    coverage: float | None, utilization: float | None
) -> None:
    assert told(coverage, utilization) == []


@pytest.mark.parametrize(("coverage", "shown"), [(0.9999, "99.9%"), (0.00001, "0.1%"), (0.28999, "29.0%")])
def test_less_than_all_is_never_shown_as_all_nor_something_as_nothing(coverage: float, shown: str) -> None:
    assert observed(coverage) == shown


def test_persian_says_the_same(book: Book) -> None:
    found = statement(book(), "astro", "2026-10").statement
    assert found.notes == [NEVER]
    said = PERSIAN.notes(found)
    assert NOTES["unobserved"] in said
    assert not any(note.startswith(NOTES["coverage"].partition("{")[0]) for note in said)


def test_a_month_closed_in_other_words_is_worked_out_again_in_them(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    config = book()

    def earlier(coverage: float | None, utilization: float | None, **others: Any) -> list[str]:
        return notes(coverage, utilization, **{**others, "edition": 1})

    with monkeypatch.context() as then:
        then.setattr(compose, "notes", earlier)
        close(config, "2026-09", now=NOW, by="ada")
    kept = statement(config, "astro", "2026-09").statement.notes
    assert "0.0% of the held time" in kept[0]
    assert kept[1] == NEVER
    assert verify(config).problems == []
