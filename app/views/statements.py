"""Statements: what each tenant is billed, line by line, to look at and to take along."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import streamlit as st

from app import statement_shelf, tables, words
from app.accounts import ZERO
from app.scope import Scope
from app.shares import CLASSES, LINES
from app.views.common import link, scope_of_page
from exporter.errors import UsageError
from pipelines.book.document import Line, Statement


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    if scope.tenant is None:
        _all(scope)
    else:
        _one(scope, scope.tenant)


def _all(scope: Scope) -> None:
    rows = scope.reader.ask(
        "SELECT tenant, total FROM tenant_period WHERE period = $period ORDER BY total DESC, tenant",
        {"period": scope.month.name},
    ).rows()
    total = sum((amount for _, amount in rows), ZERO)
    st.title(f"{scope.month.days.label}: {len(rows)} statements, {words.literal(words.money(total, scope.currency))}")
    book = statement_shelf.closed_book(scope)
    numbers = book.numbers if book else {}
    st.markdown(
        "The month is closed: its statements don't change any more."
        if book
        else "The month is open: its statements are drafts until `gpuledger close` closes it."
    )
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
    st.title(
        f"{scope.month.days.label}: {name}, {words.literal(words.money(Decimal(statement.total), scope.currency))}"
    )
    st.markdown(
        f"Closed as **{words.literal(statement.number)}**."
        if statement.number
        else "A draft: the month is open, and what comes in late still changes it."
    )
    _downloads(scope, tenant, statement)
    tables.sums(
        ["Line", tables.Cell("For"), "Quantity", scope.currency],
        [_line(line, scope) for line in statement.lines],
        total=("Total", tables.Cell(""), "", words.amount(Decimal(statement.total), scope.currency)),
    )
    st.header("What each line is made of")
    for line in statement.lines:
        _parts(line, scope)


def _downloads(scope: Scope, tenant: str, statement: Statement) -> None:
    with st.container(horizontal=True):
        for format_ in statement_shelf.TYPES:
            st.download_button(
                statement_shelf.NAMES[format_],
                data=partial(statement_shelf.content, scope, tenant, format_),
                file_name=statement_shelf.file_name(statement, format_),
                mime=statement_shelf.TYPES[format_],
                icon=":material/download:",
                on_click="ignore",
                key=f"download-{format_}",
            )


def _line(line: Line, scope: Scope) -> tuple[str | tables.Cell, ...]:
    quantity = "–" if line.quantity is None else f"{line.quantity:,.2f} {line.unit or ''}".strip()
    amount = words.amount(Decimal(line.amount), scope.currency)
    return line.description, tables.Cell(line.charge_period), quantity, amount


def _parts(line: Line, scope: Scope) -> None:
    if not line.parts:
        return
    amount = words.literal(words.amount(Decimal(line.amount), scope.currency))
    with st.expander(f"{words.literal(line.description)}: {amount}"):
        tables.sums(
            ["Part", tables.Cell("Class"), "Quantity", "Rate", scope.currency],
            [
                (
                    part.description,
                    tables.Cell(CLASSES.get(part.class_ or "", part.class_ or "–")),
                    "–" if part.quantity is None else f"{part.quantity:,.2f}",
                    part.rate or "–",
                    words.amount(Decimal(part.amount), scope.currency),
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
    tables.sums(
        ["Line", scope.currency],
        [(label, words.amount(rows[key], scope.currency)) for key, label in LINES.items() if key in rows],
        total=("Total", words.amount(sum(rows.values(), ZERO), scope.currency)),
    )
