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
from pipelines.book.statement_outlook import outlook_tables
from pipelines.book.words import ENGLISH, Words
from pipelines.money import minor_unit

INK: Final = "#1F2A37"
NAME_WIDTH: Final = 60
LINE_POINTS: Final = 15
SHADE: Final = "#EEF2F6"
PERSIAN_DIGITS: Final = "[$-3000429]"  # a number format's digits: shape 3 (Persian), language 0429


@dataclass(frozen=True)
class _Formats:
    """The formats and the words of a workbook."""

    words: Words
    title: Any
    note: Any
    head: Any
    head_right: Any
    text: Any
    start: Any
    wrapped: Any
    unit: Any
    head_unit: Any
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


def to_xlsx(statement: Statement, words: Words = ENGLISH) -> bytes:
    """Return the workbook: Statement, Held and used, Workloads, Trend, and of a draft Looking ahead."""
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
    formats = _formats(book, statement.currency, words)
    _statement(book.add_worksheet(words.label("Statement")), statement, formats)
    sheet = book.add_worksheet(words.label("Held and used"))
    row = _shares(sheet, 0, words.label("By class"), statement.classes, statement, formats)
    _shares(sheet, row + 1, words.label("By GPU model"), statement.models, statement, formats)
    _workloads(book.add_worksheet(words.label("Workloads")), statement, formats)
    if statement.trend:
        _trend(book, statement, formats)
    _outlook(book, statement, formats)
    for worksheet in book.worksheets():
        if words.right_to_left:
            worksheet.right_to_left()
        worksheet.hide_gridlines(2)
        worksheet.set_paper(9)
        worksheet.set_landscape()
        worksheet.fit_to_pages(1, 0)
        worksheet.set_footer(f"&L{_plain_footer(statement)}&R{'&P / &N' if words.right_to_left else 'Page &P of &N'}")
    book.close()
    return stream.getvalue()


def _outlook(book: Any, statement: Statement, f: _Formats) -> None:
    ahead = outlook_tables(statement, f.words)
    if ahead is None:
        return
    sheet = book.add_worksheet(ahead["title"])
    sheet.set_column(0, 0, 60)
    sheet.set_column(1, 5, 20)
    sheet.write(0, 0, ahead["title"], f.title)
    sheet.write(1, 0, ahead["note"], f.note)
    row = 3
    for table in ahead["tables"]:
        for cells, first, others in (
            (table["head"], f.head, f.head_right),
            *((r, f.text, f.hours) for r in table["rows"]),
        ):
            for column, text in enumerate(cells):
                sheet.write(row, column, text, others if column else first)
            row += 1
        row += 1


def _plain_footer(statement: Statement) -> str:
    number = statement.number or "draft"
    return f"{statement.tenant.id} {statement.label} ({number})".replace("&", "&&")


def _formats(book: Any, currency: str, words: Words) -> _Formats:
    digits = minor_unit(currency)
    shape = PERSIAN_DIGITS if words.right_to_left else ""
    money = f"{shape}#,##0" + (f".{'0' * digits}" if digits else "")
    base = {
        "font_name": "Vazirmatn" if words.right_to_left else "Calibri",
        "font_size": 10,
        "font_color": INK,
        "valign": "vcenter",
    }
    quiet = {**base, "font_color": "#5B6775", "font_size": 9}
    bold = {**base, "bold": True, "top": 1, "bg_color": SHADE}
    head = {**base, "bold": True, "bottom": 1, "bg_color": SHADE}

    start, end = ("right", "left") if words.right_to_left else ("left", "right")

    def made(**more: Any) -> Any:
        # A cell's own direction: without it Excel takes that of the cell's first strong letter, often a Latin name's.
        return book.add_format({**more, **({"reading_order": 2} if words.right_to_left else {})})

    return _Formats(
        words=words,
        title=made(**{**base, "bold": True, "font_size": 16}),
        note=made(**quiet),
        head=made(**head),
        head_right=made(**head, align=end),
        text=made(**base, num_format=f"{shape}General"),
        start=made(**base, num_format=f"{shape}General", align=start),
        wrapped=made(**base, text_wrap=True),
        unit=made(**base, indent=1, align=start),
        head_unit=made(**head, indent=1, align=start),
        hours=made(**base, num_format=f"{shape}#,##0.00", align=end),
        money=made(**base, num_format=money, align=end),
        percent=made(**base, num_format=f"{shape}0.0%", align=end),
        part=made(**quiet, indent=1, align=start),
        part_hours=made(**quiet, num_format=f"{shape}#,##0.00", align=end),
        part_money=made(**quiet, num_format=money, align=end),
        rate=made(**quiet, num_format=f"{shape}#,##0.00####", align=end),
        total=made(**bold),
        total_hours=made(**bold, num_format=f"{shape}#,##0.00", align=end),
        total_money=made(**bold, num_format=money, align=end),
        time=made(**base, num_format="yyyy-mm-dd hh:mm", align=end),
    )


