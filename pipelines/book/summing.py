"""A tenant's statement of a span over closed months: the lines of its months' statements, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

from exporter.errors import UsageError
from pipelines.book.document import Line, Share, Stamp, Statement
from pipelines.money import plain, round_money
from pipelines.report import Report


def over_months(parts: Sequence[Statement], tenant: str, report: Report, label: str) -> Statement:
    """Return one statement of several months; each line names its month as its charge period.

    Args:
        parts: in the order of time.
        report: of the whole span, which lists the tenant.

    Raises:
        UsageError: the tenant's currency changed in between.
    """
    currencies = sorted({part.currency for part in parts})
    if len(currencies) > 1:
        raise UsageError(
            f"{tenant}: its statements of {label} are in {' and '.join(currencies)}; choose months of one currency"
        )
    row = next(t for t in report.tenants if t.tenant == tenant)
    currency = currencies[0]
    total = _sum((part.total for part in parts), currency)
    waste = [part.waste for part in parts if part.waste is not None]
    last = parts[-1]
    return last.model_copy(
        update={
            "number": None,
            "status": "open",
            "label": label,
            "period": report.period,
            "as_of": report.as_of,
            "config_hash": report.config_hash,
            "exchange": _stamp(parts, total),
            "lines": _lines(parts),
            "total": plain(total),
            "gpu_hours": row.gpu_hours,
            "utilization": row.utilization,
            "coverage": row.coverage,
            "waste": plain(_sum(waste, currency)) if row.waste is not None else None,
            "energy_kwh": row.energy_kwh,
            "co2e_kg": row.co2e_kg,
            "held_cost": plain(_sum((part.held_cost for part in parts), currency)),
            "classes": _shares([part.classes for part in parts], currency),
            "models": _shares([part.models for part in parts], currency),
            "workloads": _shares([part.workloads for part in parts], currency),
            "budget": None,  # is a month's
            "trend": [],
            "notes": [_made_of(parts), *dict.fromkeys(note for part in parts for note in part.notes)],
            "outlook": None,
        }
    )


def _lines(parts: Sequence[Statement]) -> list[Line]:
    lines = [line for part in parts for line in part.lines]
    return [line.model_copy(update={"number": number}) for number, line in enumerate(lines, 1)]


def _shares(parts: Sequence[Sequence[Share]], currency: str) -> list[Share]:
    by_name: dict[str, list[Share]] = {}
    for share in (share for of_part in parts for share in of_part):
        by_name.setdefault(share.name, []).append(share)
    return [_share(name, of_name, currency) for name, of_name in by_name.items()]


def _share(name: str, shares: Sequence[Share], currency: str) -> Share:
    starts, ends = [s.start for s in shares if s.start], [s.end for s in shares if s.end]
    active = [s.active_gpu_hours for s in shares if s.active_gpu_hours is not None]
    observed = [_observed(s) for s in shares if s.active_gpu_hours is not None]
    covered = [(s.coverage, s.gpu_hours) for s in shares if s.coverage is not None]
    waste = [s.waste for s in shares if s.waste is not None]
    hours = sum(s.gpu_hours for s in shares)
    return Share(
        name=name,
        user=next((s.user for s in shares if s.user is not None), None),
        start=min(starts) if starts else None,
        end=max(ends) if ends else None,
        gpu_hours=round(hours, 6),
        active_gpu_hours=round(sum(active), 6) if active else None,
        utilization=round(sum(active) / sum(observed), 6) if sum(observed) else None,
        coverage=round(sum(c * h for c, h in covered) / hours, 6) if covered and hours else None,
        cost=plain(_sum((s.cost for s in shares), currency)),
        waste=plain(_sum(waste, currency)) if waste else None,
    )


def _observed(share: Share) -> float:
    """Return the hours of the leases ever observed, which utilization is of."""
    if share.utilization and share.active_gpu_hours:
        return share.active_gpu_hours / share.utilization
    return share.gpu_hours if share.utilization is not None else 0.0


def _stamp(parts: Sequence[Statement], total: Decimal) -> Stamp | None:
    stamps = [part.exchange for part in parts if part.exchange is not None]
    if not stamps:
        return None
    own = sum((Decimal(stamp.total) for stamp in stamps), Decimal(0))
    rates = {stamp.rate for stamp in stamps}
    if len(rates) == 1:
        return stamps[-1].model_copy(update={"total": plain(own)})
    mean = f"{float(Fraction(total) / Fraction(own)):.6f}" if own else stamps[-1].rate
    return Stamp(
        currency=stamps[-1].currency,
        total=plain(own),
        rate=mean,
        since=None,
        source="each month at the rate of its end",
    )


def _made_of(parts: Sequence[Statement]) -> str:
    closed = [f"{part.label} ({part.number})" for part in parts if part.number]
    still_open = [part.label for part in parts if not part.number]
    if not closed:
        return f"As known now: {', '.join(still_open)}."
    rest = f"; as known now: {', '.join(still_open)}" if still_open else ""
    return f"Adds up the closed statements of {', '.join(closed)}{rest}."


def _sum(amounts: Iterable[str], currency: str) -> Decimal:
    return sum(map(Decimal, amounts), round_money(0, currency))
