"""Who held what, when: leases in a window of time, what is free now, and what is reserved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from app.scope import ALLOWED, IN_DAYS, Scope
from pipelines.instants import to_ms
from pipelines.periods import local_midnight

ROWS: Final = 72
"""Lines of a picture; more can't be told apart."""

MOST: Final = 4000
"""Leases of a picture, the longest first; shorter ones would be less than a pixel."""

BARS: Final = """
    -- grain: lease, within the window
    SELECT coalesce(lease.node, 'unknown node') AS node, lease.device, lease.instance, lease.workload,
           u.tenant, coalesce(lease."user", lease.slurm_user) AS "user",
           greatest(lease.start, $since) AS start, least(lease."end", $until) AS "end",
           lease.start AS whole_start, lease."end" AS whole_end
    FROM lease JOIN (
        SELECT DISTINCT lease, tenant FROM lease_period WHERE first < $until AND last > $since
    ) AS u ON u.lease = lease.id
    WHERE lease.start < $until AND lease."end" > $since
      AND ($tenant IS NULL OR u.tenant = $tenant) AND ($node IS NULL OR lease.node = $node)
    ORDER BY least(lease."end", $until) - greatest(lease.start, $since) DESC, lease.start, lease.id
    LIMIT $most
"""


@dataclass(frozen=True)
class Window:
    """Local days [first, first + days)."""

    first: date
    days: int
    zone: ZoneInfo

    @property
    def bounds(self) -> tuple[int, int]:
        """Start and end in ms."""
        after = self.first + timedelta(days=self.days)
        return to_ms(local_midnight(self.first, self.zone)), to_ms(local_midnight(after, self.zone))


def bars(scope: Scope, window: Window, node: str | None) -> list[dict[str, Any]]:
    """Return the leases in a window: node, device, workload, tenant, user, and times in ms cut to the window."""
    since, until = window.bounds
    return scope.ask(BARS, since=since, until=until, node=node, most=MOST).to_dicts()


def nodes(scope: Scope) -> list[str]:
    """Return the nodes that there were."""
    return scope.ask(
        f"SELECT DISTINCT node FROM device_day WHERE {IN_DAYS} AND node IS NOT NULL AND {ALLOWED} ORDER BY node"
    )["node"].to_list()


def reservations(scope: Scope) -> list[dict[str, Any]]:
    """Return reservations that touch the span or come later."""
    return scope.ask(
        f"""SELECT id, tenant, model, gpus, epoch_ms(start) AS start, epoch_ms("end") AS "end" FROM reservation
        WHERE epoch_ms("end") > $since AND {ALLOWED} ORDER BY start, id"""
    ).to_dicts()