def _statement(sheet: Worksheet, statement: Statement, f: _Formats) -> None:
    zone = ZoneInfo(statement.period.timezone)
    start, end = (t.astimezone(zone) for t in (statement.period.from_, statement.period.to))
    sheet.set_column(0, 0, 5)
    sheet.set_column(1, 1, 58)
    sheet.set_column(2, 6, 15)
    words, label = f.words, f.words.label
    head = f"{label('GPU statement')}: {statement.tenant.name}{words.comma} {words.number(statement.label)}"
    sheet.write(0, 0, head, f.title)
    number = f"{label('Statement')} {words.number(statement.number)}" if statement.number else None
    span = f"{label('From')} {words.date(start)} {label('to')} {words.date(end)} ({statement.period.timezone})"
    cost_center = f"{label('cost center')} {statement.tenant.cost_center or label('none')}"
    facts = [
        number or label("DRAFT: the period is open"),
        f"{span}{words.comma} {label('end exclusive')}",
        f"{label('Tenant')} {statement.tenant.id}{words.comma} {cost_center}",
        f"{label('Amounts in')} {statement.currency}; {label('as of')} {words.date(statement.as_of)} UTC",
        f"{label('Configuration')} {statement.config_hash[:12]}",
    ]
    if statement.issuer:
        facts.insert(1, f"{label('Issued by')} {statement.issuer}")
    for i, fact in enumerate(facts):
        sheet.write(i + 1, 0, fact, f.note)
    row = len(facts) + 2
    for column, name in enumerate(("No.", "Line", "Charge period", "Quantity", "Unit", "Rate", "Part", "Amount")):
        sheet.write(
            row, column, label(name), {0: f.head, 1: f.head, 2: f.head, 4: f.head_unit}.get(column, f.head_right)
        )
    sheet.set_column(7, 7, 16)
    first = row = row + 1
    for line in statement.lines:
        sheet.write(row, 0, line.number, f.start)
        sheet.write(row, 1, words.phrase(line.description), f.text)
        sheet.write(row, 2, words.number(line.charge_period), f.text)
        if line.quantity is not None:
            sheet.write(row, 3, line.quantity, f.hours)
            sheet.write(row, 4, label(line.unit or ""), f.unit)
        sheet.write(row, 7, float(line.amount), f.money)
        row += 1
        for part in line.parts:
            sheet.write(row, 1, words.phrase(part.description), f.part)
            if part.quantity is not None:
                sheet.write(row, 3, part.quantity, f.part_hours)
                sheet.write(row, 4, label(line.unit or ""), f.part)
            if part.rate is not None:
                sheet.write(row, 5, float(part.rate), f.rate)
            sheet.write(row, 6, float(part.amount), f.part_money)
            row += 1
    for column in range(7):
        sheet.write(row, column, label("Total") if column == 1 else "", f.total)
    formula = f"=SUM(H{first + 1}:H{row})" if row > first else "=0"
    sheet.write_formula(row, 7, formula, f.total_money, float(statement.total))
    row += 2
    waste = f"{label('Waste: held and not used, at the on-demand rate')} ({statement.currency})"
    for name, value, format_ in (
        ("GPU-hours held", statement.gpu_hours.allocated, f.hours),
        ("of which used", statement.gpu_hours.active, f.hours),
        ("Reserved, not used (GPU-hours)", statement.gpu_hours.reserved_unused, f.hours),
        ("Utilisation of what was observed", statement.utilization, f.percent),
        ("Coverage: share of the held time that was observed", statement.coverage, f.percent),
        (waste, _money(statement.waste), f.money),
        ("Energy (kWh)", statement.energy_kwh, f.hours),
        ("CO2e (kg)", statement.co2e_kg, f.hours),
    ):
        sheet.write(row, 1, label(name), f.text)
        sheet.write(row, 7, label("n/a") if value is None else value, format_)
        row += 1
    for note in statement.notes if words.locale == "en" else words.notes(statement):
        sheet.write(row + 1, 1, note, f.note)
        row += 1
    sheet.freeze_panes(first, 0)
    sheet.repeat_rows(first - 1)


