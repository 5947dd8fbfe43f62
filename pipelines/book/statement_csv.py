"""A statement as CSV: one row per line, and one per part of it, whose amounts add up to the line's."""

from __future__ import annotations

import csv
import io
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
    common = _common(statement)
    for row in _rows(statement):
        writer.writerow([_safe(value) for value in map({**common, **row}.get, COLUMNS)])
    return stream.getvalue().encode()


def _common(statement: Statement) -> dict[str, object]:
    return {
        "statement": statement.number or "",
        "status": statement.status,
        "tenant": statement.tenant.id,
        "period": statement.label,
        "charge_period": statement.label,
        "currency": statement.currency,
    }


def _rows(statement: Statement) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for line in statement.lines:
        rows.append(
            {
                "row": "line", "line": line.number, "kind": line.kind, "charge_period": line.charge_period,
                "description": line.description, "quantity": line.quantity, "unit": line.unit, "amount": line.amount,
                "reference": line.reference,
            }
        )  # fmt: skip
        rows += [
            {
                "row": "part", "line": line.number, "kind": line.kind, "charge_period": line.charge_period,
                "description": part.description, "model": part.model, "class": part.class_,
                "reservation": part.reservation, "quantity": part.quantity, "unit": line.unit, "rate": part.rate,
                "amount": part.amount,
            }
            for part in line.parts
        ]  # fmt: skip
    rows.append({"row": "total", "description": "Total", "amount": statement.total})
    for name, shares in (
        ("class", statement.classes),
        ("model", statement.models),
        ("workload", statement.workloads),
    ):
        rows += [
            {
                "row": name, "description": share.name, "quantity": share.gpu_hours, "unit": "GPU-h",
                "amount": share.cost, "active_gpu_hours": share.active_gpu_hours, "utilization": share.utilization,
                "coverage": share.coverage, "waste": share.waste,
            }
            for share in shares
        ]  # fmt: skip
    return rows


def _safe(value: object) -> object:
    """Keep a spreadsheet from taking a name for a formula: names come from users."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+@\t\r" and value else value
