"""A statement as PDF, laid out by Typst: the same statement gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final
from zoneinfo import ZoneInfo

import typst

from pipelines.book.document import Line, Share, Statement
from pipelines.book.figures import UNKNOWN, adding_up, amount, percent, quantity

SHOWN_WORKLOADS: Final = 25
MEANINGS: Final = (
    "GPU-h held: the time that GPUs were allocated to you, used or not; it is what is charged.",
    "GPU-h used: hours held × mean engine activity of what was observed. Utilisation: used ÷ held, of the observed.",
    "Waste: held and not used, at the on-demand rate. It is no charge of its own.",
    "Coverage: the share of the held time with a valid sample.",
    "Cost of what was held: usage, and the reserved hours used at their reservation's rate.",
    "Parts under a line add up to it, and lines to the total; each line is rounded once.",
)


def to_pdf(statement: Statement) -> bytes:
    """Return the PDF."""
    # No font of the machine: the same bytes everywhere. PDF/A is what archives of accounts ask for.
    return typst.compile(
        _template(),
        format="pdf",
        ignore_system_fonts=True,
        sys_inputs=_inputs(statement),
        timestamp=int(statement.as_of.timestamp()),
        pdf_standards="a-2b",
    )


def to_png(statement: Statement) -> list[bytes]:
    """Return the pages as pictures, for whoever changes the layout and wants to look at it."""
    pages: Any = typst.compile(
        _template(), format="png", ppi=110, ignore_system_fonts=True, sys_inputs=_inputs(statement)
    )
    return pages if isinstance(pages, list) else [pages]


def _inputs(statement: Statement) -> dict[str, str]:
    return {"statement": json.dumps(_laid_out(statement), ensure_ascii=False)}


@cache
def _template() -> bytes:
    return files("pipelines.book").joinpath("statement.typ").read_bytes()


def _laid_out(statement: Statement) -> dict[str, Any]:
    zone = ZoneInfo(statement.period.timezone)
    start, end = (t.astimezone(zone) for t in (statement.period.from_, statement.period.to))
    tenant = statement.tenant
    facts = [
        ("Tenant", tenant.id),
        *([("Cost center", tenant.cost_center)] if tenant.cost_center else []),
        *([("Part of", tenant.parent)] if tenant.parent else []),
        ("From", f"{start:%Y-%m-%d %H:%M}"),
        ("Up to, without", f"{end:%Y-%m-%d %H:%M}"),
        ("Time zone", statement.period.timezone),
    ]
    return {
        "title": f"GPU statement {tenant.name} {statement.label}",
        "author": statement.issuer or "GPULedger",
        "issuer": statement.issuer or "",
        "number": statement.number or "",
        "draft": statement.number is None,
        "tenant": {"name": tenant.name},
        "period": {"label": statement.label},
        "currency": statement.currency,
        "facts": [{"name": name, "value": value} for name, value in facts],
        "glance": _glance(statement),
        "lines": [_line(line, statement.currency) for line in statement.lines],
        "total": amount(statement.total, statement.currency),
        **_views(statement),
        "budget": _budget(statement),
        "trend": _trend(statement),
        "notes": [*statement.notes, *MEANINGS],
        "footer": f"{statement.number or 'Draft'} · {tenant.id} · {statement.label} · as of "
        f"{statement.as_of:%Y-%m-%d %H:%M} UTC · configuration {statement.config_hash[:12]}",
    }


def _glance(s: Statement) -> list[dict[str, Any]]:
    hours = s.gpu_hours
    unused = f"{quantity(hours.reserved_unused, 1)} more reserved, not used" if hours.reserved_unused else ""
    tiles = [
        (f"Total {s.currency}", amount(s.total, s.currency), "", True),
        ("GPU-hours held", quantity(hours.allocated, 1), unused, False),
        ("Utilisation", percent(s.utilization), f"{quantity(hours.active, 1)} GPU-hours used", False),
        (f"Waste {s.currency}", amount(s.waste, s.currency), "held, not used", False),
        ("Cost of what was held", amount(s.held_cost, s.currency), "usage and used reservations", False),
        ("Coverage", percent(s.coverage), "of the held time observed", False),
        ("Energy", UNKNOWN if s.energy_kwh is None else f"{quantity(s.energy_kwh, 1)} kWh", "", False),
        ("CO₂e", UNKNOWN if s.co2e_kg is None else f"{quantity(s.co2e_kg, 1)} kg", "", False),
    ]
    return [{"name": name, "value": value, "note": note, "large": large} for name, value, note, large in tiles]


def _line(line: Line, currency: str) -> dict[str, Any]:
    return {
        "number": str(line.number),
        "description": line.description,
        "charge_period": line.charge_period,
        "quantity": "" if line.quantity is None else f"{quantity(line.quantity)} {line.unit or ''}".strip(),
        "amount": amount(line.amount, currency),
        "parts": [
            {
                "description": part.description,
                "quantity": "" if part.quantity is None else quantity(part.quantity),
                "rate": part.rate or "",
                "amount": amount(part.amount, currency),
            }
            for part in line.parts
        ],
    }


def _views(s: Statement) -> dict[str, Any]:
    shown = sorted(s.workloads, key=lambda w: (-Decimal(w.cost), -w.gpu_hours, w.name))
    rest = shown[SHOWN_WORKLOADS:]
    title = "Workload" if not rest else f"Workload, the {SHOWN_WORKLOADS} dearest of {len(shown)}"
    workloads = [*shown[:SHOWN_WORKLOADS], *([_together(rest)] if rest else [])]
    return {
        "classes": _rows(s.classes, s),
        "models": _rows(s.models, s),
        "workloads": _rows(workloads, s),
        "workloads_title": title,
        "shares_total": {
            "held": quantity(s.gpu_hours.allocated),
            "used": quantity(s.gpu_hours.active),
            "utilization": percent(s.utilization),
            "cost": amount(s.held_cost, s.currency),
            "waste": amount(s.waste, s.currency),
        },
        "held_note": f"three views of the same hours; cost and waste in {s.currency}",
    }


def _together(rest: Sequence[Share]) -> Share:
    seen = [w for w in rest if w.active_gpu_hours is not None]
    known = [Decimal(w.waste) for w in rest if w.waste is not None]
    held = sum(w.gpu_hours for w in seen)
    active = sum(w.active_gpu_hours or 0.0 for w in seen)
    return Share(
        name=f"{len(rest)} others",
        gpu_hours=sum(w.gpu_hours for w in rest),
        active_gpu_hours=active if seen else None,
        utilization=active / held if held else None,
        cost=str(sum((Decimal(w.cost) for w in rest), Decimal(0))),
        waste=str(sum(known, Decimal(0))) if known else None,
    )


def _rows(shares: Sequence[Share], s: Statement) -> list[dict[str, str]]:
    held, _ = adding_up([share.gpu_hours for share in shares])
    used, _ = adding_up([share.active_gpu_hours or 0.0 for share in shares])
    return [
        {
            "name": share.name.replace("_", " ") if share in s.classes else share.name,
            "held": hours,
            "used": UNKNOWN if share.active_gpu_hours is None else active,
            "utilization": percent(share.utilization),
            "cost": amount(share.cost, s.currency),
            "waste": amount(share.waste, s.currency),
        }
        for share, hours, active in zip(shares, held, used, strict=True)
    ]


def _budget(s: Statement) -> list[dict[str, Any]]:
    budget = s.budget
    if budget is None:
        return []
    rows = []
    if budget.monthly is not None and budget.spent_ratio is not None:
        value = f"{amount(s.total, s.currency)} of {amount(budget.monthly, s.currency)} ({percent(budget.spent_ratio)})"
        rows.append((f"Money, {s.currency}", budget.spent_ratio, value))
    if budget.gpu_hours is not None and budget.gpu_hours_ratio is not None:
        held, of = quantity(s.gpu_hours.allocated, 1), quantity(budget.gpu_hours, 1)
        rows.append(("GPU-hours", budget.gpu_hours_ratio, f"{held} of {of} ({percent(budget.gpu_hours_ratio)})"))
    return [
        {"name": name, "share": min(max(share, 0.0), 1.0), "over": share > 1, "value": value}
        for name, share, value in rows
    ]


def _trend(s: Statement) -> list[dict[str, Any]]:
    months = [(p.period, p.gpu_hours, p.total, False) for p in s.trend]
    months.append((s.label, s.gpu_hours.allocated, s.total, True))
    largest = max((abs(Decimal(total)) for _, _, total, _ in months), default=Decimal(0))
    return [
        {
            "period": period,
            "held": quantity(hours, 1),
            "total": amount(total, s.currency),
            "share": float(max(Decimal(total), Decimal(0)) / largest) if largest else 0.0,
            "current": current,
        }
        for period, hours, total, current in months
    ]