def _shares(sheet: Worksheet, row: int, title: str, shares: Sequence[Share], statement: Statement, f: _Formats) -> int:
    sheet.set_column(0, 0, 40)
    sheet.set_column(1, 5, 20)
    heads = (
        title,
        f.words.label("GPU-hours held"),
        f.words.label("GPU-hours used"),
        f.words.label("Utilisation"),
        f"{f.words.label('Cost')} {statement.currency}",
        f"{f.words.label('Waste')} {statement.currency}",
    )
    for column, name in enumerate(heads):
        sheet.write(row, column, name, f.head_right if column else f.head)
    first = row = row + 1
    for share in shares:
        name = share.name.replace("_", " ")
        sheet.write(row, 0, f.words.phrase(name) if share in statement.classes else name, f.text)
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
        sheet.write(row, column + offset, f.words.label("n/a") if value is None else value, format_)


def _totals(sheet: Worksheet, row: int, first: int, column: int, statement: Statement, f: _Formats) -> None:
    for blank in range(column):
        sheet.write(row, blank, f.words.label("Total") if blank == 0 else "", f.total)
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
        if value is None:  # a sum over nothing known is not 0
            sheet.write(row, column + offset, f.words.label("n/a"), format_)
            continue
        sheet.write_formula(row, column + offset, f"=SUM({letter}{first + 1}:{letter}{row})", format_, value)


def _workloads(sheet: Worksheet, statement: Statement, f: _Formats) -> None:
    zone = ZoneInfo(statement.period.timezone)
    longest = max((len(share.name) for share in statement.workloads), default=0)
    width = min(max(longest + 2, 30), NAME_WIDTH)
    sheet.set_column(0, 0, width)
    sheet.set_column(1, 1, 14)
    sheet.set_column(2, 3, 16)
    sheet.set_column(4, 9, 20)
    label = f.words.label
    names = ("Workload", "User", "First held", "Last held", "GPU-hours held", "GPU-hours used", "Utilisation")
    money = (f"{label(name)} {statement.currency}" for name in ("Cost", "Waste"))
    heads = (*(label(name) for name in names), *money, label("Coverage"))
    for column, name in enumerate(heads):
        sheet.write(0, column, name, f.head_right if column > 1 else f.head)
    for row, share in enumerate(statement.workloads, start=1):
        if len(share.name) + 2 > width:  # not every program makes room for wrapped text by itself
            sheet.set_row(row, LINE_POINTS * -(-(len(share.name) + 2) // width))
        sheet.write_string(row, 0, share.name, f.wrapped)
        sheet.write_string(row, 1, share.user or "", f.text)
        for column, at in ((2, share.start), (3, share.end)):
            if at is not None:
                sheet.write_datetime(row, column, at.astimezone(zone).replace(tzinfo=None), f.time)
        _cells(sheet, row, 4, share, f)
        sheet.write(row, 9, label("n/a") if share.coverage is None else share.coverage, f.percent)
    _totals(sheet, len(statement.workloads) + 1, 1, 4, statement, f)
    sheet.write(len(statement.workloads) + 1, 9, "", f.total)
    sheet.freeze_panes(1, 1)
    sheet.repeat_rows(0)
    if statement.workloads:
        sheet.autofilter(0, 0, len(statement.workloads), 9)


def _trend(book: Any, statement: Statement, f: _Formats) -> None:
    title, label = f.words.label("Trend"), f.words.label
    sheet = book.add_worksheet(title)
    sheet.set_column(0, 2, 18)
    for column, name in enumerate((label("Period"), label("GPU-hours held"), f"{label('Total')} {statement.currency}")):
        sheet.write(0, column, name, f.head_right if column else f.head)
    months = [(p.period, p.gpu_hours, p.total) for p in statement.trend]
    months.append((statement.label, statement.gpu_hours.allocated, statement.total))
    for row, (period, hours, total) in enumerate(months, start=1):
        sheet.write_string(row, 0, f.words.number(period), f.text)
        sheet.write(row, 1, hours, f.hours)
        sheet.write(row, 2, float(total), f.money)
    chart = book.add_chart({"type": "column"})
    chart.add_series(
        {
            "name": f"{label('Total')} {statement.currency}",
            "categories": [title, 1, 0, len(months), 0],
            "values": [title, 1, 2, len(months), 2],
            "fill": {"color": "#2F6FA8"},
        }
    )
    chart.set_legend({"none": True})
    chart.set_title(
        {"name": f"{label('Total by month')}{f.words.comma} {statement.currency}", "name_font": {"size": 11}}
    )
    sheet.insert_chart("E2", chart)


def _money(amount: str | None) -> float | None:
    return None if amount is None else float(Decimal(amount))
