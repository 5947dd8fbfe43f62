"""Health: which devices were down or unseen, for how long, and what that cost."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
import streamlit as st

from app import tables, words
from app.found import findings_of_span
from app.scope import IN_DAYS, Scope
from app.views.common import hours_by_day, scope_of_page
from pipelines.instants import from_ms

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
    st.header("Outages as reported")
    _outages(scope)
    st.header("What devices reported")
    _events(scope)


def _answer(scope: Scope, rows: list[dict[str, Any]]) -> None:
    capacity, devices = scope.ask(
        f"SELECT coalesce(sum(gpu_hours), 0), count(DISTINCT (cluster, device)) FROM device_day WHERE {IN_DAYS}"
    ).row(0)
    down = sum(r["down"] for r in rows)
    up = words.share(capacity - down, capacity)
    st.title(f"{scope.span.label}: {up} of GPU time was available")
    hit = sum(1 for r in rows if r["down"])
    st.markdown(
        f"**{hit}** of {devices:,} GPUs were down, for {words.hours(down)} GPU-hours together; "
        f"{words.hours(sum(r['unobserved'] for r in rows))} GPU-hours were neither held nor seen."
    )


def _devices(scope: Scope, rows: list[dict[str, Any]]) -> None:
    if not rows:
        st.success("Every device was up and seen all the time.", icon=":material/check_circle:")
        return
    frame = pl.DataFrame(
        [
            (
                r["node"], r["device"], r["model"], 100 * (r["capacity"] - r["down"]) / r["capacity"], r["down"],
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
            "device": "Device",
            "model": "Model",
            "available": st.column_config.NumberColumn("Available", format="%.1f%%"),
            "down": st.column_config.NumberColumn("Down, GPU-hours", format="%,.1f"),
            "unobserved": st.column_config.NumberColumn("Unobserved, GPU-hours", format="%,.1f"),
            "worth": st.column_config.NumberColumn(
                f"Worth, {scope.currency}", format=words.money_format(scope.currency)
            ),
        },
    )


def _outages(scope: Scope) -> None:
    rows = scope.ask(
        """SELECT tenant, model, gpus, start, "end" FROM outage
        WHERE start < $until AND "end" > $since ORDER BY start, model"""
    )
    if not rows.height:
        st.info("No source reports an outage in this time: an allocations row of class `down` does.")
        return
    tables.sums(
        ["Model", tables.Cell("Reservation of"), tables.Cell("From"), tables.Cell("To"), "GPUs"],
        [
            (
                r["model"] or "unknown model",
                tables.Cell(scope.tenant_name(r["tenant"]) if r["tenant"] else "nobody's"),
                tables.Cell(words.instant(from_ms(r["start"]), scope.zone)),
                tables.Cell(words.instant(from_ms(r["end"]), scope.zone)),
                r["gpus"],
            )
            for r in rows.iter_rows(named=True)
        ],
    )


def _events(scope: Scope) -> None:
    codes = ("xid_event", "frozen_series", "gap", "contradicting_series", "missing_device")
    found = [f for f in findings_of_span(scope) if f.code in codes]
    if not found:
        st.success("No XID, no frozen series, no hole in the samples.", icon=":material/check_circle:")
        return
    st.caption(f"In {scope.span.label}.")
    tables.sums(
        ["Finding", tables.Cell("For example"), "Count"],
        [(f.code, tables.Cell(f.detail), f"{f.count:,}") for f in found],
    )
