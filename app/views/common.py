"""What the pages share: their scope, links between them, a figure with its change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, Protocol, TypeVar
from urllib.parse import urlencode

import polars as pl
import streamlit as st

from app import address, charts, palette, tables, usage, words
from app.charts import Picture
from app.scope import Scope

_Row = TypeVar("_Row", bound="Keyed")


def scope_of_page() -> Scope:
    """Return what main chose for this run."""
    scope = st.session_state["scope"]
    assert isinstance(scope, Scope)  # noqa: S101
    return scope


def link(page: str, scope: Scope, **changed: str) -> str:
    """Return the address of a page with this scope, changed."""
    kept = {"tenant": scope.tenant, "time": scope.span.name, "compare": address.value("compare")}
    return f"{page}?{urlencode({k: v for k, v in {**kept, **changed}.items() if v is not None})}"


def budget_of(scope: Scope) -> Decimal | None:
    """Return the tenant's budget for the range, where that is whole months; None: there is none."""
    tenant, span = scope.tenants.get(scope.tenant or ""), scope.span
    months = len(span.whole)
    spans_them = bool(months) and (span.whole[0].days.first, span.whole[-1].days.after) == (
        span.days.first,
        span.days.after,
    )
    return tenant.budget * months if tenant and tenant.budget is not None and spans_them else None


CHOOSE: Final = "Choose a row (by its box, or with Shift and the space bar)"


def running(scope: Scope) -> None:
    """Say of a range that isn't over what is in its bill already: else an early look frightens."""
    if scope.as_of < scope.span.end:
        st.caption(
            f"{scope.span.label} isn't over yet: reservations, overheads and commitments are those of all of it, hours "
            "and what they cost those until now."
        )


def comparison(scope: Scope, *, by_month: bool = False) -> None:
    """Say what the changes are against, or why there are none; `by_month`: only whole months are compared."""
    if scope.other is None:
        wanted = address.value("compare") or "before"
        if wanted != "none":
            st.caption("No changes are shown: the ledger holds nothing of the days to compare with.")
        return
    if scope.comparable and by_month:
        st.caption("No changes are shown: here only whole months are compared with whole months.")
    elif scope.comparable:
        st.caption(f"Changes are against {scope.other.label}.")
    elif not scope.span.is_whole:
        st.caption(f"No changes are shown: {scope.span.label} isn't over, or the ledger lacks a part of it.")
    else:
        st.caption(f"No changes are shown: the ledger holds only a part of {scope.other.label}.")


def metric(
    label: str,
    shown: str,
    now: float | Decimal | None,
    before: float | Decimal | None,
    *,
    good: Literal["up", "down"] | None = None,
    points: bool = False,
) -> None:
    """Draw a figure with its change.

    Args:
        good: which direction is good news; None: neither.
        points: the figure is a share, and its change is in percentage points.
    """
    if points:
        delta = None if now is None or before is None else f"{100 * (float(now) - float(before)):+.1f} points"
    else:
        delta = words.change(now, before)
    colour: Literal["normal", "inverse", "off"] = {"up": "normal", "down": "inverse"}.get(good or "", "off")  # type: ignore[assignment]
    still = delta is not None and not delta.strip("+-0.% points")
    st.metric(
        label,
        shown,
        delta,
        delta_color="off" if still else colour,
        delta_arrow="off" if still else "auto",
        width="content",
    )


def ink() -> str:
    """Return the colour of writing in the theme that the reader has."""
    return palette.INK_ON_DARK if st.context.theme.type == "dark" else palette.INK


def draw(picture: Picture, alt: str) -> None:
    """Draw a picture; `alt` says what it shows to those who don't see it."""
    st.vega_lite_chart(picture.rows, dict(picture.spec), width="stretch", alt=alt)


class Keyed(Protocol):
    """A row that an address can name."""

    @property
    def key(self) -> str: ...  # noqa: D102


def chosen_row(
    name: str, rows: Sequence[_Row], frame: pl.DataFrame, columns: Mapping[str, Any], *, key: str, why: str
) -> _Row | None:
    """Draw a list of which one row is chosen; return that row, or else the first; None: there is none.

    Args:
        name: of the choice in the address.
        frame: the first of `rows` as they are shown.
        key: of the widget; changes with what is listed.
        why: what choosing a row is for.
    """

    def choose() -> None:
        chosen = [rows[n] for n in st.session_state[key].selection.rows if n < len(rows)]
        if chosen:
            address.put(name, chosen[0].key)

    st.caption(why)
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        height=min(35 * (frame.height + 1) + 3, 390),
        key=key,
        on_select=choose,
        selection_mode="single-row",
        column_config=dict(columns),
    )
    if len(rows) > frame.height:
        st.caption(f"The {frame.height:,} dearest of {len(rows):,}.")
    named = address.value(name)
    return next((row for row in rows if row.key == named), rows[0] if rows else None)


def hours_by_day(scope: Scope, only: Collection[str] = ()) -> None:
    """Draw where the scope's GPU-hours went over time; `only` these states, by key."""
    rows = usage.states(scope, scope.span)
    chosen = [s for s in palette.STATES if not only or s.key in only]
    rows = rows.filter(pl.col("state").is_in([s.label for s in chosen]))
    present = set(rows.filter(pl.col("gpu_hours") > 0)["state"])
    states = tuple(s for s in chosen if s.label in present)
    if states:
        tables.legend((s.label, s.colour) for s in states)
        grain = usage.grain(scope.span)
        draw(charts.hours(rows, states, grain), f"GPU-hours {usage.A[grain]}, by state")


def days(rows: pl.DataFrame, colours: dict[str, str], grain: usage.Grain, *, title: str, what: str) -> None:
    """Draw amounts over time, stacked by name: charts.days with what its colours mean; `what` has the names."""
    tables.legend(colours.items())
    draw(charts.days(rows, colours, grain, title=title), f"{title} {usage.A[grain]}, by {what}")
