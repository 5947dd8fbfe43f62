"""Statements: the lines, their parts, and the same figures in every format."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

import openpyxl
import pypdfium2
import pytest

from exporter.errors import LedgerError, UsageError
from pipelines.book import adjusting
from pipelines.book.document import Statement
from pipelines.book.figures import adding_up
from pipelines.book.statement_outlook import outlook_tables
from pipelines.book.statement_pdf import to_png
from pipelines.book.statements import FORMATS, rendered, statement
from pipelines.book.words import words_of
from pipelines.config import Config, load
from pipelines.operations import report
from pipelines.outlook.model import (
    AnomalyReport,
    BudgetReport,
    CauseReport,
    EntitlementReport,
    Outlook,
    ProjectionReport,
    UnitCostReport,
)
from tests.pipelines.book.conftest import CONFIG, Book


def draft(config: Config, tenant: str, period: str) -> Statement:
    return statement(config, tenant, period).statement


def total(amounts: list[str]) -> Decimal:
    return sum((Decimal(a) for a in amounts), Decimal(0))


def test_the_lines_are_what_was_worked_out_by_hand(book: Book) -> None:
    made = draft(book(), "astro", "2026-10")
    # 2 reserved GPUs × 24 h × 1.50; 1 GPU × 12 h beyond them × 2.50; 1 of the unused was down for 2 h.
    assert {line.kind: line.amount for line in made.lines if line.kind not in {"idle", "overhead"}} == {
        "usage": "30.00",
        "reservation": "72.00",
        "credit": "-3.00",
    }
    usage = next(line for line in made.lines if line.kind == "usage")
    assert [(p.class_, p.quantity, p.rate, p.amount) for p in usage.parts] == [("overflow", 12.0, "2.50", "30.00")]
    fee = next(line for line in made.lines if line.kind == "reservation")
    assert [(p.reservation, p.quantity, p.rate, p.amount) for p in fee.parts] == [("r1", 48.0, "1.50", "72.00")]
    assert made.held_cost == "66.00"  # 30.00, and 24 reserved hours × 1.50
    assert made.number is None


@pytest.mark.parametrize("tenant", ["astro", "bio"])
def test_a_statement_says_what_the_report_says(book: Book, tenant: str) -> None:
    config = book()
    made = draft(config, tenant, "2026-10")
    row = next(t for t in report(config, period="2026-10").tenants if t.tenant == tenant)
    assert made.total == row.charges.total
    assert made.gpu_hours == row.gpu_hours
    assert [w.name for w in made.workloads] == [w.workload for w in row.workloads]


@pytest.mark.parametrize("tenant", ["astro", "bio"])
def test_sums_hold_on_every_level(book: Book, tenant: str) -> None:
    made = draft(book(), tenant, "2026-10")
    assert total([line.amount for line in made.lines]) == Decimal(made.total)
    for line in made.lines:
        if line.parts:
            assert total([part.amount for part in line.parts]) == Decimal(line.amount)
    for shares in (made.classes, made.models, made.workloads):
        assert total([share.cost for share in shares]) == Decimal(made.held_cost)
        assert sum(share.gpu_hours for share in shares) == pytest.approx(made.gpu_hours.allocated, abs=2e-6)


def test_a_rate_that_changes_within_the_period_makes_two_parts(book: Book) -> None:
    changed = CONFIG.replace("to: 2026-10-01,", "to: 2026-10-01T06:00:00Z,").replace(
        "from: 2026-10-01, on_demand", "from: 2026-10-01T06:00:00Z, on_demand"
    )
    made = draft(book(config=changed), "astro", "2026-10")
    usage = next(line for line in made.lines if line.kind == "usage")
    assert [(p.rate, p.amount) for p in usage.parts] == [("2.00", "12.00"), ("2.50", "15.00")]
    assert [p.description for p in usage.parts] == ["H100, overflow, from 10-01"] * 2


def test_trend_and_budget(book: Book) -> None:
    made = draft(book(), "astro", "2026-10")
    assert [p.period for p in made.trend] == ["2026-09"]
    assert made.budget is not None
    assert made.budget.spent_ratio == pytest.approx(float(made.total) / 1000, abs=1e-6)


@pytest.mark.parametrize("format_", FORMATS)
def test_made_again_it_is_the_same_bytes(book: Book, format_: str) -> None:
    config = book()
    first, second = (rendered(draft(config, "astro", "2026-10"), format_) for _ in range(2))
    assert first == second
    assert len(first) > 500


def test_json_reads_back(book: Book) -> None:
    made = draft(book(), "astro", "2026-10")
    assert Statement.model_validate_json(rendered(made, "json")).to_json() == made.to_json()


def test_csv_adds_up_and_starts_no_formula(book: Book) -> None:
    made = draft(book(), "bio", "2026-10")
    rows = list(csv.DictReader(io.StringIO(rendered(made, "csv").decode())))
    assert total([r["amount"] for r in rows if r["row"] == "line"]) == Decimal(made.total)
    assert [r["amount"] for r in rows if r["row"] == "total"] == [made.total]
    assert "'=cmd()" in {r["description"] for r in rows if r["row"] == "workload"}
    assert {r["coverage"] for r in rows} == {""} | {r["coverage"] for r in rows if r["coverage"]}


def test_excel_reads_back_with_the_same_money(book: Book) -> None:
    made = draft(book(), "astro", "2026-10")
    content = rendered(made, "xlsx")
    shown = openpyxl.load_workbook(io.BytesIO(content), data_only=True)["Statement"]
    cells = {row[1].value: row[7].value for row in shown.iter_rows() if row[1].value}
    assert cells["Total"] == float(made.total)
    assert cells["Reserved GPUs, used or not"] == 72.0
    formulas = openpyxl.load_workbook(io.BytesIO(content))["Statement"]
    total_row = next(row for row in formulas.iter_rows() if row[1].value == "Total")
    assert str(total_row[7].value).startswith("=SUM(H")
    amounts = [row[7].value for row in formulas.iter_rows() if isinstance(row[0].value, int)]
    assert sum(amounts) == pytest.approx(float(made.total))


def test_a_name_is_never_a_formula_in_excel(book: Book) -> None:
    book_ = openpyxl.load_workbook(io.BytesIO(rendered(draft(book(), "bio", "2026-10"), "xlsx")))
    cell = next(c for row in book_["Workloads"].iter_rows() for c in row if c.value == "=cmd()")
    assert cell.data_type == "s"


def test_the_pdf_holds_what_is_owed_and_why(book: Book) -> None:
    made = draft(book(), "astro", "2026-10")
    pages = pypdfium2.PdfDocument(rendered(made, "pdf"))
    text = "\n".join(page.get_textpage().get_text_range() for page in pages)
    for expected in ("Astro & Co, 2026-10", "Research Computing", "DRAFT", made.total, "72.00", "−3.00", "n/a", "4711"):
        assert expected in text
    assert all(png.startswith(b"\x89PNG") for png in to_png(made))


AHEAD: Final = Outlook(
    reached=datetime(2026, 10, 14, tzinfo=UTC),
    projections=[
        ProjectionReport(
            tenant="astro", kind="money", method="run_rate", expected="310.22", low="298.00", high="333.50", days=12
        )
    ],
    budgets=[
        BudgetReport(
            tenant="astro", kind="money", budget="1000.00", spent="-11.50", spent_ratio=-0.0115, elapsed_ratio=0.5,
            exhausted_on=date(2026, 10, 28),
        )
    ],
    anomalies=[
        AnomalyReport(
            tenant="astro", start=datetime(2026, 10, 5, 3, tzinfo=UTC), end=datetime(2026, 10, 5, 9, tzinfo=UTC),
            gpu_hours=96.0, usual_gpu_hours=20.5, score=7.2, causes=[CauseReport(workload="train", gpu_hours=60.0)],
        )
    ],
    unit_costs=[UnitCostReport(tenant="astro", allocated="6.83", active=None, tensor_active=None)],
    entitlements=[
        EntitlementReport(
            tenant="astro", kind="reservation", name="r1", gpus=2, mean_gpus=1.2, peak_gpus=2.0, utilization=0.6
        )
    ],
    fairness=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("en", ("Looking ahead", "310.22", "333.50", "2026-10-28", "96.0", "train", "6.83", "Reservation r1", "60.0%")),
        ("fa", ("پیش رو", "۳۱۰٫۲۲", "۶٫۸۳", "۶۰٫۰٪")),
    ],
)
def test_the_pdf_of_a_draft_looks_ahead_and_that_of_a_closed_month_does_not(
    book: Book, locale: str, expected: tuple[str, ...]
) -> None:
    made = draft(book(), "astro", "2026-10")
    ahead, without = (outlook_tables(made.model_copy(update={"outlook": o}), words_of(locale)) for o in (AHEAD, None))
    assert without is None
    shown = json.dumps(ahead, ensure_ascii=False)
    assert [text for text in expected if text not in shown] == []
    pdf = rendered(made.model_copy(update={"outlook": AHEAD}), "pdf", locale)
    pages = pypdfium2.PdfDocument(pdf)
    text = "\n".join(page.get_textpage().get_text_range() for page in pages)
    if locale == "en":
        assert [wanted for wanted in expected if wanted not in text] == []


@pytest.mark.parametrize("locale", ["en", "fa"])
def test_the_workbook_of_a_draft_looks_ahead_as_its_pdf_does(book: Book, locale: str) -> None:
    made = draft(book(), "astro", "2026-10").model_copy(update={"outlook": AHEAD})
    told = outlook_tables(made, words_of(locale))
    assert told is not None
    sheet = openpyxl.load_workbook(io.BytesIO(rendered(made, "xlsx", locale)))[told["title"]]
    rows = [[cell for cell in row if cell is not None] for row in sheet.iter_rows(values_only=True)]
    wanted = [row for table in told["tables"] for row in (table["head"], *table["rows"])]
    assert [row for row in rows[2:] if row] == wanted
    closed = rendered(made.model_copy(update={"outlook": None}), "xlsx", locale)
    assert told["title"] not in openpyxl.load_workbook(io.BytesIO(closed)).sheetnames


def test_a_draft_with_more_credit_than_bill_and_a_budget_is_made(book: Book) -> None:
    config = book()
    adjusting.credit(
        config, "astro", Decimal("900.00"), about="2026-09", reason="x", now=datetime(2026, 10, 20, tzinfo=UTC), by="a"
    )
    made = draft(config, "astro", "2026-09")
    assert Decimal(made.total) < 0
    assert rendered(made, "pdf").startswith(b"%PDF")


def test_a_name_that_no_font_can_draw_keeps_no_statement_from_being_made(book: Book) -> None:
    made = draft(book(), "bio", "2026-10")
    names = ["研究部", "日本語カタカナ", "team 🚀", "x\x01y\x1b[31mred", "한국 हिन्दी", "a\ufffdb", "\U0010fffd", "мир"]
    named = [made.workloads[0].model_copy(update={"name": name}) for name in names]
    text = "\n".join(
        page.get_textpage().get_text_range()
        for page in pypdfium2.PdfDocument(rendered(made.model_copy(update={"workloads": named}), "pdf"))
    )
    assert "мир" in text
    assert "team" in text
    assert "研" not in text


def test_unknown_is_said_and_never_zero(book: Book) -> None:
    made = draft(book(), "bio", "2026-10")
    assert (made.utilization, made.waste, made.gpu_hours.active) == (None, None, None)
    assert any("unknown, not zero" in note for note in made.notes)
    sheets = openpyxl.load_workbook(io.BytesIO(rendered(made, "xlsx")))
    totals = [
        [cell.value for cell in row if cell.value]
        for name in ("Held and used", "Workloads")
        for row in sheets[name].iter_rows()
        if row[0].value == "Total"
    ]
    assert [[str(v).partition("(")[0] for v in row] for row in totals] == [["Total", "=SUM", "n/a", "=SUM", "n/a"]] * 3


def test_a_tenant_or_period_without_anything_is_refused(book: Book) -> None:
    config = book()
    with pytest.raises(UsageError, match="no such tenant"):
        draft(config, "nobody", "2026-10")
    with pytest.raises(UsageError, match="bio has no usage"):
        draft(config, "bio", "2026-07")


def test_before_anything_is_published_it_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    with pytest.raises(LedgerError, match="nothing is published"):
        draft(load(folder / "gpuledger.yaml"), "astro", "2026-10")


def test_what_is_shown_adds_up() -> None:
    assert adding_up([0.004, 0.004, 0.004]) == (["0.01", "0.00", "0.00"], "0.01")
