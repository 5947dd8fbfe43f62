"""What to reclaim first, on the page of idle capacity: by cause, then what has to move, with evidence and remedy."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app import address, reclaim, tables, words
from app.accounts import ZERO
from app.reclaim import CauseSum, Reclaimable
from app.scope import Scope
from app.views.common import CHOOSE, chosen_row, link

ANY: Final = "any"
ROWS: Final = 300
CAUSE: Final = "reclaim"
CHOSEN: Final = "item"
ACROSS: Final = {"held_idle", "held_barely_used"}


def show(scope: Scope) -> None:
    """Draw the section."""
    st.header("What to reclaim first")
    found = reclaim.items(scope)
    if found is None:
        st.info("What is published has no such list yet. Run `gpuledger run --once` with this release.")
        return
    _causes(scope)
    if not found:
        st.info(f"Nothing stood idle in {scope.span.label}.")
        return
    chosen = _list(scope, found)
    if chosen is not None:
        _one(scope, chosen)


def _causes(scope: Scope) -> None:
    sums = [one for one in reclaim.by_cause(scope) if scope.tenant is None or one.gpu_hours != 0]
    if not sums:
        return
    worths = [one.worth for one in sums]
    hours = sum(one.gpu_hours or 0.0 for one in sums)
    tables.sums(
        ["Not used, by cause", "GPU-hours", f"Worth, {scope.currency}", tables.Cell("What would free it", wraps=True)],
        [_cause(one, scope.currency) for one in sums],
        total=(
            "All of it",
            words.hours(hours),
            words.UNKNOWN if None in worths else words.amount(sum((w or ZERO for w in worths), ZERO), scope.currency),
            tables.Cell(""),
        ),
        caption=f"At the on-demand price, over {scope.span.months_label}: each hour is under one cause. The "
        "title counts all time in which held GPUs weren't busy, this table what stood idle long enough to act on, and "
        "what was down.",
    )


def _cause(one: CauseSum, currency: str) -> tuple[tables.Cell | str, ...]:
    return (
        one.cause.title,
        words.UNKNOWN if one.gpu_hours is None else words.hours(one.gpu_hours),
        words.UNKNOWN if one.worth is None else words.amount(one.worth, currency),
        tables.Cell(reclaim.remedy(one.cause), wraps=True),
    )


def _list(scope: Scope, found: list[Reclaimable]) -> Reclaimable | None:
    present = list(dict.fromkeys(one.cause for one in found))
    titles = {cause.id: cause.title for cause in present}
    cause = address.select(
        "Cause",
        CAUSE,
        [ANY, *titles],
        ANY,
        lambda c: "All causes" if c == ANY else titles[c],
        width=address.WIDE,
    )
    rows = [one for one in found if cause in (ANY, one.cause.id)]
    chosen = chosen_row(
        CHOSEN,
        rows,
        reclaim.table(rows[:ROWS], scope),
        {
            "subject": st.column_config.TextColumn("What", width="medium"),
            "cause": st.column_config.TextColumn("Cause", width="medium"),
            "tenant": st.column_config.TextColumn("Tenant", width=130),
            "model": st.column_config.TextColumn("Model", width=120),
            "gpus": st.column_config.NumberColumn("GPUs", format="%d"),
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.1f"),
            "worth": st.column_config.NumberColumn(
                f"Worth, {scope.currency}", format=words.money_format(scope.currency)
            ),
            "since": "Goes on since",
        },
        key=f"reclaim-{cause}-{scope.tenant}-{scope.span.name}",
        why=f"{CHOOSE} to see what it was told by and what would free it.",
    )
    if scope.span.cut:
        st.caption("Hours and worth are of the whole month that each stands in.")
    return chosen


def _one(scope: Scope, one: Reclaimable) -> None:
    st.subheader(f"{words.literal(one.subject)}: {words.literal(one.cause.title.lower())}")
    worth = words.literal(words.money(one.worth, scope.currency))
    who = f", {words.literal(scope.tenant_name(one.tenant))}" if one.tenant is not None else ""
    user = f", {words.literal(one.user)}" if one.user else ""
    st.markdown(f"{words.hours(one.gpu_hours)} GPU-hours worth **{worth}**{who}{user}.")
    st.success(f"**Try:** {words.literal(reclaim.remedy(one.cause))}", icon=":material/build:")
    if one.evidence:
        tables.sums(
            ["Told by", tables.Cell("What it says", wraps=True)],
            [(what, tables.Cell(value, wraps=True)) for what, value in one.evidence],
        )
    if one.cause.id in ACROSS and one.tenant is not None:
        tables.links([("What it cost, lease by lease", link("cost", scope, tenant=one.tenant, workload=one.subject))])
