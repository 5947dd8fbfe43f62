"""Idle capacity for people: by cause, by owner, what to reclaim first, and what policies say."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from gpuledger.tables import align, counted, shorten, spread
from pipelines.idle.causes import BY_ID
from pipelines.idle.found import Idle
from pipelines.instants import from_ms
from pipelines.money import format_money

UNKNOWN: Final = "n/a"


def render(idle: Idle, zone: ZoneInfo, *, width: int, limit: int) -> str:
    """Return the summary and the first lines of the list as text; no trailing newline."""
    start, end, as_of = (_local(t, zone) for t in (idle.period.start, idle.period.end, idle.as_of))
    sections = [
        [f"{start} to {end} ({zone.key})", f"as of {as_of}"],
        _causes(idle),
        _owners(idle, limit),
        _reclaim(idle, zone, width, limit),
        _policies(idle, zone, width, limit),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _causes(idle: Idle) -> list[str]:
    rows = idle.by_cause()
    shown, total = spread([row["gpu_hours"] or 0.0 for row in rows])
    worths = [row["worth"] for row in rows]
    known = all(worth is not None for worth in worths)
    whole = sum((Decimal(worth or 0) for worth in worths), Decimal(0))
    lines = [["Not used, by cause", "GPU-hours", f"worth {idle.currency}"]]
    for row, hours in zip(rows, shown, strict=True):
        lines.append([f"  {row['title']}", UNKNOWN if row["gpu_hours"] is None else hours, _money(row["worth"], idle)])
    lines += [[], ["  all of it", total, _money(whole if known else None, idle)]]
    told = align(lines)
    if not idle.known:
        told.append("n/a: nothing of what was held was observed, or an older release published it.")
    return told


def _owners(idle: Idle, limit: int) -> list[str]:
    rows = [["By owner", "cause", "GPU-hours", f"worth {idle.currency}"]]
    found = idle.by_owner()
    for row in found[:limit]:
        who = row["owner"] or ("nobody" if row["cause"] not in ("held_idle", "held_barely_used") else "unattributed")
        rows.append([f"  {who}", BY_ID[row["cause"]].title, f"{row['gpu_hours']:,.1f}", _money(row["worth"], idle)])
    lines = align(rows, left={0, 1}) if len(rows) > 1 else []
    more = len(found) - limit
    return [*lines, f"  and {more:,} more; --json has all"] if more > 0 else lines


def _reclaim(idle: Idle, zone: ZoneInfo, width: int, limit: int) -> list[str]:
    if not idle.items:
        return ["Reclaim: nothing was idle"]
    rows = [["Reclaim first", "cause", "owner", "GPUs", "GPU-hours", f"worth {idle.currency}", "since"]]
    for item in idle.items[:limit]:
        since = _local(from_ms(item.since), zone) if item.since is not None else "over"
        rows.append(
            [
                f"  {shorten(item.subject, max(width - 92, 16))}", BY_ID[item.cause].title,
                shorten(item.owner or "", 16), f"{item.gpus or ''}", f"{float(item.gpu_hours):,.1f}",
                _money(item.money, idle), since,
            ]
        )  # fmt: skip
    lines = align(rows, left={0, 1, 2})
    more = len(idle.items) - limit
    return [*lines, f"  and {more:,} more; --json has all, each with its evidence and remedy"] if more > 0 else lines


def _policies(idle: Idle, zone: ZoneInfo, width: int, limit: int) -> list[str]:
    if not idle.hits:
        return []
    rows = [["Policies", "says", "tenant", "workload", "user", "idle GPUs", "GPU-hours", "busy", "since"]]
    for hit in idle.hits[:limit]:
        since = _local(from_ms(hit.since), zone) if hit.since is not None else ""
        rows.append(
            [
                f"  {hit.policy.name}", hit.policy.action, hit.tenant or "unattributed",
                shorten(hit.workload, max(width - 100, 16)), shorten(hit.user or "", 12), f"{hit.gpus or ''}",
                f"{float(hit.gpu_hours):,.1f}", f"{hit.busy:.1%}", since,
            ]
        )  # fmt: skip
    lines = align(rows, left={0, 1, 2, 3, 4})
    more = len(idle.hits) - limit
    return [*lines, f"  and {counted(more, 'more workload')}"] if more > 0 else lines


def _money(amount: Any, idle: Idle) -> str:
    if amount is None:
        return UNKNOWN
    return format_money(Decimal(amount), idle.currency).removeprefix(f"{idle.currency} ")


def _local(t: datetime, zone: ZoneInfo) -> str:
    return f"{t.astimezone(zone):%Y-%m-%d %H:%M}"
