"""Where a line of a statement comes from: its leases, their hours, the rate entry, and sums that add up to it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import polars as pl
import streamlit as st

from app import address, statement_shelf, tables, words
from app.scope import Scope
from app.shares import CLASSES
from exporter.errors import UsageError
from pipelines.book.document import Line
from pipelines.book.explaining import Explanation, explain
from pipelines.book.price_walk import Repriced

ROWS: Final = 1000


def show(scope: Scope, tenant: str) -> None:
    """Draw the page."""
    name = words.literal(scope.tenant_name(tenant))
    try:
        made = statement_shelf.found(scope, tenant)
    except UsageError:
        made = None
    if made is None:
        st.title(f"{scope.month.days.label}: no statement for {name}")
        st.info("It has no usage, reservation, charge or budget in this month. Choose another month above.")
        return
    lines = {str(line.number): line for line in made.statement.lines}
    if not lines:
        st.title(f"{scope.month.days.label}: {name} has no line to explain")
        st.info("Nothing was charged in this month.")
        return
    chosen = address.select(
        "Line",
        "line",
        list(lines),
        next(iter(lines)),
        lambda n: f"{lines[n].description}, {words.amount(Decimal(lines[n].amount), made.statement.currency)}",
        width=address.WIDE,
    )
    found = _explained(scope.reader.content, tenant, scope.month.name, int(chosen), scope)
    line, currency = found.line, made.statement.currency
    st.title(
        f"{words.literal(line.description)}: {words.literal(words.money(Decimal(line.amount), currency))} for {name}"
    )
    st.markdown(f"{scope.month.days.label}, rated by configuration `{words.literal(found.config_hash[:12])}`.")
    for step in found.steps:
        st.markdown(f"- {words.sentence(step)}")
    if found.repriced is not None:
        _repriced(found.repriced, line, scope.config.currency)
    if found.leases:
        _leases(found, currency, scope)
    elif not found.steps:
        st.info("Nothing more is known of it than the line itself.")


def _leases(found: Explanation, currency: str, scope: Scope) -> None:
    leases = sorted(found.leases, key=lambda one: -Decimal(one.amount))
    total = sum((Decimal(one.amount) for one in leases), Decimal(0))
    hours = sum(one.gpu_hours for one in leases)
    st.markdown(
        f"{words.counted(len(leases), 'lease')}, {words.hours(hours)} GPU-hours; together "
        f"**{words.literal(words.money(total, currency))}**, the line. Hours × rate is each one's part."
    )
    frame = pl.DataFrame(
        [
            (
                one.workload,
                one.first.astimezone(scope.zone).replace(tzinfo=None),
                one.last.astimezone(scope.zone).replace(tzinfo=None),
                one.node,
                one.device,
                CLASSES.get(one.class_, one.class_),
                one.gpu_hours,
                None if one.coverage is None else 100 * one.coverage,
                None if one.rate is None else Decimal(one.rate),
                Decimal(one.amount),
                one.rate_entry,
                f"{one.origin}, its device is a guess" if one.guessed else one.origin,
            )
            for one in leases[:ROWS]
        ],
        schema={
            "workload": pl.String, "first": pl.Datetime, "last": pl.Datetime, "node": pl.String, "device": pl.String,
            "class": pl.String, "gpu_hours": pl.Float64, "coverage": pl.Float64, "rate": pl.Decimal(38, 18),
            "amount": pl.Decimal(38, 4), "entry": pl.String, "origin": pl.String,
        },
        orient="row",
    )  # fmt: skip
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (frame.height + 1) + 3, 460),
        column_config={
            "workload": "Workload",
            "first": st.column_config.DatetimeColumn("From", format="D MMM, HH:mm"),
            "last": st.column_config.DatetimeColumn("To", format="D MMM, HH:mm"),
            "node": "Node",
            "device": st.column_config.TextColumn("Device", width=110),
            "class": "Class",
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.2f"),
            "coverage": st.column_config.NumberColumn("Observed", format="%.0f%%"),
            "rate": st.column_config.NumberColumn("Rate", format="%.4f"),
            "amount": st.column_config.NumberColumn(f"{currency}", format=words.money_format(currency)),
            "entry": st.column_config.TextColumn("Priced by", width="medium"),
            "origin": st.column_config.TextColumn("Known from", width="medium"),
        },
    )
    if len(leases) > ROWS:
        st.caption(f"The {ROWS:,} dearest; `gpuledger explain` gives all of them with their hours.")
    by_entry: dict[str, list[Decimal]] = {}
    for one in leases:
        by_entry.setdefault(one.rate_entry, []).append(Decimal(one.amount))
    tables.sums(
        ["Priced by", "Leases", currency],
        [
            (tables.Cell(entry, wraps=True), f"{len(parts):,}", words.amount(sum(parts), currency))
            for entry, parts in by_entry.items()
        ],
        total=("The line", f"{len(leases):,}", words.amount(total, currency)),
    )


def _repriced(walk: Repriced, line: Line, currency: str) -> None:
    """Draw both sides of a reprice, down to the entries of the rate card."""
    for title, parts, amount in (
        ("Then", walk.then, walk.then_amount),
        ("Now", walk.now, walk.now_amount),
    ):
        tables.sums(
            [title, "Class", "GPU-hours", "Rate", currency, "Priced by"],
            [
                (
                    tables.Cell(part.what, wraps=True), tables.Cell(CLASSES.get(part.class_, part.class_)),
                    words.hours(part.gpu_hours), part.rate or words.UNKNOWN,
                    words.amount(Decimal(part.amount), currency), tables.Cell(part.rate_entry, wraps=True),
                )
                for part in parts
            ],
            total=("Together", "", "", "", words.amount(Decimal(amount), currency), ""),
        )  # fmt: skip
    if Decimal(walk.booked_before):
        st.markdown(f"Booked before: {words.literal(words.money(Decimal(walk.booked_before), currency))}.")
    st.markdown(f"What is left is this line: **{words.literal(words.amount(Decimal(line.amount), currency))}**.")


@st.cache_data(max_entries=32, show_spinner="Going back to its leases")
def _explained(published: str, tenant: str, month: str, line: int, _scope: Scope) -> Explanation:
    # The file's name stands for its content: the same one gives the same answer.
    del published
    return explain(_scope.config, f"{tenant}/{month}", line)
