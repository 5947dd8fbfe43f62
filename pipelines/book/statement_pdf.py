"""A statement as PDF, laid out by Typst: the same statement gives the same bytes."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final
from zoneinfo import ZoneInfo

import typst

from pipelines.book.document import Line, Share, Statement
from pipelines.book.figures import UNKNOWN, adding_up, amount, percent, quantity
from pipelines.book.statement_outlook import outlook_tables
from pipelines.book.words import ENGLISH, Words

REPLACEMENT: Final = "\ufffd"
_UNDRAWN: Final = re.compile(r'the text `?"(.*?)"`? could not be displayed', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\u\{([0-9a-f]+)\}")
SHOWN_WORKLOADS: Final = 25
MOST_PAGES: Final = 100
LABELS: Final = {
    "page": "Page", "of": "of", "title": "GPU statement", "draft": "DRAFT: the period is open",
    "number": "Statement number", "charges": "Charges", "no": "No.", "line": "Line", "period": "Period",
    "quantity": "Quantity", "rate": "Rate", "part": "Part", "amount": "Amount", "total": "Total", "held": "GPU-h held",
    "used": "GPU-h used", "utilization": "Utilisation", "cost": "Cost", "waste": "Waste",
    "views": "What was held, used and wasted", "class": "Class", "model": "GPU model", "budget": "Budget",
    "trend": "Trend", "by_month": "total by month", "month": "Month", "how": "How to read this",
}  # fmt: skip
"""What the template says, by what it calls it."""


def to_pdf(statement: Statement, words: Words = ENGLISH) -> bytes:
    """Return the PDF; characters that its fonts can't draw are shown as U+FFFD.

    Whoever names a workload chooses its characters, and no name may keep a month from being closed.
    """
    content, undrawn = _laid_out(statement, words), frozenset[str]()
    while True:
        try:
            # No font of the machine: the same bytes everywhere. PDF/A is what archives of accounts ask for.
            return typst.compile(
                _template(),
                format="pdf",
                font_paths=_fonts(words.locale),
                sys_inputs={"statement": json.dumps(without(content, undrawn), ensure_ascii=False)},
                timestamp=int(statement.as_of.timestamp()),
                pdf_standards="a-2b",
            )
        except typst.TypstError as error:
            found = _UNDRAWN.search(str(error))
            more = _alike(content, _ESCAPE.sub(lambda e: chr(int(e[1], 16)), found[1])) if found else undrawn
            if more <= undrawn:
                raise
            undrawn |= more


def to_png(statement: Statement, words: Words = ENGLISH) -> list[bytes]:
    """Return the pages as pictures, for whoever changes the layout and wants to look at it."""
    pages: Any = typst.compile(
        _template(),
        format="png",
        ppi=110,
        font_paths=_fonts(words.locale),
        sys_inputs=_inputs(statement, words),
    )
    return pages if isinstance(pages, list) else [pages]


def without(content: Any, characters: frozenset[str]) -> Any:
    """Return JSON content in which U+FFFD stands for each of some characters; ``?`` where that is one of them."""
    if isinstance(content, str):
        mark = "?" if REPLACEMENT in characters else REPLACEMENT
        return "".join(mark if c in characters else c for c in content)
    if isinstance(content, list):
        return [without(item, characters) for item in content]
    if isinstance(content, dict):
        return {key: without(value, characters) for key, value in content.items()}
    return content


def _alike(content: Any, characters: str) -> frozenset[str]:
    """Return some characters and those of the content that are of their kinds: each kind costs one try."""
    present = {c for text in _strings(content) for c in text}
    kinds = {_kind(c) for c in characters}
    return frozenset(characters) | {c for c in present if _kind(c) in kinds}


def _kind(character: str) -> str:
    """Return the script of a letter, as its name says it ("CJK", "HANGUL"), else the category."""
    category = unicodedata.category(character)
    return unicodedata.name(character, category).split()[0] if category.startswith("L") else category


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | dict):
        for item in content.values() if isinstance(content, dict) else content:
            yield from _strings(item)


def _inputs(statement: Statement, words: Words) -> dict[str, str]:
    return {"statement": json.dumps(_laid_out(statement, words), ensure_ascii=False)}


@cache
def _fonts(locale: str) -> typst.Fonts:
    """Return the fonts of a language: those that Typst brings, and for Persian the one that is here."""
    own = [str(files("pipelines.book").joinpath("fonts"))] if locale == "fa" else []
    return typst.Fonts(include_system_fonts=False, font_paths=own)


@cache
def _template() -> bytes:
    return files("pipelines.book").joinpath("statement.typ").read_bytes()


def _laid_out(s: Statement, words: Words) -> dict[str, Any]:
    zone = ZoneInfo(s.period.timezone)
    start, end = (t.astimezone(zone) for t in (s.period.from_, s.period.to))
    tenant, label = s.tenant, words.label
    facts = [
        ("Tenant", tenant.id),
        *([("Cost center", tenant.cost_center)] if tenant.cost_center else []),
        *([("Part of", tenant.parent)] if tenant.parent else []),
        ("From", words.date(start)),
        ("Up to, without", words.date(end)),
        ("Time zone", s.period.timezone),
    ]
    number = s.number or label("Draft")
    as_of = words.date(s.as_of)
    return {
        "lang": words.locale,
        "rtl": words.right_to_left,
        "words": {key: label(text) for key, text in LABELS.items()} | {"comma": words.comma},
        "pages": [words.number(str(n)) for n in range(1, MOST_PAGES)],
        "title": f"GPU statement {tenant.name} {s.label}",
        "author": s.issuer or "GPULedger",
        "issuer": s.issuer or "",
        "number": words.number(s.number or ""),
        "draft": s.number is None,
        "tenant": {"name": tenant.name},
        "period": {"label": words.number(s.label)},
        "currency": s.currency,
        "facts": [{"name": label(name), "value": value} for name, value in facts],
        "glance": _glance(s, words),
        "lines": [_line(line, s, words) for line in s.lines],
        "total": words.number(amount(s.total, s.currency)),
        **_views(s, words),
        "budget": _budget(s, words),
        "trend": _trend(s, words),
        "outlook": outlook_tables(s, words),
        "notes": words.notes(s),
        # Each part reads in its own direction: a date's parts would else change places among Persian words.
        "footer": [
            [number],
            [tenant.id],
            [words.number(s.label)],
            [label("as of"), f"{as_of} UTC"],
            [label("configuration"), s.config_hash[:12]],
        ],
    }


def _glance(s: Statement, words: Words) -> list[dict[str, Any]]:
    hours, label, number = s.gpu_hours, words.label, words.number
    more = f"{number(quantity(hours.reserved_unused, 1))} {label('more reserved, not used')}"
    used = f"{_figure(quantity(hours.active, 1), words)} {label('GPU-hours used')}"
    energy = UNKNOWN if s.energy_kwh is None else f"{quantity(s.energy_kwh, 1)} kWh"
    carbon = UNKNOWN if s.co2e_kg is None else f"{quantity(s.co2e_kg, 1)} kg"
    tiles = [
        (f"{label('Total')} {s.currency}", amount(s.total, s.currency), "", True),
        (label("GPU-hours held"), quantity(hours.allocated, 1), more if hours.reserved_unused else "", False),
        (label("Utilisation"), percent(s.utilization), used, False),
        (f"{label('Waste')} {s.currency}", amount(s.waste, s.currency), label("held, not used"), False),
        (label("Cost of what was held"), amount(s.held_cost, s.currency), label("usage and used reservations"), False),
        (label("Coverage"), percent(s.coverage), label("of the held time observed"), False),
        (label("Energy"), energy, "", False),
        ("CO₂e", carbon, "", False),
    ]
    return [
        {"name": name, "value": _figure(value, words), "note": note, "large": large}
        for name, value, note, large in tiles
    ]


def _figure(text: str, words: Words) -> str:
    return words.label(text) if text == UNKNOWN else words.number(text)


def _line(line: Line, s: Statement, words: Words) -> dict[str, Any]:
    number = words.number
    return {
        "number": number(str(line.number)),
        "description": words.phrase(line.description),
        "charge_period": number(line.charge_period),
        "quantity": "" if line.quantity is None else number(quantity(line.quantity)),
        "unit": "" if line.quantity is None else words.label(line.unit or ""),
        "amount": number(amount(line.amount, s.currency)),
        "parts": [
            {
                "description": words.phrase(part.description),
                "quantity": "" if part.quantity is None else number(quantity(part.quantity)),
                "rate": number(part.rate or ""),
                "amount": number(amount(part.amount, s.currency)),
            }
            for part in line.parts
        ],
    }


def _views(s: Statement, words: Words) -> dict[str, Any]:
    shown = sorted(s.workloads, key=lambda w: (-Decimal(w.cost), -w.gpu_hours, w.name))
    rest = shown[SHOWN_WORKLOADS:]
    title = words.label("Workload")
    if rest:
        counts = (words.number(str(SHOWN_WORKLOADS)), words.number(str(len(shown))))
        title = (
            f"{title}، {counts[0]} تا از گران‌ترین‌ها از {counts[1]}"
            if words.right_to_left
            else f"{title}, the {counts[0]} dearest of {counts[1]}"
        )
    workloads = [*shown[:SHOWN_WORKLOADS], *([_together(rest, words)] if rest else [])]
    return {
        "classes": _rows(s.classes, s, words),
        "models": _rows(s.models, s, words),
        "workloads": _rows(workloads, s, words),
        "workloads_title": title,
        "shares_total": {
            "held": _figure(quantity(s.gpu_hours.allocated), words),
            "used": _figure(quantity(s.gpu_hours.active), words),
            "utilization": _figure(percent(s.utilization), words),
            "cost": _figure(amount(s.held_cost, s.currency), words),
            "waste": _figure(amount(s.waste, s.currency), words),
        },
        "held_note": f"{words.label('three views of the same hours; cost and waste in')} {s.currency}",
    }


def _together(rest: Sequence[Share], words: Words) -> Share:
    seen = [w for w in rest if w.active_gpu_hours is not None]
    known = [Decimal(w.waste) for w in rest if w.waste is not None]
    held = sum(w.gpu_hours for w in seen)
    active = sum(w.active_gpu_hours or 0.0 for w in seen)
    return Share(
        name=f"{words.number(str(len(rest)))} {words.label('others')}",
        gpu_hours=sum(w.gpu_hours for w in rest),
        active_gpu_hours=active if seen else None,
        utilization=active / held if held else None,
        cost=str(sum((Decimal(w.cost) for w in rest), Decimal(0))),
        waste=str(sum(known, Decimal(0))) if known else None,
    )


def _rows(shares: Sequence[Share], s: Statement, words: Words) -> list[dict[str, str]]:
    held, _ = adding_up([share.gpu_hours for share in shares])
    used, _ = adding_up([share.active_gpu_hours or 0.0 for share in shares])
    return [
        {
            "name": words.phrase(share.name.replace("_", " ")) if share in s.classes else share.name,
            "held": words.number(hours),
            "used": words.label(UNKNOWN) if share.active_gpu_hours is None else words.number(active),
            "utilization": _figure(percent(share.utilization), words),
            "cost": _figure(amount(share.cost, s.currency), words),
            "waste": _figure(amount(share.waste, s.currency), words),
        }
        for share, hours, active in zip(shares, held, used, strict=True)
    ]


def _budget(s: Statement, words: Words) -> list[dict[str, Any]]:
    budget = s.budget
    if budget is None:
        return []
    rows: list[tuple[str, float, str, str]] = []
    if budget.monthly is not None and budget.spent_ratio is not None:
        shown = (amount(s.total, s.currency), amount(budget.monthly, s.currency))
        rows.append((f"{words.label('Money')}{words.comma} {s.currency}", budget.spent_ratio, *shown))
    if budget.gpu_hours is not None and budget.gpu_hours_ratio is not None:
        shown = (quantity(s.gpu_hours.allocated, 1), quantity(budget.gpu_hours, 1))
        rows.append((words.label("GPU-hours"), budget.gpu_hours_ratio, *shown))
    return [
        {
            "name": name,
            "share": min(max(share, 0.0), 1.0),
            "over": share > 1,
            "value": f"{words.number(spent)} {words.label('of')} {words.number(whole)}"
            f" ({words.number(percent(share))})",
        }
        for name, share, spent, whole in rows
    ]


def _trend(s: Statement, words: Words) -> list[dict[str, Any]]:
    months = [(p.period, p.gpu_hours, p.total, False) for p in s.trend]
    months.append((s.label, s.gpu_hours.allocated, s.total, True))
    largest = max((abs(Decimal(total)) for _, _, total, _ in months), default=Decimal(0))
    return [
        {
            "period": words.number(period),
            "held": words.number(quantity(hours, 1)),
            "total": words.number(amount(total, s.currency)),
            "share": float(max(Decimal(total), Decimal(0)) / largest) if largest else 0.0,
            "current": current,
        }
        for period, hours, total, current in months
    ]
