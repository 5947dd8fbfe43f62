"""FOCUS as a file: CSV or Parquet, checked before it is handed out."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import polars as pl

from exporter.errors import ConservationError, UsageError
from pipelines.book.conversion import exchange_of
from pipelines.book.focus.check import check
from pipelines.book.focus.columns import DATASETS, VERSIONS, Column, columns
from pipelines.book.focus.conversion import converted_total, in_own_currency
from pipelines.book.focus.invoices import billing_period, invoice_detail
from pipelines.book.focus.rows import Row, cost_and_usage, utc
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.config import Config
from pipelines.money import plain
from pipelines.periods import Period, parse_period
from pipelines.publish import published_fleet
from pipelines.report import TenantReport

_TYPES: Final = {"decimal": pl.Decimal(38, 18), "time": pl.Datetime("us", "UTC")}


def export(config: Config, period: str, *, format_: str, version: str = "1.2", dataset: str = "CostAndUsage") -> bytes:
    """Return a dataset of a period as "csv" or "parquet", after the checker has passed it.

    Raises:
        UsageError: no such period, version or dataset.
        LedgerError: nothing was published yet.
        ConservationError: the checker found a fault, which is one of this program.
    """
    if version not in VERSIONS:
        raise UsageError(f"--version {version}: expected one of {', '.join(VERSIONS)}")
    if dataset not in DATASETS or (dataset != "CostAndUsage" and version == "1.2"):
        raise UsageError(f"--dataset {dataset}: FOCUS {version} has CostAndUsage; 1.4 also {', '.join(DATASETS[1:])}")
    span = parse_period(period, config.timezone)
    metered, as_of = published_fleet(config.ledger)
    reckoned = Reckoning(config, metered, as_of).of(span)
    rows = [row for piece in reckoned.alone() for row in rows_of(piece, piece.period, dataset)]
    written = checked(rows, reckoned, span, version=version, dataset=dataset)
    wanted = columns(dataset, version)
    return _csv(written, [column.name for column in wanted]) if format_ == "csv" else _parquet(rows, wanted)


def checked(
    rows: Sequence[Row], reckoned: Reckoned, period: Period, *, version: str = "1.2", dataset: str = "CostAndUsage"
) -> list[dict[str, str]]:
    """Return the rows of a dataset as they are written, after the checker has passed them.

    Raises:
        ConservationError: the checker found a fault, which is one of this program.
    """
    wanted = columns(dataset, version)
    written = [{column.name: _text(row.get(column.name)) for column in wanted} for row in rows]
    header = [column.name for column in wanted]
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for piece in reckoned.alone():
        for tenant in piece.report.tenants:
            totals[tenant.tenant] += _owed(tenant, piece.config, piece.period)
    problems = check(written, header, version=version, dataset=dataset, totals=totals)
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise ConservationError(f"FOCUS {version} from {period.start:%Y-%m-%d}: {problems[0]}{more}; please report it")
    return written


def rows_of(reckoned: Reckoned, period: Period, dataset: str) -> list[Row]:
    """Return the rows of a dataset."""
    if dataset != "CostAndUsage":
        return {"BillingPeriod": billing_period, "InvoiceDetail": invoice_detail}[dataset](reckoned, period)
    rows = cost_and_usage(reckoned, period)
    for tenant in reckoned.report.tenants:
        entry = exchange_of(reckoned.config, tenant.tenant, period.end)
        if entry is not None:
            own = [row for row in rows if row["BillingAccountId"] == tenant.tenant]
            others = [row for row in rows if row["BillingAccountId"] != tenant.tenant]
            rows = [*others, *in_own_currency(own, Decimal(tenant.charges.total), entry)]
    return rows


def _owed(tenant: TenantReport, config: Config, period: Period) -> Decimal:
    entry, total = exchange_of(config, tenant.tenant, period.end), Decimal(tenant.charges.total)
    return total if entry is None else converted_total(total, entry)


def _csv(rows: Sequence[dict[str, str]], header: Sequence[str]) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _parquet(rows: Sequence[Row], wanted: Sequence[Column]) -> bytes:
    schema = {column.name: _TYPES.get(column.kind, pl.String()) for column in wanted}
    table = pl.DataFrame({c.name: [row.get(c.name) for row in rows] for c in wanted}, schema=schema)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, Decimal):
        text = plain(value)  # with a point always, so that no reader takes the column for whole numbers
        return text if "." in text else f"{text}.0"
    return str(value)
