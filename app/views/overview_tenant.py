"""Overview of one tenant: what it pays and for what, and how well it used what it held."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import streamlit as st

from app import tables, usage, words
from app.scope import Month, Scope
from app.views.common import comparison, hours_by_day, metric

LINES = {
    "usage": "Usage",
    "reservation": "Reservations",
    "idle": "Share of idle time",
    "energy": "Energy",
    "overhead": "Share of overheads",
    "commitment": "Shortfall of the commitment",
    "credit": "Credits for downtime",
    "adjustment": "Adjustments",
}


def show(scope: Scope) -> None:
    """Draw the page."""
    name = words.literal(scope.tenant_name(scope.tenant))
    now = _lines(scope, scope.month)
    if now is None:
        st.title(f"{scope.month.label}: nothing for {name}")
        st.info("It held no GPU, has no reservation and no budget in this month. Choose another month above.")
        return
    before = _lines(scope, scope.comparable) if scope.comparable else None
    st.title(f"{scope.month.label}: {name} pays {words.literal(words.money(now['total'], scope.currency))}")
    held = usage.held(scope, scope.month)
    st.markdown(
        f"It held {words.hours(now['allocated_gpu_hours'])} GPU-hours, busy {words.share(now['utilization'])} of the "
        f"time ({words.share(held.coverage)} of it observed). What it held and didn't keep busy is worth "
        f"**{words.literal(words.money(now['waste'], scope.currency))}** at the on-demand price"
        + (
            f"; {words.hours(now['reserved_unused_gpu_hours'])} reserved GPU-hours went unused."
            if now["reserved_unused_gpu_hours"]
            else "."
        )
    )
    comparison(scope)
    _metrics(scope, now, before)
    hours_by_day(scope)
    left, right = st.columns(2, gap="large")
    with left:
        st.header("The bill")
        tables.sums(
            ["Line", f"{scope.currency}"],
            [(label, words.amount(now[key], scope.currency)) for key, label in LINES.items() if now[key]],
            total=("Total", words.amount(now["total"], scope.currency)),
        )
    with right:
        st.header("Dearest workloads")
        _workloads(scope)


def _lines(scope: Scope, month: Month) -> dict[str, Any] | None:
    rows = scope.reader.ask(
        "SELECT * FROM tenant_period WHERE period = $period AND tenant = $tenant",
        {"period": month.name, "tenant": scope.tenant},
    )
    return rows.row(0, named=True) if rows.height else None


def _metrics(scope: Scope, now: dict[str, Any], before: dict[str, Any] | None) -> None:
    was = before or {}
    tenant = scope.tenants.get(scope.tenant or "")
    with st.container(horizontal=True, gap="large"):
        metric("Pays", words.money(now["total"], scope.currency), now["total"], was.get("total"))
        metric("Budget used", words.share(now["total"], tenant.budget if tenant else None), None, None)
        metric(
            "Held, GPU-hours",
            words.hours(now["allocated_gpu_hours"]),
            now["allocated_gpu_hours"],
            was.get("allocated_gpu_hours"),
        )
        busy = now["utilization"]
        metric("Busy while held", words.share(busy), busy, was.get("utilization"), good="up", points=True)
        waste: Decimal | None = now["waste"]
        metric("Waste", words.money(waste, scope.currency), waste, was.get("waste"), good="down")


def _workloads(scope: Scope) -> None:
    rows = scope.reader.ask(
        """SELECT workload, gpu_hours, utilization, cost FROM workload_period
        WHERE period = $period AND tenant = $tenant ORDER BY cost DESC, workload LIMIT 10""",
        {"period": scope.month.name, "tenant": scope.tenant},
    )
    tables.sums(
        ["Workload", "GPU-hours", "Busy", f"Cost, {scope.currency}"],
        [
            (
                w["workload"],
                words.hours(w["gpu_hours"]),
                words.share(w["utilization"]),
                words.amount(w["cost"], scope.currency),
            )
            for w in rows.iter_rows(named=True)
        ],
    )
