"""Data: what the figures rest on: coverage, findings, how old they are, and the prices that they were made with."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import polars as pl
import streamlit as st

from app import tables, usage, words
from app.found import findings_of_span
from app.scope import ALLOWED, IN_DAYS, Scope
from app.views import audit_trail
from app.views.common import hours_by_day, scope_of_page
from pipelines.instants import from_ms

LATE: Final = timedelta(hours=2)

MEANINGS: Final = {
    "invalid_sample": "Values that can't be were dropped",
    "bad_line": "Lines that can't be read were skipped",
    "counter_reset": "Counters started again; their increase was counted from there",
    "frozen_series": "Series stood still while the card drew power; they count as not observed",
    "contradicting_series": "Two series disagree about the same device",
    "duplicate_sample": "One series had two values at one time; the smaller counts",
    "gap": "Holes in the samples of devices",
    "missing_device": "Devices are named that nothing else knows",
    "unlisted_device": "Devices were seen that the inventory doesn't list",
    "duplicate_device": "One device was seen in several clusters at once; each counts",
    "estimated_share": "Shares of shared devices are estimates",
    "conflicting_owner": "More was claimed than there is",
    "unresolved_owner": "Workloads match no tenant's selector; their cost stays unbilled",
    "unknown_price": "Hours have no price and are left out of cost and bills",
    "gpus_not_tracked": "The scheduler doesn't account for GPUs",
    "xid_event": "Devices reported errors (XID)",
    "late_data": "Data came after their period was closed",
}


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    held = usage.held(scope, scope.span)
    st.title(f"{scope.span.label}: {words.share(held.coverage)} of what was held was observed")
    _answer(scope)
    hours_by_day(scope, only=("unseen", "unobserved"))
    st.header("Coverage")
    _coverage(scope)
    if scope.whole_fleet:
        st.header("Findings")
        _findings(scope)
    st.header("Rate card")
    _rates(scope)
    if scope.whole_fleet and scope.tenant is None:
        audit_trail.show(scope)


def _answer(scope: Scope) -> None:
    said = f"Published {words.instant(scope.as_of, scope.zone)}."
    if scope.whole_fleet:
        row = scope.reader.ask("SELECT span_start, span_end FROM metered_from").row(0)
        first, last = (from_ms(t) for t in row)
        said += f" The data reach from {words.instant(first, scope.zone)} to {words.instant(last, scope.zone)}."
        if scope.as_of - last > LATE:
            behind = (scope.as_of - last).total_seconds() / 3600
            st.warning(
                f"The data end {behind:,.0f} hours before they were published: a source may have stopped. "
                "`gpuledger doctor` says which.",
                icon=":material/schedule:",
            )
    st.markdown(f"{said} What isn't observed lowers coverage, never a bill or a mean.")


def _coverage(scope: Scope) -> None:
    rows = scope.ask(
        f"""SELECT tenant, sum(gpu_hours) AS held, sum(observed_gpu_hours) AS seen FROM device_day
        WHERE {IN_DAYS} AND state = 'allocated' AND {ALLOWED} GROUP BY tenant ORDER BY seen / held, tenant"""
    )
    if not rows.height:
        st.info("Nothing was held in this time.")
        return
    tables.sums(
        ["Tenant", "Held, GPU-hours", "Observed", "Not observed, GPU-hours"],
        [
            (
                scope.tenant_name(r["tenant"]),
                words.hours(r["held"]),
                words.share(r["seen"], r["held"]),
                words.hours(r["held"] - r["seen"]),
            )
            for r in rows.iter_rows(named=True)
        ],
    )


def _findings(scope: Scope) -> None:
    found = findings_of_span(scope)
    if not found:
        st.success("None: every line, sample and record was read as it is.", icon=":material/check_circle:")
        return
    frame = pl.DataFrame(
        {
            "meaning": [MEANINGS.get(f.code, "Something was repaired or left out") for f in found],
            "count": [f.count for f in found],
            "detail": [f.detail for f in found],
            "code": [f.code for f in found],
        }
    )
    st.caption(f"In {scope.span.label}: what was repaired, dropped or left open.")
    st.dataframe(
        frame,
        hide_index=True,
        column_config={
            "meaning": st.column_config.TextColumn("What", width="medium"),
            "count": st.column_config.NumberColumn("Count", format="%,d", width="small"),
            "detail": st.column_config.TextColumn("For example", width="medium"),
            "code": "Code",
        },
    )


def _rates(scope: Scope) -> None:
    rows = scope.reader.ask("SELECT * FROM rate")
    if not rows.height:
        st.info("The configuration has no rates: hours have no price. Add `rates` to gpuledger.yaml.")
        return
    st.caption(f"{scope.currency} per GPU-hour. The first entry that matches model and time counts.")
    named = ("on_demand", "reserved", "overflow", "spot")
    tables.sums(
        ["Model", tables.Cell("From"), tables.Cell("To"), "On demand", "Reserved", "Overflow", "Spot"],
        [
            (
                r["model"],
                tables.Cell(_day(r["start"], scope, "always")),
                tables.Cell(_day(r["end"], scope, "further notice")),
                *(f"{r['on_demand'] if r[name] is None else r[name]:.4f}" for name in named),
            )
            for r in rows.iter_rows(named=True)
        ],
    )


def _day(at: datetime | None, scope: Scope, otherwise: str) -> str:
    return otherwise if at is None else words.instant(at, scope.zone)
