"""Statements as the app shows them: closed ones as they were closed, drafts made when asked for."""

from __future__ import annotations

import streamlit as st

from app import statement_files
from app.scope import Scope
from pipelines.book.shelf import ClosedBook
from pipelines.book.statements import Found, statement


def closed_book(scope: Scope) -> ClosedBook | None:
    """Return the book in which the month was closed; None: it is open."""
    return statement_files.closed_book(scope.config, scope.month.name)


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
    return _draft(scope.reader.content, scope.month.name, tenant, scope) if may_draft(scope) else None


@st.cache_data(max_entries=64, show_spinner="Making the statement")
def _draft(published: str, month: str, tenant: str, _scope: Scope) -> Found:
    # The file's name stands for its content: the same one gives the same draft.
    del published
    return statement(_scope.config, tenant, month)
