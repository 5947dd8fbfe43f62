"""Where GPU-hours went, by state and by day: what pages draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from app import palette
from app.scope import Month, Scope

STATE_HOURS: Final = """
    -- grain: one row per local day and state of app.palette
    WITH part AS (
        SELECT day, state, sum(gpu_hours) AS held, sum(observed_gpu_hours) AS seen, sum(busy_gpu_hours) AS busy
        FROM device_day
        WHERE period = $period AND ($tenant IS NULL OR tenant = $tenant)
        GROUP BY day, state
    )
    SELECT day, 'busy' AS state, busy AS gpu_hours FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT day, 'quiet', greatest(seen - busy, 0) FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT day, 'unseen', greatest(held - seen, 0) FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT day, state, held FROM part WHERE state <> 'allocated'
    ORDER BY day, state
"""


@dataclass(frozen=True)
class Held:
    """What was held in a month, in GPU-hours.

    Attributes:
        seen: with a valid busy sample; busy: of what was seen.
        cost, weights: nothing here is money.
    """

    allocated: float
    seen: float
    busy: float

    @property
    def busy_share(self) -> float | None:
        """How busy what was held was, over what was observed."""
        return self.busy / self.seen if self.seen else None

    @property
    def coverage(self) -> float | None:
        """The share of what was held that was observed."""
        return self.seen / self.allocated if self.allocated else None


def held(scope: Scope, month: Month) -> Held:
    """Return what was held in a month."""
    row = scope.reader.ask(
        """SELECT coalesce(sum(gpu_hours), 0), coalesce(sum(observed_gpu_hours), 0), coalesce(sum(busy_gpu_hours), 0)
        FROM device_day WHERE state = 'allocated' AND period = $period AND ($tenant IS NULL OR tenant = $tenant)""",
        {"period": month.name, "tenant": scope.tenant},
    ).row(0)
    return Held(*row)


def state_days(scope: Scope, month: Month) -> pl.DataFrame:
    """Return ``day``, ``state`` (its label), ``order``, ``gpu_hours``; grain: local day × state."""
    rows = scope.reader.ask(STATE_HOURS, {"period": month.name, "tenant": scope.tenant})
    states = pl.DataFrame(
        [(s.key, s.label, n) for n, s in enumerate(palette.STATES)], schema=["state", "label", "order"], orient="row"
    )
    return rows.join(states, on="state").select("day", "order", "gpu_hours", state="label").sort("day", "order")
