"""Idle and reclaimable: capacity that nobody held, and what was held without being used, in money."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import polars as pl
import streamlit as st

from app import charts, tables, usage, words
from app.accounts import ZERO, Place, places
from app.palette import BUSY, IDLE, QUIET, STRANDED
from app.scope import ALLOWED, CUT, IN_DAYS, WHOLE, Scope
from app.shares import lines
from app.usage import Grain
from app.views import reclaimable
from app.views.common import draw, ink, scope_of_page
from pipelines.analysis.signatures import THRESHOLDS

IDLE_BELOW: Final = THRESHOLDS["idle_activity"].value
"""Mean busy ratio below which a lease counts as idle."""
WORTH_HOURS: Final = 2.0
"""Observed GPU-hours from which on a lease is worth a look: sites warn and cancel after two hours at 0%."""
HELD: Final = "Held by tenants and not busy"
NODES: Final = 40
ROWS: Final = 500

IDLE_LEASES: Final = f"""
    -- grain: month × lease, with the part of it that lies in the span; how busy it was is the month's
    WITH held AS (
        SELECT * FROM lease_period WHERE {WHOLE} AND {ALLOWED}
        UNION ALL BY NAME
        SELECT lp.* REPLACE (
            part.gpu_hours AS gpu_hours,
            lp.busy_gpu_hours * part.gpu_hours / lp.gpu_hours AS busy_gpu_hours,
            lp.busy_observed_gpu_hours * part.gpu_hours / lp.gpu_hours AS busy_observed_gpu_hours,
            lp.on_demand_weight * part.gpu_hours / lp.gpu_hours AS on_demand_weight
        )
        FROM (SELECT * FROM lease_period WHERE {CUT} AND {ALLOWED} AND gpu_hours > 0) AS lp
        JOIN (SELECT period, lease, tenant, sum(gpu_hours) AS gpu_hours FROM charge
              WHERE {IN_DAYS} AND NOT {WHOLE} AND {ALLOWED} GROUP BY ALL) AS part
            ON part.period = lp.period AND part.lease = lp.lease AND part.tenant IS NOT DISTINCT FROM lp.tenant
    )
    SELECT lease.workload, u.tenant, coalesce(lease."user", lease.slurm_user) AS "user", lease.node,
           lease.device, lease.instance, lease.model,
           lease."end" >= $reached AND NOT coalesce(lease.ended, false) AS running,
           u.gpu_hours, u.busy_gpu_hours / u.busy_observed_gpu_hours AS busy,
           u.busy_observed_gpu_hours / u.gpu_hours AS coverage,
           u.on_demand_weight * (1 - u.busy_gpu_hours / u.busy_observed_gpu_hours) AS worth
    FROM held AS u JOIN lease ON lease.id = u.lease
    WHERE u.busy_observed_gpu_hours >= $hours AND u.busy_gpu_hours < $below * u.busy_observed_gpu_hours
    ORDER BY running DESC, worth DESC NULLS LAST, workload, lease.id
