"""Where GPU-hours went, by state and by day: what pages draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from app import palette
from app.scope import IN_DAYS, Scope, Span

Grain = Literal["hour", "day", "month"]
A: Final[dict[Grain, str]] = {"hour": "an hour", "day": "a day", "month": "a month"}
FORMS: Final[dict[Grain, str]] = {"hour": "%-d %b %H:00", "day": "%-d %b", "month": "%b %Y"}
"""How its times are written."""
LONG: Final = 100
"""Days from which on a picture shows months."""
SHORT: Final = 2
"""Days up to which it shows hours."""

HELD: Final = f"""
    -- grain: tenant
    SELECT tenant, sum(gpu_hours), sum(observed_gpu_hours), sum(busy_gpu_hours)
    FROM device_day WHERE state = 'allocated' AND {IN_DAYS} GROUP BY tenant
"""
STATE_DAYS: Final = f"""
    -- grain: local day or month × tenant × state of app.palette
    WITH part AS (
        SELECT CASE WHEN $grain = 'month' THEN date_trunc('month', day) ELSE day END::TIMESTAMP AS moment,
               tenant, state, sum(gpu_hours) AS held, sum(observed_gpu_hours) AS seen, sum(busy_gpu_hours) AS busy
        FROM device_day WHERE {IN_DAYS} GROUP BY ALL
    )
"""
STATE_HOURS: Final = """
    -- grain: local hour × state of app.palette
    WITH mine AS (SELECT DISTINCT lease FROM lease_period WHERE tenant = $tenant AND last > $since AND first < $until),
    row AS (
        SELECT start, "end", state, weight_num / weight_den / 3600000 AS part, busy_observed_ms, busy_ppb_ms
        FROM usage WHERE start >= $since AND start < $until
          AND ($tenant IS NULL OR (state = 'allocated' AND lease IN (FROM mine)))
    ),
    part AS (
        SELECT timezone($zone, epoch_ms(start // 3600000 * 3600000)::TIMESTAMPTZ) AS moment,
               $tenant::VARCHAR AS tenant, state,
               sum(("end" - start) * part) AS held, sum(busy_observed_ms * part) AS seen,
               sum(busy_ppb_ms * part / 1e9) AS busy
        FROM row GROUP BY ALL
    )
"""
STATES: Final = """
    SELECT moment, tenant, 'busy' AS state, busy AS gpu_hours FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT moment, tenant, 'quiet', greatest(seen - busy, 0) FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT moment, tenant, 'unseen', greatest(held - seen, 0) FROM part WHERE state = 'allocated'
    UNION ALL
    SELECT moment, tenant, state, held FROM part WHERE state <> 'allocated'
    ORDER BY moment, tenant, state
"""


@dataclass(frozen=True)
class Held:
    """What was held, in GPU-hours.

    Attributes:
        seen: with a valid busy sample; busy: of what was seen.
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


def held(scope: Scope, span: Span) -> Held:
    """Return what was held in a span."""
    rows = scope.ask(HELD, span).iter_rows()  # of all tenants at once: the next one chosen is there already
    mine = [sums for tenant, *sums in rows if scope.tenant in (None, tenant)]
    return Held(*(sum(column) for column in zip(*mine, strict=True))) if mine else Held(0.0, 0.0, 0.0)


def grain(span: Span) -> Grain:
    """Return what a picture of a span shows side by side."""
    return "month" if span.days.count > LONG else "day" if span.days.count > SHORT else "hour"


def states(scope: Scope, span: Span) -> pl.DataFrame:
    """Return ``moment`` (local), ``state`` (its label), ``order``, ``gpu_hours``; grain: hour, day or month × state."""
    if grain(span) == "hour":
        rows = scope.ask(STATE_HOURS + STATES, span, zone=scope.zone.key)
    else:
        # Of all tenants at once: the next one chosen is there already.
        rows = scope.ask(STATE_DAYS + STATES, span, grain=grain(span))
    mine = rows if scope.tenant is None else rows.filter(pl.col("tenant") == scope.tenant)
    summed = mine.group_by("moment", "state").agg(pl.col("gpu_hours").sum())
    known = pl.DataFrame(
        [(s.key, s.label, n) for n, s in enumerate(palette.STATES)], schema=["state", "label", "order"], orient="row"
    )
    return summed.join(known, on="state").select("moment", "order", "gpu_hours", state="label").sort("moment", "order")
