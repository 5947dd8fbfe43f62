"""Statements as the app hands them out: closed ones as they were closed, drafts made when asked for."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app.scope import Scope
from pipelines.book.document import Statement
from pipelines.book.shelf import FOLDER, ClosedBook, shelf
from pipelines.book.statements import Found, statement
from pipelines.config import Config

NAMES: Final = {"pdf": "PDF", "xlsx": "Excel", "csv": "CSV", "json": "JSON"}
TYPES: Final = {
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv",
    "json": "application/json",
}


def closed_book(scope: Scope) -> ClosedBook | None:
    """Return the book in which the month was closed; None: it is open."""
    return _book(scope.config, scope.month.name)


def may_draft(scope: Scope) -> bool:
    """Whether a draft may be made: it is reckoned from the whole fleet's file, which members don't open."""
    return scope.whole_fleet


def found(scope: Scope, tenant: str) -> Found | None:
    """Return a tenant's statement of the month; None: it is a draft that this viewer can't have made.

    Raises:
        UsageError: the tenant has nothing in it.
    """
    book = closed_book(scope)
    if book is not None and tenant in book.numbers:
        return Found(book.statement(tenant), book)
    return _draft(scope.reader.name, scope.month.name, tenant, scope) if may_draft(scope) else None


def content(scope: Scope, tenant: str, format_: str) -> bytes:
    """Return a statement in one of TYPES; asked again at the moment of the download."""
    made = found(scope, tenant)
    return b"" if made is None else made.rendered(format_)


def file_name(made: Statement, format_: str) -> str:
    """The name that a downloaded statement has."""
    return f"{made.number or 'draft'}-{made.tenant.id}-{made.label}.{format_}"


def statement_bytes(config: Config, tenant: str, month: str, format_: str, *, draft: bool) -> bytes | None:
    """Return a statement's content; None: the month is open, and no draft is wanted.

    Raises:
        UsageError: the tenant has nothing in that month.
    """
    book = _book(config, month)
    if book is not None and tenant in book.numbers:
        return Found(book.statement(tenant), book).rendered(format_)
    return statement(config, tenant, month).rendered(format_) if draft else None


def _book(config: Config, month: str) -> ClosedBook | None:
    return next((book for book in shelf(config.ledger / FOLDER) if book.period == month), None)


@st.cache_data(max_entries=64, show_spinner="Making the statement")
def _draft(published: str, month: str, tenant: str, _scope: Scope) -> Found:
    # The file's name stands for its content: the same one gives the same draft.
    del published
    return statement(_scope.config, tenant, month)
