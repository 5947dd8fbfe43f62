"""Statements: what each tenant is billed, line by line, to look at and to take along."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import streamlit as st

from app import address, downloads, statement_files, statement_shelf, tables, words
from app.accounts import ZERO
from app.scope import Scope
from app.shares import CLASSES, LINES
from app.views import statement_line, statement_tasks, whatif
from app.views.common import link, scope_of_page
from exporter.errors import UsageError
from pipelines.book.document import Line, Statement
from pipelines.book.focus.columns import VERSIONS

VIEWS: Final = {"statement": "Statement", "explain": "Explain a line", "whatif": "What if"}


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    views = [v for v in VIEWS if v == "statement" or (scope.whole_fleet and (v == "whatif" or scope.tenant))]
    view = address.segments("View", "view", views, "statement", VIEWS.__getitem__) if len(views) > 1 else "statement"
    if view == "whatif":
        whatif.show(scope)
    elif scope.tenant is None:
        _all(scope)
    elif view == "explain":
        statement_line.show(scope, scope.tenant)
    else:
        _one(scope, scope.tenant)


def by_month(scope: Scope) -> None:
    """Say which month this is, where the range is another."""
    if scope.span.name != scope.month.name:
        st.caption(f"Statements are by month: this is {scope.month.days.label}, in which {scope.span.label} ends.")


def _all(scope: Scope) -> None:
    rows = scope.ask(
        "SELECT tenant, total FROM tenant_period WHERE period = $month ORDER BY total DESC, tenant",
        month=scope.month.name,
    ).rows()
    total = sum((amount for _, amount in rows), ZERO)
    count = "1 statement" if len(rows) == 1 else f"{len(rows)} statements"
    st.title(f"{scope.month.days.label}: {count}, {words.literal(words.money(total, scope.currency))}")
    book = statement_shelf.closed_book(scope)
    numbers = book.numbers if book else {}
    st.markdown(
        "The month is closed: its statements don't change any more."
        if book
        else "The month is open: its statements are drafts until `gpuledger close` closes it."
    )
    by_month(scope)
    tables.sums(
        ["Tenant", tables.Cell("Statement"), f"Total, {scope.currency}"],
        [
            (
                tables.Cell(scope.tenant_name(tenant), href=link("statements", scope, tenant=tenant)),
                tables.Cell(numbers.get(tenant, "draft")),
                words.amount(amount, scope.currency),
            )
            for tenant, amount in rows
        ],
        total=("Billed", tables.Cell(""), words.amount(total, scope.currency)),
    )
    st.header("All of them, to take along")
    statement_tasks.show(scope)
    st.header("For FinOps tools")
    _focus(scope)


def _focus(scope: Scope) -> None:
    """Offer the month as FOCUS, of the tenant in scope or of all."""
    month = scope.month.name
    st.caption("FOCUS, checked before it is handed out: what is billed in it is the statements, to the cent.")
    tables.buttons(
        (
            f"FOCUS {version}, {'CSV' if format_ == 'csv' else 'Parquet'}",
            downloads.focus_address(month, format_, version, scope.tenant),
        )
        for version in VERSIONS
        for format_ in downloads.FOCUS_TYPES
    )


def _one(scope: Scope, tenant: str) -> None:
    name = words.literal(scope.tenant_name(tenant))
    try:
        made = statement_shelf.found(scope, tenant)
    except UsageError:
        st.title(f"{scope.month.days.label}: no statement for {name}")
        st.info("It has no usage, reservation, charge or budget in this month. Choose another month above.")
        return
    if made is None:
        _own_draft(scope, name)
        return
    statement = made.statement
    total = words.literal(words.money(Decimal(statement.total), statement.currency))
    st.title(f"{scope.month.days.label}: {name}, {total}")
    st.markdown(
        f"Closed as **{words.literal(statement.number)}**."
        if statement.number
        else "A draft: the month is open, and what comes in late still changes it."
    )
    by_month(scope)
    tables.buttons(
        (label, downloads.statement_address(tenant, scope.month.name, format_))
        for format_, label in statement_files.NAMES.items()
    )
    tables.sums(
        ["Line", tables.Cell("For"), "Quantity", statement.currency],
        [_line(line, statement) for line in statement.lines],
        total=("Total", tables.Cell(""), "", words.amount(Decimal(statement.total), statement.currency)),
    )
    st.header("What each line is made of")
    for line in statement.lines:
        _parts(line, statement)
    if scope.whole_fleet:
        st.header("For FinOps tools")
        _focus(scope)


def _line(line: Line, statement: Statement) -> tuple[str | tables.Cell, ...]:
    quantity = "–" if line.quantity is None else f"{line.quantity:,.2f} {line.unit or ''}".strip()
    amount = words.amount(Decimal(line.amount), statement.currency)
    return line.description, tables.Cell(line.charge_period), quantity, amount


def _parts(line: Line, statement: Statement) -> None:
    if not line.parts:
        return
    amount = words.literal(words.amount(Decimal(line.amount), statement.currency))
    with st.expander(f"{words.literal(line.description)}: {amount}"):
        tables.sums(
            ["Part", tables.Cell("Class"), "Quantity", "Rate", statement.currency],
            [
                (
                    part.description,
                    tables.Cell(CLASSES.get(part.class_ or "", part.class_ or "–")),
                    "–" if part.quantity is None else f"{part.quantity:,.2f}",
                    part.rate or "–",
                    words.amount(Decimal(part.amount), statement.currency),
                )
                for part in line.parts
            ],
        )


def _own_draft(scope: Scope, name: str) -> None:
    """Show a member the lines of an open month, from its own file."""
    rows = dict(
        scope.ask(
            "SELECT line, sum(amount) FROM line_day WHERE period = $month AND tenant = $tenant GROUP BY line",
            month=scope.month.name,
        ).iter_rows()
    )
    if not rows:
        st.title(f"{scope.month.days.label}: no statement for {name}")
        st.info("Nothing was held, reserved or charged in this month. Choose another month above.")
        return
    total = words.money(sum(rows.values(), ZERO), scope.currency)
    st.title(f"{scope.month.days.label}: {name}, {words.literal(total)}")
    st.markdown("The month is open: the statement can be downloaded once it is closed. So far:")
    by_month(scope)
    tables.sums(
        ["Line", scope.currency],
        [(label, words.amount(rows[key], scope.currency)) for key, label in LINES.items() if key in rows],
        total=("Total", words.amount(sum(rows.values(), ZERO), scope.currency)),
    )
