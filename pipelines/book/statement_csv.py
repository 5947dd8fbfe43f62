"""A statement as CSV: one row per line, and one per part of it, whose amounts add up to the line's."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

from pipelines.book.document import Statement

COLUMNS: Final = (
    "statement", "status", "tenant", "period", "row", "line", "kind", "charge_period", "description", "model", "class",
    "reservation", "quantity", "unit", "rate", "amount", "currency", "active_gpu_hours", "utilization", "coverage",
    "waste", "reference",
)  # fmt: skip
"""`row` says what a row is: line, part (of a line), total, or a view of what was held: class, model, workload.

Amounts of `line` rows add up to `total`; of the views, each adds up to what the held GPUs cost.
"""


def to_csv(statement: Statement) -> bytes:
    """Return the statement as CSV in UTF-8; unknown is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(statement))
    return stream.getvalue().encode()


_Row = tuple[object, ...]


def _rows(statement: Statement) -> Iterator[_Row]:
    """Yield rows in the order of COLUMNS: statements of a thousand workloads are made by the hundred."""
    label, currency = statement.label, statement.currency
    head = (statement.number or "", statement.status, _safe(statement.tenant.id), label)
    for line in statement.lines:
        at = (*head, "line", line.number, line.kind, line.charge_period)
        described = (_safe(line.description), None, None, None, line.quantity, line.unit, None, line.amount)
        yield (*at, *described, currency, None, None, None, None, line.reference)
        at = (*head, "part", line.number, line.kind, line.charge_period)
        for part in line.parts:
            named = (_safe(part.description), _safe(part.model), part.class_, _safe(part.reservation))
            priced = (part.quantity, line.unit, part.rate, part.amount)
            yield (*at, *named, *priced, currency, None, None, None, None, None)
    nothing = (None,) * 3
    yield (*head, "total", None, None, label, "Total", *nothing, *nothing, statement.total, currency, *(None,) * 5)
    for name, shares in (
        ("class", statement.classes),
        ("model", statement.models),
        ("workload", statement.workloads),
    ):
        of_view = (*head, name, None, None, label)
        for share in shares:
            held = (_safe(share.name), *nothing, share.gpu_hours, "GPU-h", None, share.cost)
            used = (share.active_gpu_hours, share.utilization, share.coverage, share.waste)
            yield (*of_view, *held, currency, *used, None)


def _safe(text: str | None) -> str | None:
    """Keep a spreadsheet from taking a name for a formula: names come from users."""
    return f"'{text}" if text and text[0] in "=+@\t\r" else text
