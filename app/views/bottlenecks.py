"""Bottlenecks: why what was held wasn't busy, ranked by the money lost, with the evidence and what to try."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Final

import polars as pl
import streamlit as st

from app import address, causes, charts, palette, tables, timelines, words
from app.accounts import ZERO
from app.causes import Bottleneck
from app.scope import Scope
from app.views.common import draw, ink, link, scope_of_page

ANY: Final = "any"
ROWS: Final = 200
ACTIVITIES: Final = {
    "busy": ("Busy", palette.SERIES[0]),
    "sm": ("SM active", palette.SERIES[1]),
    "tensor": ("Tensor cores active", palette.SERIES[2]),
    "dram": ("Memory active", palette.SERIES[3]),
}


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    found = causes.found(scope)
    months = _months(scope)
    if not found:
        _nothing(scope, months, published=found is not None)
        return
    lost = causes.waste(scope)
    by_cause = _by_cause(found)
    _answer(scope, months, lost, by_cause)
    _bars(scope, lost, by_cause)
    st.header("Ranked by what they cost")
    chosen = _ranking(scope, found)
    if chosen is not None:
        _one(scope, chosen)


def _months(scope: Scope) -> str:
    first, last = scope.span.months[0].days, scope.span.months[-1].days
    return first.label if first == last else f"{first.label} to {last.label}"


def _nothing(scope: Scope, months: str, *, published: bool) -> None:
    st.title(f"{months}: no cause is known")
    lost = words.literal(words.money(causes.waste(scope), scope.currency))
    st.markdown(f"What was held and not kept busy is worth **{lost}** at the on-demand price.")
    if published:
        st.info(
            "Nothing was told of these months: causes need samples of what was held. The Data page says how much of "
            "it was observed."
        )
    else:
        st.info(
            "What is published has no causes yet. Run `gpuledger run --once` with this release: it tells causes from "
            "the samples in the lake and publishes them."
        )
    tables.links([("Leases that hold GPUs and don't use them", link("idle", scope))])


def _by_cause(found: list[Bottleneck]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for one in found:
        sums[one.cause] += one.waste or ZERO
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _answer(scope: Scope, months: str, lost: Decimal, by_cause: dict[str, Decimal]) -> None:
    st.title(f"{months}: {words.literal(words.money(lost, scope.currency))} was held and not kept busy")
    cause, amount = next(iter(by_cause.items()))
    said = (
        f"Most of it, **{words.literal(words.money(amount, scope.currency))}** ({words.share(amount, lost)}), is for "
        f"“{words.literal(causes.title(cause))}”: {causes.meaning(cause)[0].lower()}{causes.meaning(cause)[1:]}"
    )
    if months != scope.span.label:
        said += f" Causes are told by month: these are of {months}."
    st.markdown(said)


def _bars(scope: Scope, lost: Decimal, by_cause: dict[str, Decimal]) -> None:
    amounts = [(causes.title(cause), amount) for cause, amount in by_cause.items() if amount]
    told = sum(by_cause.values(), ZERO)
    if lost != told:
        amounts.append(("Not told", lost - told))
    frame = pl.DataFrame(
        [(name, float(amount), words.amount(amount, scope.currency)) for name, amount in amounts],
        schema=["name", "amount", "text"],
        orient="row",
    )
    draw(charts.amounts(frame, title=scope.currency, ink=ink()), "What was lost, by cause")
    st.caption(f"Together {words.literal(words.money(lost, scope.currency))}, the waste that is reported.")


def _ranking(scope: Scope, found: list[Bottleneck]) -> Bottleneck | None:
    present = list(dict.fromkeys(one.cause for one in found))
    cause = address.select(
        "Cause",
        "cause",
        [ANY, *present],
        ANY,
        lambda c: "All causes" if c == ANY else causes.title(c),
        width=address.WIDE,
    )
    rows = [one for one in found if cause in (ANY, one.cause)][:ROWS]
    frame = pl.DataFrame(
        [
            (
                one.workload,
                scope.tenant_name(one.tenant),
                causes.title(one.cause),
                one.waste,
                one.gpu_hours,
                100 * one.share_of_time,
                None if one.confidence is None else 100 * one.confidence,
            )
            for one in rows
        ],
        schema={
            "workload": pl.String, "tenant": pl.String, "cause": pl.String, "waste": pl.Decimal(38, 4),
            "gpu_hours": pl.Float64, "share": pl.Float64, "confidence": pl.Float64,
        },
        orient="row",
    )  # fmt: skip
    key = f"bottlenecks-{cause}-{scope.tenant}-{scope.span.name}"
    st.caption("Choose a row to see its evidence and what to try.")
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (frame.height + 1) + 3, 390),
        key=key,
        on_select=lambda: _choose(key, rows),
        selection_mode="single-row",
        column_config={
            "workload": st.column_config.TextColumn("Workload", width="medium"),
            "tenant": st.column_config.TextColumn("Tenant", width=130),
            "cause": st.column_config.TextColumn("Cause", width="medium"),
            "waste": st.column_config.NumberColumn(
                f"Lost, {scope.currency}", format=words.money_format(scope.currency)
            ),
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.1f"),
            "share": st.column_config.NumberColumn("of its time", format="%.0f%%"),
            "confidence": st.column_config.NumberColumn("Clarity", format="%.0f%%"),
        },
    )
    if len(rows) == ROWS:
        st.caption(f"The {ROWS} dearest.")
    named = st.query_params.get("one")
    return next((one for one in rows if one.key == named), rows[0] if rows else None)


def _choose(key: str, rows: list[Bottleneck]) -> None:
    chosen = [rows[n] for n in st.session_state[key].selection.rows if n < len(rows)]
    if chosen:
        st.query_params["one"] = chosen[0].key


def _one(scope: Scope, one: Bottleneck) -> None:
    st.header(f"{words.literal(one.workload)}: {words.literal(causes.title(one.cause))}")
    money = words.literal(words.money(one.waste, scope.currency))
    st.markdown(
        f"{causes.meaning(one.cause)} It took {words.share(one.share_of_time)} of the workload's time and lost "
        f"**{money}**."
    )
    if one.remedy:
        st.success(f"**Try:** {words.literal(one.remedy)}", icon=":material/build:")
    lines = causes.time_line(scope, one)
    if lines.height:
        st.subheader("When")
        drawn = {c: named for c, named in ACTIVITIES.items() if lines[c].is_not_null().any()}
        tables.legend(drawn.values())
        draw(timelines.activity(lines, drawn), f"How busy {one.workload} was, hour by hour")
        if names := {c: causes.title(c) for c in lines["cause"].drop_nulls().unique()}:
            draw(timelines.strip(lines, names), f"When each cause held {one.workload} up")
    if one.evidence:
        st.subheader("What it was told by")
        tables.sums(
            [tables.Cell("Measured in its clearest hour", wraps=True), "Value", "Limit"],
            [
                (
                    tables.Cell(causes.feature(str(item["feature"])), wraps=True),
                    _number(item.get("value")),
                    f"{'below' if item.get('is') == '<' else 'at least'} {_number(item.get('limit'))}",
                )
                for item in one.evidence
            ],
        )
    tables.links([("What it cost, lease by lease", link("cost", scope, tenant=one.tenant, workload=one.workload))])


def _number(value: object) -> str:
    if not isinstance(value, (int, float)):
        return words.UNKNOWN
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:,.1f}{unit}"
    return f"{value:.2f}"
