"""Statements in Persian: the same figures, right to left, with its digits and its calendar beside the Gregorian."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import openpyxl
import pypdfium2
import pytest
from persiantools import digits

from exporter.errors import UsageError
from pipelines.book.document import Statement
from pipelines.book.statements import rendered, statement
from pipelines.book.words import ENGLISH, PERSIAN, words_of
from pipelines.config import Config
from pipelines.operations import run_once
from tests.pipelines.book import conftest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Statement:
    folder: Path = tmp_path_factory.mktemp("persian")
    (folder / "gpuledger.yaml").write_text(conftest.CONFIG)
    rows = conftest.HEAD + conftest.SEPTEMBER + conftest.OCTOBER + conftest.NOVEMBER
    (folder / "allocations.csv").write_text(rows)
    (folder / "inventory.csv").write_text(conftest.INVENTORY)
    from pipelines.config import load

    config: Config = load(folder / "gpuledger.yaml")
    run_once(config)
    return statement(config, "astro", "2026-10").statement


def text_of(pdf: bytes) -> str:
    pages = pypdfium2.PdfDocument(pdf)
    return "\n".join(pages[i].get_textpage().get_text_range() for i in range(len(pages)))


def test_every_amount_is_there_in_persian_digits(made: Statement) -> None:
    shown = text_of(rendered(made, "pdf", "fa"))
    for line in made.lines:
        assert PERSIAN.number(f"{abs(Decimal(line.amount)):,}") in shown
    assert PERSIAN.number(f"{Decimal(made.total):,}") in shown


def test_dates_are_in_both_calendars(made: Statement) -> None:
    shown = text_of(rendered(made, "pdf", "fa"))
    assert "۱۴۰۵/۰۷/۰۹" in shown  # 2026-10-01
    assert "۲۰۲۶" in shown


@pytest.mark.parametrize("format_", ["pdf", "xlsx"])
def test_made_again_it_is_the_same_bytes_and_not_the_english_ones(made: Statement, format_: str) -> None:
    assert rendered(made, format_, "fa") == rendered(made, format_, "fa")
    assert rendered(made, format_, "fa") != rendered(made, format_)


def test_the_font_is_in_the_document(made: Statement) -> None:
    assert b"Vazirmatn" in rendered(made, "pdf", "fa")
    assert b"Vazirmatn" not in rendered(made, "pdf")


def test_the_workbook_runs_from_right_to_left_and_its_numbers_are_numbers(made: Statement) -> None:
    book = openpyxl.load_workbook(io.BytesIO(rendered(made, "xlsx", "fa")))
    assert all(sheet.sheet_view.rightToLeft for sheet in book.worksheets)
    cells = [cell for row in book.worksheets[0].iter_rows() for cell in row]
    amounts = [c.value for c in cells if isinstance(c.value, int | float) and "3000429" in c.number_format]
    assert {float(line.amount) for line in made.lines} <= set(amounts)


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_what_machines_read_speaks_one_language(made: Statement, format_: str) -> None:
    with pytest.raises(UsageError, match="for machines"):
        rendered(made, format_, "fa")


def test_another_language_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="expected one of en, fa"):
        words_of("de")


@pytest.mark.parametrize(
    ("english", "persian"),
    [
        ("H100, on demand, from 11-05", "H100، بر حسب تقاضا، از 11-05"),
        ("train-from-scratch", "train-from-scratch"),
        ("Share of overheads", "سهم از هزینه‌های سربار"),
    ],
)
def test_phrases_are_translated_and_names_stay(english: str, persian: str) -> None:
    assert PERSIAN.phrase(english) == persian
    assert ENGLISH.phrase(english) == english


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (datetime(2026, 3, 21, tzinfo=UTC), "1405/01/01 00:00 (2026-03-21)"),  # Nowruz
        (datetime(2025, 3, 20, 23, 59, tzinfo=UTC), "1403/12/30 23:59 (2025-03-20)"),  # the last day of a leap year
    ],
)
def test_years_turn_where_they_do(at: datetime, shown: str) -> None:
    assert PERSIAN.date(at) == digits.en_to_fa(shown)


def test_every_label_of_the_page_is_translated(made: Statement) -> None:
    from pipelines.book.statement_pdf import LABELS

    assert not [text for text in LABELS.values() if PERSIAN.label(text) == text]
    assert not [line for line in made.lines if PERSIAN.phrase(line.description) == line.description]


def test_every_note_has_its_persian_words(made: Statement) -> None:
    billed = "Slurm billed 1,234.50 billing-hours (TRESBillingWeights) for this tenant's jobs"
    notes = [f"{billed}; amounts go by GPU-hours.", "Adds up the closed statements of 2026-09 (2026-000001)."]
    said = PERSIAN.notes(made.model_copy(update={"notes": notes}))
    assert any("۱٬۲۳۴٫۵۰" in note or "۱,۲۳۴.۵۰" in note for note in said)
    assert any("جمع ماه‌های خود" in note for note in said)