"""


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    found = _idle_leases(scope)
    parts = _parts(scope)
    _answer(scope, parts, found)
    _bars(scope, parts)
    reclaimable.show(scope)
    st.header("Leases idle all through")
    _leases(scope, found)
    if scope.whole_fleet and scope.tenant is None:
        st.header("Where capacity stood idle")
        _heatmap(scope)


def _parts(scope: Scope) -> list[tuple[str, str, Decimal | None]]:
    """Return what could be had back, as (name, colour, worth at the on-demand price; None: not known)."""
    parts: list[tuple[str, str, Decimal | None]]
    if scope.whole_fleet and scope.tenant is None:
        by_key: dict[str, Place] = {p.key: p for p in places(scope, scope.span)}
        parts = [
            ("Idle: nobody held it", IDLE.colour, by_key["idle"].cost if "idle" in by_key else ZERO),
            ("Stranded by MIG layouts", STRANDED.colour, by_key["stranded"].cost if "stranded" in by_key else ZERO),
        ]
    else:
        owed = lines(scope, scope.span).values()
        parts = [("Reserved and not used, as billed", IDLE.colour, sum((t["unused"] for t in owed), ZERO))]
    waste = scope.ask(f"SELECT sum(waste) FROM held_day WHERE {IN_DAYS} AND {ALLOWED}").item()
    return [*parts, (HELD, QUIET.colour, None if waste is None else Decimal(waste))]


def _answer(scope: Scope, parts: list[tuple[str, str, Decimal | None]], found: list[dict[str, Any]]) -> None:
    total = sum((worth or ZERO for _, _, worth in parts), ZERO)
    st.title(f"{scope.span.label}: {words.literal(words.money(total, scope.currency))} could be had back")
    running = [row for row in found if row["running"]]
    said = "No lease of two GPU-hours or more was idle throughout."
    if found:
        leases = "1 lease** was" if len(found) == 1 else f"{len(found):,} leases** were"
        said = (
            f"**{leases} busy less than {words.share(IDLE_BELOW)} of two GPU-hours or more; **{len(running):,}** still "
            "held GPUs when the ledger was last brought up to date."
        )
    if any(worth is None for _, _, worth in parts):
        said = "Nothing that tenants held was observed: how much of it they didn't use is not known."
    st.markdown(f"{said} Amounts are at the on-demand price.")


def _bars(scope: Scope, parts: list[tuple[str, str, Decimal | None]]) -> None:
    rows = [(name, float(worth or 0), words.amount(worth, scope.currency), colour) for name, colour, worth in parts]
    frame = pl.DataFrame(rows, schema=["name", "amount", "text", "colour"], orient="row")
    draw(charts.amounts(frame, title=scope.currency, ink=ink()), "What could be had back, by where it is")


def _idle_leases(scope: Scope) -> list[dict[str, Any]]:
    reached = scope.ask('SELECT coalesce(max("end"), 0) FROM lease').item()
    return scope.ask(IDLE_LEASES, hours=WORTH_HOURS, below=IDLE_BELOW, reached=reached).to_dicts()


def _leases(scope: Scope, found: list[dict[str, Any]]) -> None:
    if not found:
        st.info("None. What is held is used, or isn't observed: see coverage on the Data page.")
        return
    frame = pl.DataFrame(
        [
            (
                "holds it now" if row["running"] else "ended",
                row["workload"],
                scope.tenant_name(row["tenant"]),
                row["user"],
                row["node"],
                f"{row['device']}/{row['instance']}" if row["instance"] else row["device"],
                row["gpu_hours"],
                100 * row["busy"],
                row["worth"],
            )
            for row in found[:ROWS]
        ],
        schema={
            "state": pl.String, "workload": pl.String, "tenant": pl.String, "user": pl.String, "node": pl.String,
            "device": pl.String, "gpu_hours": pl.Float64, "busy": pl.Float64, "worth": pl.Float64,
        },
        orient="row",
    )  # fmt: skip
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (frame.height + 1) + 3, 460),
        column_config={
            "state": "Now",
            "workload": "Workload",
            "tenant": "Tenant",
            "user": "User",
            "node": "Node",
            "device": st.column_config.TextColumn("Device", width=110),
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.1f"),
            "busy": st.column_config.NumberColumn("Busy", format="%.1f%%"),
            "worth": st.column_config.NumberColumn(
                f"Worth, {scope.currency}", format=words.money_format(scope.currency)
            ),
        },
    )
    if len(found) > ROWS:
        st.caption(f"The {ROWS:,} dearest of {len(found):,}.")


def _heatmap(scope: Scope) -> None:
    grain: Grain = "month" if usage.grain(scope.span) == "month" else "day"
    rows = scope.ask(
        f"""WITH worst AS (
            SELECT node FROM device_day WHERE {IN_DAYS} AND state = 'idle'
            GROUP BY node ORDER BY sum(gpu_hours) DESC, node LIMIT $nodes
        )
        SELECT CASE WHEN $grain = 'month' THEN date_trunc('month', day) ELSE day END::TIMESTAMP AS moment,
               coalesce(node, 'unknown node') AS node, coalesce(sum(gpu_hours) FILTER (state = 'idle'), 0) AS idle,
               coalesce(sum(gpu_hours) FILTER (state = 'idle'), 0) / sum(gpu_hours) AS part
        FROM device_day WHERE {IN_DAYS} AND node IN (FROM worst) GROUP BY ALL ORDER BY ALL""",
        nodes=NODES,
        grain=grain,
    )
    if not rows.height:
        st.info("Nothing stood idle in this time.")
        return
    colours = (BUSY.colour, "#F2EFE6", IDLE.colour)
    draw(charts.heat(rows, colours, grain), f"Part of each node that stood idle, by {grain}")
    models = scope.ask(
        f"""SELECT coalesce(model, 'unknown model') AS model, sum(gpu_hours) FILTER (state = 'idle') AS idle,
            sum(gpu_hours) AS capacity, sum(on_demand_weight) FILTER (state = 'idle') AS worth
        FROM device_day WHERE {IN_DAYS} GROUP BY ALL ORDER BY worth DESC NULLS LAST, model"""
    )
    tables.sums(
        ["Model", "Idle GPU-hours", "of its capacity"],
        [
            (m["model"], words.hours(m["idle"] or 0.0), words.share(m["idle"] or 0.0, m["capacity"]))
            for m in models.iter_rows(named=True)
        ],
    )
