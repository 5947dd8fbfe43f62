"""What was wrong with devices: errors that they reported, what schedulers said of them, and repairs."""

from __future__ import annotations

from typing import Any, Final

from app.scope import Scope
from exporter.xid import xid_class

XIDS: Final = """
    -- grain: device × code
    WITH event AS (
        SELECT start AS t, regexp_extract(detail, 'XID (\\d+) on (\\S+)', 1)::INTEGER AS code,
               regexp_extract(detail, 'XID (\\d+) on (\\S+)', 2) AS device
        FROM finding WHERE code = 'xid_event' AND start >= $since AND start < $until
          AND regexp_matches(detail, 'XID \\d+ on \\S+')
    ),
    held AS (
        SELECT event.*, lease.workload, row_number() OVER (PARTITION BY event.device, code ORDER BY t DESC) AS nth
        FROM event LEFT JOIN lease ON lease.device = event.device AND lease.start <= t AND lease."end" > t
    ),
    place AS (
        SELECT device, any_value(node) AS node, any_value(model) AS model FROM device_day
        WHERE period BETWEEN $first_month AND $last_month GROUP BY device
    )
    SELECT node, held.device, model, code, count(DISTINCT t) AS count, max(t) AS last,
           max(workload) FILTER (nth = 1) AS workload
    FROM held LEFT JOIN place USING (device) GROUP BY ALL ORDER BY count DESC, last DESC, held.device, code
"""
STATES: Final = """
    -- grain: card × stretch of time in which something was wrong with it
    SELECT node, device, model, state, reason, source, start, "end" FROM device_state
    WHERE start < $until AND ("end" IS NULL OR "end" > $since) ORDER BY start, node, device
"""
ACTIONS: Final = {
    "restart_node": "Restart the node",
    "reset_gpu": "Reset the GPU",
    "workflow": "Follow NVIDIA's workflow",
    "application": "Look at the program",
    "informational": "Nothing",
    "other": "Look it up",
}
"""What a class of XIDs asks for, as NVIDIA's catalogue says."""
STATE_NAMES: Final = {"down": "Down", "repair": "Under repair", "degraded": "Degraded"}


def xids(scope: Scope) -> list[dict[str, Any]]:
    """Return errors by device and code: node, device, model, code, count, last (ms), workload, action."""
    return [{**row, "action": ACTIONS[xid_class(row["code"])]} for row in scope.ask(XIDS).to_dicts()]


def states(scope: Scope) -> list[dict[str, Any]] | None:
    """Return when something was wrong with a card; None: what is published doesn't say."""
    return scope.ask(STATES).to_dicts() if scope.has("device_state") else None
