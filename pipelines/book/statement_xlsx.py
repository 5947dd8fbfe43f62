"""A statement as an Excel workbook: totals are formulas over what stands above, and the bytes are always the same."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import xlsxwriter
from xlsxwriter.worksheet import Worksheet

from pipelines.book.document import Share, Statement
from pipelines.money import minor_unit

INK: Final = "#1F2A37"
SHADE: Final = "#EEF2F6"


@dataclass(frozen=True)
class _Formats:
    """The formats of a workbook."""

    title: Any
    note: Any
    head: Any
    head_right: Any
    text: Any
    hours: Any
    money: Any
    percent: Any
    part: Any
    part_hours: Any
    part_money: Any
    rate: Any
    total: Any
    total_hours: Any
    total_money: Any
    time: Any


def to_xlsx(statement: Statement) -> bytes:
    """Return the workbook: Statement, Held and used, Workloads, Trend."""
    stream = io.BytesIO()
    # Names come from users: none of them is a formula, a link or a number.
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "remove_timezone": True,
    }
    book = xlsxwriter.Workbook(stream, options)
    made = statement.as_of.replace(tzinfo=None, microsecond=0)
    title = f"GPU statement {statement.tenant.name} {statement.label}"
    book.set_properties({"title": title, "author": statement.issuer or "", "created": made})
    formats = _formats(book, statement.currency)
    _statement(book.add_worksheet("Statement"), statement, formats)
    sheet = book.add_worksheet("Held and used")
    row = _shares(sheet, 0, "By class", statement.classes, statement, formats)
    _shares(sheet, row + 1, "By GPU model", statement.models, statement, formats)
    _workloads(book.add_worksheet("Workloads"), statement, formats)
    if statement.trend:
        _trend(book, statement, formats)
    for worksheet in book.worksheets():
        worksheet.hide_gridlines(2)
        worksheet.set_paper(9)
        worksheet.set_landscape()
        worksheet.fit_to_pages(1, 0)
        worksheet.set_footer(f"&L{_plain_footer(statement)}&RPage &P of &N")
    book.close()
    return stream.getvalue()


def _plain_footer(statement: Statement) -> str:
    number = statement.number or "draft"
    return f"{statement.tenant.id} {statement.label} ({number})".replace("&", "&&")


def _formats(book: Any, currency: str) -> _Formats:
    digits = minor_unit(currency)
    money = "#,##0" + (f".{'0' * digits}" if digits else "")
    base = {"font_name": "Calibri", "font_size": 10, "font_color": INK, "valign": "vcenter"}
    quiet = {**base, "font_color": "#5B6775", "font_size": 9}
    bold = {**base, "bold": True, "top": 1, "bg_color": SHADE}
    head = {**base, "bold": True, "bottom": 1, "bg_color": SHADE}

    def made(**more: Any) -> Any:
        return book.add_format(more)

    return _Formats(
        title=made(**{**base, "bold": True, "font_size": 16}),
        note=made(**quiet),
        head=made(**head),
        head_right=made(**head, align="right"),
        text=made(**base),
        hours=made(**base, num_format="#,##0.00"),
        money=made(**base, num_format=money),
        percent=made(**base, num_format="0.0%", align="right"),
        part=made(**quiet, indent=1),
        part_hours=made(**quiet, num_format="#,##0.00"),
        part_money=made(**quiet, num_format=money),
        rate=made(**quiet, num_format="#,##0.00####"),
        total=made(**bold),
        total_hours=made(**bold, num_format="#,##0.00"),
        total_money=made(**bold, num_format=money),
        time=made(**base, num_format="yyyy-mm-dd hh:mm"),
    )


def _statement(sheet: Worksheet, statement: Statement, f: _Formats) -> None:
    zone = ZoneInfo(statement.period.timezone)
    start, end = (t.astimezone(zone) for t in (statement.period.from_, statement.period.to))
    sheet.set_column(0, 0, 5)
    sheet.set_column(1, 1, 58)
    sheet.set_column(2, 6, 15)
    sheet.write(0, 0, f"GPU statement: {statement.tenant.name}, {statement.label}", f.title)
    facts = [
        f"Statement {statement.number}" if statement.number else "DRAFT: the period is open",
        f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} ({statement.period.timezone}), end exclusive",
        f"Tenant {statement.tenant.id}, cost center {statement.tenant.cost_center or 'none'}",
        f"Amounts in {statement.currency}; as of {statement.as_of:%Y-%m-%d %H:%M} UTC",
        f"Configuration {statement.config_hash[:12]}",
    ]
    if statement.issuer:
        facts.insert(1, f"Issued by {statement.issuer}")
    for i, fact in enumerate(facts):
        sheet.write(i + 1, 0, fact, f.note)
    row = len(facts) + 2
    for column, name in enumerate(("No.", "Line", "Charge period", "Quantity", "Unit", "Rate", "Part", "Amount")):
        sheet.write(row, column, name, f.head if column in {0, 1, 2, 4} else f.head_right)
    sheet.set_column(7, 7, 16)
    first = row = row + 1
    for line in statement.lines:
        sheet.write(row, 0, line.number, f.text)
        sheet.write(row, 1, line.description, f.text)
        sheet.write(row, 2, line.charge_period, f.text)
        if line.quantity is not None:
            sheet.write(row, 3, line.quantity, f.hours)
            sheet.write(row, 4, line.unit, f.text)
        sheet.write(row, 7, float(line.amount), f.money)
        row += 1
        for part in line.parts:
            sheet.write(row, 1, part.description, f.part)
            if part.quantity is not None:
                sheet.write(row, 3, part.quantity, f.part_hours)
                sheet.write(row, 4, line.unit, f.part)
            if part.rate is not None:
                sheet.write(row, 5, float(part.rate), f.rate)
            sheet.write(row, 6, float(part.amount), f.part_money)
            row += 1
    for column in range(7):
        sheet.write(row, column, "Total" if column == 1 else "", f.total)
    formula = f"=SUM(H{first + 1}:H{row})" if row > first else "=0"
    sheet.write_formula(row, 7, formula, f.total_money, float(statement.total))
    row += 2
    for label, value, format_ in (
        ("GPU-hours held", statement.gpu_hours.allocated, f.hours),
        ("of which used", statement.gpu_hours.active, f.hours),
        ("Reserved, not used (GPU-hours)", statement.gpu_hours.reserved_unused, f.hours),
        ("Utilisation of what was observed", statement.utilization, f.percent),
        ("Coverage: share of the held time that was observed", statement.coverage, f.percent),
        (f"Waste: held and not used, at the on-demand rate ({statement.currency})", _money(statement.waste), f.money),
        ("Energy (kWh)", statement.energy_kwh, f.hours),
        ("CO2e (kg)", statement.co2e_kg, f.hours),
    ):
        sheet.write(row, 1, label, f.text)
        sheet.write(row, 7, "n/a" if value is None else value, format_)
        row += 1
    for note in statement.notes:
        sheet.write(row + 1, 1, note, f.note)
        row += 1
    sheet.freeze_panes(first, 0)


def _shares(sheet: Worksheet, row: int, title: str, shares: Sequence[Share], statement: Statement, f: _Formats) -> int:
    sheet.set_column(0, 0, 40)
    sheet.set_column(1, 5, 17)
    heads = (
        title,
        "GPU-hours held",
        "GPU-hours used",
        "Utilisation",
        f"Cost {statement.currency}",
        f"Waste {statement.currency}",
    )
    for column, name in enumerate(heads):
        sheet.write(row, column, name, f.head_right if column else f.head)
    first = row = row + 1
    for share in shares:
        sheet.write(row, 0, share.name.replace("_", " "), f.text)
        _cells(sheet, row, 1, share, f)
        row += 1
    _totals(sheet, row, first, 1, statement, f)
    return row + 1


def _cells(sheet: Worksheet, row: int, column: int, share: Share, f: _Formats) -> None:
    sheet.write(row, column, share.gpu_hours, f.hours)
    for offset, value, format_ in (
        (1, share.active_gpu_hours, f.hours),
        (2, share.utilization, f.percent),
        (3, _money(share.cost), f.money),
        (4, _money(share.waste), f.money),
    ):
        sheet.write(row, column + offset, "n/a" if value is None else value, format_)


def _totals(sheet: Worksheet, row: int, first: int, column: int, statement: Statement, f: _Formats) -> None:
    for blank in range(column):
        sheet.write(row, blank, "Total" if blank == 0 else "", f.total)
    cached = (
        statement.gpu_hours.allocated, statement.gpu_hours.active, None, float(statement.held_cost),
        _money(statement.waste),
    )  # fmt: skip
    for offset, value in enumerate(cached):
        if offset == 2 or row == first:
            sheet.write(row, column + offset, "", f.total)
            continue
        letter = chr(ord("A") + column + offset)
        format_ = f.total_money if offset > 2 else f.total_hours
        sheet.write_formula(row, column + offset, f"=SUM({letter}{first + 1}:{letter}{row})", format_, value or 0)


def _workloads(sheet: Worksheet, statement: Statement, f: _Formats) -> None:
    zone = ZoneInfo(statement.period.timezone)
    sheet.set_column(0, 0, 44)
    sheet.set_column(1, 1, 14)
    sheet.set_column(2, 8, 16)
    heads = ("Workload", "User", "First held", "Last held", "GPU-hours held", "GPU-hours used", "Utilisation",
             f"Cost {statement.currency}", f"Waste {statement.currency}", "Coverage")  # fmt: skip
    for column, name in enumerate(heads):
        sheet.write(0, column, name, f.head_right if column > 3 else f.head)
    for row, share in enumerate(statement.workloads, start=1):
        sheet.write_string(row, 0, share.name, f.text)
        sheet.write_string(row, 1, share.user or "", f.text)
        for column, at in ((2, share.start), (3, share.end)):
            if at is not None:
                sheet.write_datetime(row, column, at.astimezone(zone).replace(tzinfo=None), f.time)
        _cells(sheet, row, 4, share, f)
        sheet.write(row, 9, "n/a" if share.coverage is None else share.coverage, f.percent)
    _totals(sheet, len(statement.workloads) + 1, 1, 4, statement, f)
    sheet.write(len(statement.workloads) + 1, 9, "", f.total)
    sheet.freeze_panes(1, 1)
    if statement.workloads:
        sheet.autofilter(0, 0, len(statement.workloads), 9)


def _trend(book: Any, statement: Statement, f: _Formats) -> None:
    sheet = book.add_worksheet("Trend")
    sheet.set_column(0, 2, 18)
    for column, name in enumerate(("Period", "GPU-hours held", f"Total {statement.currency}")):
        sheet.write(0, column, name, f.head_right if column else f.head)
    months = [(p.period, p.gpu_hours, p.total) for p in statement.trend]
    months.append((statement.label, statement.gpu_hours.allocated, statement.total))
    for row, (period, hours, total) in enumerate(months, start=1):
        sheet.write_string(row, 0, period, f.text)
        sheet.write(row, 1, hours, f.hours)
        sheet.write(row, 2, float(total), f.money)
    chart = book.add_chart({"type": "column"})
    chart.add_series(
        {
            "name": f"Total {statement.currency}",
            "categories": ["Trend", 1, 0, len(months), 0],
            "values": ["Trend", 1, 2, len(months), 2],
            "fill": {"color": "#2F6FA8"},
        }
    )
    chart.set_legend({"none": True})
    chart.set_title({"name": f"Total by month, {statement.currency}", "name_font": {"size": 11}})
    sheet.insert_chart("E2", chart)


def _money(amount: str | None) -> float | None:
    return None if amount is None else float(Decimal(amount))
