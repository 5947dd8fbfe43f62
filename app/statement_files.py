"""Statements and FOCUS as files; a closed statement is the very bytes that were closed."""

from __future__ import annotations

import csv
import io
from typing import Final

import polars as pl

from pipelines.book.document import Statement
from pipelines.book.focus.export import export
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


def file_name(made: Statement, format_: str) -> str:
    """The name that a downloaded statement has."""
    return f"{made.number or 'draft'}-{made.tenant.id}-{made.label}.{format_}"


def made(config: Config, tenant: str, month: str, *, draft: bool) -> Found | None:
    """Return a tenant's statement; None: the month is open, and no draft is wanted.

    Raises:
        UsageError: the tenant has nothing in that month.
    """
    book = closed_book(config, month)
    if book is not None and tenant in book.numbers:
        return Found(book.statement(tenant), book)
    return statement(config, tenant, month) if draft else None


def focus(config: Config, month: str, format_: str, version: str, tenant: str | None) -> bytes:
    """Return a month's rows of FOCUS, of all tenants or of one.

    Raises:
        UsageError: no such month or version.
    """
    content = export(config, month, format_=format_, version=version)
    if tenant is None:
        return content
    if format_ == "csv":
        rows = csv.reader(io.StringIO(content.decode()))
        header = next(rows)
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        account = header.index("BillingAccountId")
        writer.writerows(row for row in rows if row[account] == tenant)
        return stream.getvalue().encode()
    binary = io.BytesIO()
    pl.read_parquet(io.BytesIO(content)).filter(pl.col("BillingAccountId") == tenant).write_parquet(binary)
    return binary.getvalue()


def closed_book(config: Config, month: str) -> ClosedBook | None:
    """Return the book in which a month was closed; None: it is open."""
    return next((book for book in shelf(config.ledger / FOLDER) if book.period == month), None)
