"""Links from Grafana: its time range and its variable become this app's days and tenant.

``from`` and ``to`` are ms since the epoch, as Grafana writes them, or ISO 8601. Bills are by local day, so that a range
of hours opens the days that it touches.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from app import address
from app.spans import KINDS, Days, containing
from exporter.errors import UsageError
from pipelines.instants import from_ms
from pipelines.periods import parse_time

TENANT = "var-tenant"
SINCE, UNTIL = "from", "to"
MOMENT = timedelta(milliseconds=1)


def take_tenant() -> None:
    """Take over the variable of a Grafana link."""
    given = address.take(TENANT)
    if given is not None and address.value("tenant") is None:
        address.put("tenant", given)


def take_range(zone: ZoneInfo) -> Days | None:
    """Return the days that a Grafana link's time range touches; None: it has none that is absolute."""
    since, until = (_instant(address.take(name), zone) for name in (SINCE, UNTIL))
    if since is None or until is None or until <= since:
        return None
    first, last = (t.astimezone(zone).date() for t in (since, until - MOMENT))
    days = Days("days", first, last + timedelta(days=1))
    return next((c for k in KINDS if (c := containing(first, k)).first == first and c.after == days.after), days)


def _instant(text: str | None, zone: ZoneInfo) -> datetime | None:
    try:
        if text is None:
            return None
        return from_ms(int(text)) if text.lstrip("-").isdecimal() else parse_time(text, zone)
    except (ValueError, OverflowError, UsageError):
        return None
