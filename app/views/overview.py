"""Overview: where the hours and the money of a month went, and who, what and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from app import flows, tables, usage, uses, words
from app.accounts import Place, Totals, places, totals
from app.scope import IN_DAYS, Scope
from app.shares import paid, workloads
from app.views import overview_tenant
from app.views.common import comparison, hours_by_day, ink, link, metric, running, scope_of_page

DEAREST: Final = 8


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    if scope.tenant is not None:
        overview_tenant.show(scope)
        return
    now = totals(scope, scope.span)
    _answer(scope, now)
    _metrics(scope, now)
    hours_by_day(scope)
    st.header("Every hour and every cent, in one place")
    found = places(scope, scope.span)
    _accounts(scope, found, now)
    st.echarts_chart(
        flows.cost_flow(found, scope.currency, ink()),
        height=300,
        alt="Where the fleet's cost goes; the table says it too",
    )
    who, what = st.columns([0.9, 1.1], gap="medium")
    with who:
        st.header("Who")
        _tenants(scope)
    with what:
        st.header("What")
        _workloads(scope)
    st.header("Where")
    _models(scope)


def _answer(scope: Scope, now: Totals) -> None:
    held = usage.held(scope, scope.span)
    st.title(f"{scope.span.label}: the fleet cost {words.literal(words.money(now.cost, scope.currency))}")
    st.markdown(
        f"Tenants pay **{words.literal(words.money(now.billed, scope.currency))}** of it "
        f"({words.share(now.billed, now.cost)}); **{words.literal(words.money(now.unbilled, scope.currency))}** stays "
        f"unbilled. Of {words.hours(now.capacity_gpu_hours)} GPU-hours on {now.devices} GPUs, "
        f"{words.share(now.held)} were held and busy {words.share(held.busy_share)} of that time "
        f"({words.share(held.coverage)} of it observed); {words.share(now.idle)} were idle."
    )
    running(scope)
    comparison(scope)


def _metrics(scope: Scope, now: Totals) -> None:
    other = scope.comparable
    was = totals(scope, other) if other else None
    busy = usage.held(scope, scope.span).busy_share
    busy_was = usage.held(scope, other).busy_share if other else None
    with st.container(horizontal=True, gap="large"):
        metric("Fleet cost", words.money(now.cost, scope.currency), now.cost, was.cost if was else None)
        metric("Billed", words.money(now.billed, scope.currency), now.billed, was.billed if was else None)
        unbilled = words.money(now.unbilled, scope.currency)
        metric("Unbilled", unbilled, now.unbilled, was.unbilled if was else None, good="down")
        metric("Held", words.share(now.held), now.held, was.held if was else None, good="up", points=True)
        metric("Busy while held", words.share(busy), busy, busy_was, good="up", points=True)
        metric("Idle", words.share(now.idle), now.idle, was.idle if was else None, good="down", points=True)


def _accounts(scope: Scope, found: Sequence[Place], now: Totals) -> None:
    currency = scope.currency
    tables.sums(
        [
            "Where",
            "GPU-hours",
            "of capacity",
            f"Cost, {currency}",
            f"Tenants pay, {currency}",
            f"Unbilled, {currency}",
        ],
        [
            (
                tables.Cell(place.label, colour=flows.COLOURS[place.key]),
                "–" if place.gpu_hours is None else words.hours(place.gpu_hours),
                "–" if place.gpu_hours is None else words.share(place.gpu_hours, now.capacity_gpu_hours),
                words.amount(place.cost, currency),
                words.amount(place.billed, currency),
                words.amount(place.unbilled, currency),
            )
            for place in found
        ],
        total=(
            f"Fleet, {now.devices} GPUs",
            words.hours(now.capacity_gpu_hours),
            "100.0%",
            words.amount(now.cost, currency),
            words.amount(now.billed, currency),
            words.amount(now.unbilled, currency),
        ),
        caption=(
            "Cost is at the on-demand price; reserved and spot prices below it show as unbilled. What tenants pay "
            "under Idle is for reserved GPUs that they didn't use, less credits, and their share of idle time."
        ),
    )


def _tenants(scope: Scope) -> None:
    owed = paid(scope, scope.span)
    before = paid(scope, scope.comparable) if scope.comparable else {}
    nothing = uses.Use()
    used = uses.by_tenant(scope, scope.span)
    shown: list[tuple[tables.Cell | str, ...]] = [
        (
            tables.Cell(scope.tenant_name(tenant), href=link("", scope, tenant=tenant)),
            words.amount(total, scope.currency),
            *([words.change(total, before.get(tenant)) or words.UNKNOWN] if scope.comparable else []),
            words.hours(used.get(tenant, nothing).allocated),
            words.share(used.get(tenant, nothing).utilization),
            words.amount(used.get(tenant, nothing).waste, scope.currency),
        )
        for tenant, total in sorted(owed.items(), key=lambda item: (-item[1], item[0]))
    ]
    heads = ["Tenant", f"Pays, {scope.currency}", *(["Change"] if scope.comparable else []), "GPU-hours", "Busy"]
    tables.sums([*heads, f"Waste, {scope.currency}"], shown)


def _workloads(scope: Scope) -> None:
    tables.sums(
        ["Dearest workloads", tables.Cell("Tenant"), "GPU-hours", "Busy", f"Cost, {scope.currency}"],
        [
            (
                w.workload,
                tables.Cell(scope.tenant_name(w.tenant)),
                words.hours(w.gpu_hours),
                words.share(w.utilization),
                words.amount(w.cost, scope.currency),
            )
            for w in workloads(scope, scope.span, most=DEAREST)
        ],
    )


def _models(scope: Scope) -> None:
    rows = scope.ask(
        f"""SELECT coalesce(model, 'unknown model') AS model, count(DISTINCT (cluster, device)) AS gpus,
            sum(gpu_hours) AS capacity, sum(gpu_hours) FILTER (state = 'allocated') AS held,
            sum(busy_gpu_hours) AS busy, sum(observed_gpu_hours) AS seen,
            sum(gpu_hours) FILTER (state = 'idle') AS idle, sum(gpu_hours) FILTER (state = 'down') AS down
        FROM device_day WHERE {IN_DAYS} GROUP BY ALL ORDER BY capacity DESC, model"""
    )
    tables.sums(
        ["Model", "GPUs", "GPU-hours", "Held", "Busy while held", "Idle", "Idle GPU-hours", "Down GPU-hours"],
        [
            (
                m["model"],
                f"{m['gpus']:,}",
                words.hours(m["capacity"]),
                words.share(m["held"] or 0.0, m["capacity"]),
                words.share(m["busy"], m["seen"]),
                words.share(m["idle"] or 0.0, m["capacity"]),
                words.hours(m["idle"] or 0.0),
                words.hours(m["down"] or 0.0),
            )
            for m in rows.iter_rows(named=True)
        ],
    )
