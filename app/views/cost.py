"""Cost: what tenants pay, split any way, down to the lease; and what nobody pays."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, cast

import polars as pl
import streamlit as st

from app import address, charts, flows, palette, trends, usage, words
from app.accounts import ZERO
from app.scope import Scope
from app.shares import SPLITS, By, Share, lines, split
from app.usage import Grain
from app.views import cost_workload, whole
from app.views.common import CHOOSE, budget_of, days, draw, ink, running, scope_of_page

NAMES: Final[dict[By, str]] = {
    "tenant": "Tenant",
    "parent": "Parent",
    "workload": "Workload",
    "user": "User",
    "model": "Model",
    "class": "Class",
    "line": "Kind of charge",
}
BARS: Final = 12


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    by = _split_chosen(scope)
    workload = address.value("workload")
    if scope.tenant is not None and workload:
        cost_workload.show(scope, workload)
        return
    if workload:
        address.refused("workload")
    shares = split(scope, by)
    total = sum((s.amount for s in shares), ZERO)
    _answer(scope, total)
    if not shares:
        st.info("Nothing was charged in this time. Choose another time or tenant above.")
        return
    left, right = st.columns([1, 1], gap="large")
    with left:
        st.header(f"By {NAMES[by].lower()}")
        if by in ("workload", "user"):
            _map(scope, by, shares)
        else:
            _bars(scope, by, shares)
    with right:
        grain: Grain = "month" if usage.grain(scope.span) == "month" else "day"
        st.header(f"Charged for GPU-hours, by {grain}")
        rows, names = trends.by_day(scope, by)
        colours = palette.series_colours(names, other=trends.OTHER)
        if rows.height:
            days(rows, colours, grain, title=scope.currency, what=NAMES[by].lower())
        else:
            st.info("No GPU-hours were charged in this time; what tenants pay is for other things, in the table below.")
    st.header("All of it")
    _table(scope, by, shares)
    whole.show(scope, _together(by, shares))


def _split_chosen(scope: Scope) -> By:
    options = [s for s in SPLITS if scope.tenant is None or s not in ("tenant", "parent")]
    chosen = address.segments("Split by", "by", options, options[0], lambda by: NAMES[cast("By", by)])
    return cast("By", chosen)


def _answer(scope: Scope, total: Decimal) -> None:
    who = "tenants pay" if scope.tenant is None else f"{words.literal(scope.tenant_name(scope.tenant))} pays"
    st.title(f"{scope.span.label}: {who} {words.literal(words.money(total, scope.currency))}")
    said = []
    other = scope.comparable
    if other:
        before = sum((a for t in lines(scope, other).values() for a in t.values()), ZERO)
        if change := words.change(total, before):
            said.append(f"{change} against {other.label}.")
    budget = budget_of(scope)
    if budget is not None:
        said.append(
            f"The budget is {words.literal(words.money(budget, scope.currency))}; "
            f"{words.share(total, budget)} of it is used."
        )
    owed = lines(scope, scope.span).values()
    pace = sum((t["usage"] + t["idle"] + t["energy"] for t in owed), ZERO)
    coming = trends.projected(scope, pace, total - pace, scope.span.seen_to or scope.as_of)
    if coming is not None:
        said.append(f"At this pace it comes to {words.literal(words.money(coming, scope.currency))}.")
    if said:
        st.markdown(" ".join(said))
    running(scope)


def _bars(scope: Scope, by: By, shares: list[Share]) -> None:
    keyed = [s for s in shares if s.key is not None]
    merged: dict[str, Decimal] = {}
    for share in keyed[:BARS]:
        merged[share.label] = merged.get(share.label, ZERO) + share.amount
    rows = [(label, float(amount), words.amount(amount, scope.currency)) for label, amount in merged.items()]
    frame = pl.DataFrame(rows, schema=["name", "amount", "text"], orient="row")
    draw(charts.amounts(frame, title=scope.currency, ink=ink()), f"What tenants pay, by {NAMES[by].lower()}")
    if more := keyed[BARS:]:
        amount = sum((s.amount for s in more), ZERO)
        st.caption(f"And {len(more):,} more, {words.literal(words.money(amount, scope.currency))} together.")


def _map(scope: Scope, by: By, shares: list[Share]) -> None:
    """Draw the many as areas: bars would show the first dozen only."""
    keyed = [s for s in shares if s.key is not None]
    alt = f"What tenants pay, by {NAMES[by].lower()}; the table says it too"
    st.echarts_chart(flows.treemap(keyed, scope.currency, scope.tenant_name, ink()), height=330, alt=alt)


def _table(scope: Scope, by: By, shares: list[Share]) -> None:
    drills = by in ("tenant", "workload")
    several = by in ("workload", "user") and scope.tenant is None
    frame = pl.DataFrame(
        [(s.label, scope.tenant_name(s.tenant) if s.tenant else None, s.amount, s.gpu_hours) for s in shares],
        schema={"name": pl.String, "tenant": pl.String, "amount": pl.Decimal(38, 4), "gpu_hours": pl.Float64},
        orient="row",
    ).select("name", *(["tenant"] if several else []), "amount", "gpu_hours")
    if drills:
        st.caption(f"{CHOOSE} to go into it.")
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (len(shares) + 1) + 3, 460),
        key=f"rows-{by}-{scope.tenant}-{scope.span.name}",
        on_select=(lambda: _drill(scope, by, shares)) if drills else "ignore",
        selection_mode="single-row",
        column_config={
            "name": st.column_config.TextColumn(NAMES[by], width="medium"),
            "tenant": st.column_config.TextColumn("Tenant"),
            "amount": st.column_config.NumberColumn(
                f"Pays, {scope.currency}", format=words.money_format(scope.currency)
            ),
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.1f"),
        },
    )


def _drill(scope: Scope, by: By, shares: list[Share]) -> None:
    state = st.session_state[f"rows-{by}-{scope.tenant}-{scope.span.name}"]
    chosen = [shares[n] for n in state.selection.rows if n < len(shares)]
    if chosen and chosen[0].tenant:
        st.session_state["tenant"] = chosen[0].tenant
        if by == "workload" and chosen[0].key:
            address.put("workload", chosen[0].key)


def _together(by: By, shares: list[Share]) -> list[tuple[str, Decimal]]:
    keyed = sum((s.amount for s in shares if s.key is not None), ZERO)
    rest = [(s.label, s.amount) for s in shares if s.key is None]
    return [(f"By {NAMES[by].lower()}, as above", keyed), *rest]
