"""Bottlenecks: why what was held wasn't busy, ranked by the money lost, with the evidence and what to try."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import polars as pl
import streamlit as st

from app import address, causes, charts, palette, tables, timelines, words
from app.accounts import ZERO
from app.causes import Bottleneck
from app.scope import Scope, Span
from app.views.common import CHOOSE, chosen_row, comparison, draw, ink, link, scope_of_page

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
    if not found:
        _nothing(scope, published=found is not None)
        return
    lost = causes.waste(scope)
    by_cause = _by_cause(found)
    other = _other(scope)
    _answer(scope, lost, by_cause, other)
    _bars(scope, lost, by_cause)
    _changes(scope, lost, by_cause, other)
    st.header("Ranked by what they cost")
    chosen = _ranking(scope, found)
    if chosen is not None:
        _one(scope, chosen)


def _nothing(scope: Scope, *, published: bool) -> None:
    st.title(f"{scope.span.months_label}: no cause is known")
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


def _by_cause(found: list[Bottleneck]) -> dict[str, Decimal | None]:
    """Return what each cause cost, the dearest first; None: not known of any workload."""
    sums: dict[str, Decimal | None] = {}
    for one in found:
        so_far = sums.get(one.cause)
        sums[one.cause] = so_far if one.waste is None else (so_far or ZERO) + one.waste
    return dict(sorted(sums.items(), key=lambda item: (-(item[1] or ZERO), item[0])))


def _other(scope: Scope) -> Span | None:
    """Return what to compare with: whole months with whole months."""
    other = scope.comparable
    return other if other and not scope.span.cut and not other.cut else None


def _answer(scope: Scope, lost: Decimal | None, by_cause: dict[str, Decimal | None], other: Span | None) -> None:
    months = scope.span.months_label
    if lost is None:
        st.title(f"{months}: nothing that was held was observed")
        st.markdown("How much of it wasn't kept busy, and why, is not known. The Data page says what was observed.")
        return
    st.title(f"{months}: {words.literal(words.money(lost, scope.currency))} was held and not kept busy")
    cause, amount = next(iter(by_cause.items()))
    said = (
        f"Most of it, **{words.literal(words.money(amount, scope.currency))}** ({words.share(amount, lost)}), is for "
        f"“{words.literal(causes.title(cause))}”: {causes.meaning(cause)[0].lower()}{causes.meaning(cause)[1:]}"
    )
    if other and (change := words.change(lost, causes.waste(scope, other))):
        said += f" All of it together changed by {change} against {other.label}."
    if months != scope.span.label:
        said += (
            f" These are the causes of {months}: they are told by month: what is lost is a part of a month's price, "
            f"and a cause is sure only over many hours. The time lines below are of {scope.span.label}."
        )
    st.markdown(said)
    if other is None:
        comparison(scope, by_month=True)


def _bars(scope: Scope, lost: Decimal | None, by_cause: dict[str, Decimal | None]) -> None:
    amounts = [(causes.title(cause), amount) for cause, amount in by_cause.items() if amount]
    if lost is None:
        return
    told = sum((amount or ZERO for amount in by_cause.values()), ZERO)
    if lost != told:
        amounts.append(("Not told", lost - told))
    frame = pl.DataFrame(
        [(name, float(amount), words.amount(amount, scope.currency)) for name, amount in amounts],
        schema=["name", "amount", "text"],
        orient="row",
    )
    draw(charts.amounts(frame, title=scope.currency, ink=ink()), "What was lost, by cause")
    st.caption(f"Together {words.literal(words.money(lost, scope.currency))}, the waste that is reported.")


def _changes(scope: Scope, lost: Decimal | None, by_cause: dict[str, Decimal | None], other: Span | None) -> None:
    """Draw each cause beside what it cost in the months to compare with."""
    before = causes.found(scope, other) if other else None
    if other is None or before is None:
        return
    was = _by_cause(before)
    lost_before = causes.waste(scope, other)
    # What isn't listed of a month that was observed is nothing; of one that wasn't, nobody knows.
    none_now, none_then = (None if total is None else ZERO for total in (lost, lost_before))
    rows = [(causes.title(c), by_cause.get(c, none_now), was.get(c, none_then)) for c in [*by_cause, *was]]
    tables.sums(
        ["Lost, by cause", f"{scope.span.label}, {scope.currency}", f"{other.label}, {scope.currency}", "Change"],
        [
            (name, *(words.amount(a, scope.currency) for a in (now, then)), words.change(now, then) or words.UNKNOWN)
            for name, now, then in dict.fromkeys(rows)
        ],
        total=(
            "All that was lost",
            *(words.amount(a, scope.currency) for a in (lost, lost_before)),
            words.change(lost, lost_before) or words.UNKNOWN,
        ),
    )


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
    rows = [one for one in found if cause in (ANY, one.cause)]
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
            for one in rows[:ROWS]
        ],
        schema={
            "workload": pl.String, "tenant": pl.String, "cause": pl.String, "waste": pl.Decimal(38, 4),
            "gpu_hours": pl.Float64, "share": pl.Float64, "confidence": pl.Float64,
        },
        orient="row",
    )  # fmt: skip
    return chosen_row(
        "one",
        rows,
        frame,
        {
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
        key=f"bottlenecks-{cause}-{scope.tenant}-{scope.span.name}",
        why=f"{CHOOSE} to see its evidence and what to try.",
    )


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
    st.subheader("When")
    if not lines.height:
        st.info(f"It held nothing in {scope.span.label}.")
    else:
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
