"""Overview of one tenant: what it pays and for what, and how well it used what it held."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import streamlit as st

from app import tables, usage, uses, words
from app.accounts import ZERO
from app.scope import Scope
from app.shares import LINES, lines, paid, workloads
from app.views import whole
from app.views.common import budget_of, comparison, hours_by_day, link, metric, running

DEAREST: Final = 10


def show(scope: Scope) -> None:
    """Draw the page."""
    tenant = str(scope.tenant)
    name = words.literal(scope.tenant_name(tenant))
    now = lines(scope, scope.span).get(tenant)
    if now is None:
        st.title(f"{scope.span.label}: nothing for {name}")
        st.info("It held no GPU, has no reservation and no budget in this time. Choose another time above.")
        return
    total = sum(now.values(), ZERO)
    st.title(f"{scope.span.label}: {name} pays {words.literal(words.money(total, scope.currency))}")
    held, used = usage.held(scope, scope.span), uses.by_tenant(scope, scope.span).get(tenant, uses.Use())
    said = (
        f"It held {words.hours(used.allocated)} GPU-hours, busy {words.share(used.utilization)} of the "
        f"time ({words.share(held.coverage)} of it observed). What it held and didn't keep busy is worth "
        f"**{words.literal(words.money(used.waste, scope.currency))}** at the on-demand price"
    )
    unused = now["unused"]
    st.markdown(
        f"{said}; reserved GPUs that it didn't use cost {words.literal(words.money(unused, scope.currency))}."
        if unused
        else f"{said}."
    )
    running(scope)
    comparison(scope)
    _metrics(scope, total, used)
    hours_by_day(scope)
    left, right = st.columns(2, gap="large")
    with left:
        st.header("The bill")
        whole.show(scope, [(label, now[key]) for key, label in LINES.items() if now[key]])
    with right:
        st.header("Dearest workloads")
        _workloads(scope)


def _metrics(scope: Scope, total: Decimal, used: uses.Use) -> None:
    tenant, other = str(scope.tenant), scope.comparable
    paid_was = paid(scope, other).get(tenant) if other else None
    was = uses.by_tenant(scope, other).get(tenant) if other else None
    with st.container(horizontal=True, gap="large"):
        metric("Pays", words.money(total, scope.currency), total, paid_was)
        metric("Budget used", words.share(total, budget_of(scope)), None, None)
        metric("Held, GPU-hours", words.hours(used.allocated), used.allocated, was.allocated if was else None)
        busy, busy_was = used.utilization, was.utilization if was else None
        metric("Busy while held", words.share(busy), busy, busy_was, good="up", points=True)
        waste_was = was.waste if was else None
        metric("Waste", words.money(used.waste, scope.currency), used.waste, waste_was, good="down")


def _workloads(scope: Scope) -> None:
    tables.sums(
        ["Workload", "GPU-hours", "Busy", f"Cost, {scope.currency}"],
        [
            (
                tables.Cell(w.workload, href=link("cost", scope, workload=w.workload)),
                words.hours(w.gpu_hours),
                words.share(w.utilization),
                words.amount(w.cost, scope.currency),
            )
            for w in workloads(scope, scope.span, most=DEAREST)
        ],
    )
