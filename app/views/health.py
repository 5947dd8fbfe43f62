"""Health: which devices were down or unseen, for how long, and what that cost."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import polars as pl
import streamlit as st

from app import tables, troubles, words
from app.found import findings_of_span
from app.scope import IN_DAYS, Scope
from app.views.common import hours_by_day, scope_of_page
from app.views.coverage import MEANINGS
from pipelines.instants import HOUR_MS, from_ms, to_ms

FOREVER: Final = 1 << 62
DEVICES: Final = f"""
    -- grain: card that was down or unobserved
    SELECT coalesce(node, 'unknown node') AS node, device, coalesce(model, 'unknown model') AS model,
           coalesce(sum(gpu_hours) FILTER (state = 'down'), 0) AS down,
           coalesce(sum(gpu_hours) FILTER (state = 'unobserved'), 0) AS unobserved,
           sum(gpu_hours) AS capacity,
           sum(on_demand_weight) FILTER (state IN ('down', 'unobserved')) AS worth
    FROM device_day WHERE {IN_DAYS} GROUP BY ALL
    HAVING down > 0 OR unobserved > 0
    ORDER BY down DESC, unobserved DESC, node, device
"""


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    if not scope.whole_fleet or scope.tenant is not None:
        st.title("Health is told of the whole fleet")
        st.info("Choose all tenants above. A tenant's own downtime stands in its statement, as a credit.")
        return
    rows = scope.ask(DEVICES).to_dicts()
    _answer(scope, rows)
    hours_by_day(scope, only=("down", "unobserved", "stranded"))
    st.header("Devices")
    _devices(scope, rows)
    st.header("Errors that devices reported")
    _xids(scope)
    st.header("Outages and repairs")
    _repairs(scope)
    st.header("What the samples show")
    _events(scope)


def _answer(scope: Scope, rows: list[dict[str, Any]]) -> None:
    capacity, devices = scope.ask(
        f"SELECT coalesce(sum(gpu_hours), 0), count(DISTINCT (cluster, device)) FROM device_day WHERE {IN_DAYS}"
    ).row(0)
    down, unseen = sum(r["down"] for r in rows), sum(r["unobserved"] for r in rows)
    known = capacity - unseen
    st.title(f"{scope.span.label}: {words.share(known - down, known)} of GPU time was available")
    hit = sum(1 for r in rows if r["down"])
    said = f"**{hit}** of {words.counted(devices, 'GPU')} {'was' if hit == 1 else 'were'} down, for "
    said += f"{words.hours(down)} GPU-hours together."
    if unseen:
        said += (
            f" {words.hours(unseen)} GPU-hours ({words.share(unseen, capacity)}) were neither held nor seen: whether "
            "these were available is not known, and they count on neither side."
        )
    st.markdown(said)


def _available(row: dict[str, Any]) -> float | None:
    """Percent of the time of which anything is known; None: nothing is."""
    known = row["capacity"] - row["unobserved"]
    return 100 * (known - row["down"]) / known if known > 0 else None


def _devices(scope: Scope, rows: list[dict[str, Any]]) -> None:
    if not rows:
        st.success("Every device was up and seen all the time.", icon=":material/check_circle:")
        return
    frame = pl.DataFrame(
        [
            (
                r["node"], r["device"], r["model"], _available(r), r["down"],
                r["unobserved"], r["worth"],
            )
            for r in rows
        ],
        schema=["node", "device", "model", "available", "down", "unobserved", "worth"],
        orient="row",
    )  # fmt: skip
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (frame.height + 1) + 3, 400),
        column_config={
            "node": "Node",
            "device": st.column_config.TextColumn("Device", width=110),
            "model": "Model",
            "available": st.column_config.NumberColumn("Available", format="%.1f%%"),
            "down": st.column_config.NumberColumn("Down, GPU-hours", format="%,.1f"),
            "unobserved": st.column_config.NumberColumn("Unobserved, GPU-hours", format="%,.1f"),
            "worth": st.column_config.NumberColumn(
                f"Worth, {scope.currency}", format=words.money_format(scope.currency)
            ),
        },
    )


def _xids(scope: Scope) -> None:
    rows = troubles.xids(scope)
    if not rows:
        st.success("No device reported an error (XID).", icon=":material/check_circle:")
        return
    tables.sums(
        [
            tables.Cell("Device"),
            tables.Cell("Node"),
            tables.Cell("Model"),
            "XID",
            "Times",
            tables.Cell("Last"),
            tables.Cell("While held by"),
            tables.Cell("What it asks for"),
        ],
        [
            (
                row["device"],
                tables.Cell(row["node"] or "unknown node"),
                tables.Cell(row["model"] or "unknown model"),
                f"{row['code']}",
                f"{row['count']:,}",
                tables.Cell(words.instant(from_ms(row["last"]), scope.zone)),
                tables.Cell(row["workload"] or "nobody"),
                tables.Cell(row["action"]),
            )
            for row in rows
        ],
    )


def _repairs(scope: Scope) -> None:
    """Show what schedulers, the calendar and devices said, and what was out of use by that."""
    rows = troubles.states(scope)
    if rows:
        _states(scope, rows)
    _outages(scope, others=bool(rows))


def _states(scope: Scope, rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(
        [
            (
                row["node"],
                row["device"],
                troubles.STATE_NAMES.get(row["state"], row["state"]),
                row["reason"],
                row["source"],
                _local(scope, row["start"]),
                None if row["end"] is None else _local(scope, row["end"]),
                (min(row["end"] or FOREVER, to_ms(scope.span.seen_to or scope.as_of)) - row["start"]) / HOUR_MS,
            )
            for row in rows
        ],
        schema={
            "node": pl.String, "device": pl.String, "state": pl.String, "reason": pl.String, "source": pl.String,
            "start": pl.Datetime, "end": pl.Datetime, "hours": pl.Float64,
        },
        orient="row",
    )  # fmt: skip
    st.dataframe(
        frame,
        hide_index=True,
        placeholder="still",
        height=min(35 * (frame.height + 1) + 3, 400),
        column_config={
            "node": "Node",
            "device": st.column_config.TextColumn("Device", width=110),
            "state": "State",
            "reason": st.column_config.TextColumn("Why", width="medium"),
            "source": "Said by",
            "start": st.column_config.DatetimeColumn("From", format="D MMM YYYY, HH:mm"),
            "end": st.column_config.DatetimeColumn("To", format="D MMM YYYY, HH:mm"),
            "hours": st.column_config.NumberColumn("Hours", format="%,.1f"),
        },
    )


def _local(scope: Scope, ms: int) -> datetime:
    return from_ms(ms).astimezone(scope.zone).replace(tzinfo=None)


def _outages(scope: Scope, *, others: bool) -> None:
    rows = scope.ask(
        """SELECT tenant, model, gpus, device, cause, start, "end" FROM outage
        WHERE start < $until AND "end" > $since ORDER BY start, model"""
    )
    if not rows.height and others:
        return
    if not rows.height:
        st.info("No source reports an outage in this time: an allocations row of class `down` does.")
        return
    st.caption("Out of use, so that nobody pays for it:")
    tables.sums(
        [
            "Model",
            tables.Cell("Device"),
            tables.Cell("Cause"),
            tables.Cell("Reservation of"),
            tables.Cell("From"),
            tables.Cell("To"),
            "GPUs",
        ],
        [
            (
                r["model"] or "unknown model",
                tables.Cell(r["device"] or "not named"),
                tables.Cell(troubles.STATE_NAMES.get(r["cause"], "Down")),
                tables.Cell(scope.tenant_name(r["tenant"]) if r["tenant"] else "nobody's"),
                tables.Cell(words.instant(from_ms(r["start"]), scope.zone)),
                tables.Cell(words.instant(from_ms(r["end"]), scope.zone)),
                f"{float(Fraction(r['gpus'])):,.1f}",
            )
            for r in rows.iter_rows(named=True)
        ],
    )


def _events(scope: Scope) -> None:
    codes = ("frozen_series", "gap", "contradicting_series", "missing_device")
    found = [f for f in findings_of_span(scope) if f.code in codes]
    if not found:
        st.success("No frozen series, no contradiction, no hole in the samples.", icon=":material/check_circle:")
        return
    st.caption(f"In {scope.span.label}.")
    tables.sums(
        [tables.Cell("Finding"), tables.Cell("For example"), "Count"],
        [
            (tables.Cell(MEANINGS.get(f.code, f.code), wraps=True), tables.Cell(f.detail, wraps=True), f"{f.count:,}")
            for f in found
        ],
    )
