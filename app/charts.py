"""Pictures: each takes a small table and returns a chart of it; colours mean what app.palette says.

Building a chart with Altair takes longer than all else that a page does. What a chart looks like is therefore built
once for each set of names, times and colours, and its rows go beside it as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import altair as alt
import polars as pl

from app import palette
from app.usage import FORMS, A, Grain

Spec = Mapping[str, Any]
Colours = tuple[tuple[str, str], ...]

HEIGHT: Final = 280
LABELS: Final = 10
SHORT: Final = "datum.value == 0 ? '0' : format(datum.value, '~s')"
"""An axis's numbers: 2k; as an axis writes them itself nothing would be 0k."""
KEPT: Final = 256
"""Looks of each kind of picture that are kept."""
NOW: Final = palette.SERIES[0]


@dataclass(frozen=True)
class Picture:
    """A chart.

    Attributes:
        spec: Vega-Lite's, without data; others draw it too: don't write into it.
        rows: what it shows.
    """

    spec: Spec
    rows: pl.DataFrame


def hours(rows: pl.DataFrame, states: tuple[palette.State, ...], grain: Grain) -> Picture:
    """Return GPU-hours over time, stacked by state.

    Args:
        rows: usage.states.
    """
    return Picture(_hours(states, grain, _times(rows, grain)), labelled(rows, grain))


@lru_cache(KEPT)
def _hours(states: tuple[palette.State, ...], grain: Grain, times: tuple[str, ...]) -> Spec:
    return spec_of(
        alt.Chart()
        .mark_bar()
        .encode(
            x=_time_axis(times),
            y=alt.Y("gpu_hours:Q", title=f"GPU-hours {A[grain]}", stack="zero"),
            color=alt.Color("state:N", scale=palette.state_colours(states), legend=None),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("label:N", title=grain.title()),
                alt.Tooltip("state:N", title="State"),
                alt.Tooltip("gpu_hours:Q", title="GPU-hours", format=",.1f"),
            ],
        )
        .properties(height=HEIGHT)
    )


def amounts(rows: pl.DataFrame, *, title: str, ink: str) -> Picture:
    """Return one bar per name, longest first, with its amount written beside it.

    Args:
        rows: ``name``, ``amount`` (for the length), ``text`` (as written), and ``colour``, where it has a meaning.
        ink: colour of writing.
    """
    names = tuple(rows["name"])
    return Picture(_amounts(names, title, ink, "colour" in rows.columns, _room(rows["amount"])), rows)


@lru_cache(KEPT)
def _amounts(names: tuple[str, ...], title: str, ink: str, coloured: bool, room: float | None) -> Spec:
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False)),
        x=alt.X(
            "amount:Q",
            title=title,
            axis=alt.Axis(grid=True, tickCount=5, labelExpr=SHORT),
            scale=alt.Undefined if room is None else alt.Scale(domainMax=room),
        ),
        tooltip=[alt.Tooltip("name:N", title="Name"), alt.Tooltip("text:N", title=title)],
    )
    bars = base.mark_bar().encode(color=alt.Color("colour:N", scale=None) if coloured else alt.value(palette.SERIES[0]))
    texts = base.mark_text(align="left", dx=4, color=ink).encode(text="text:N")
    return spec_of((bars + texts).properties(height=alt.Step(28)))


def side_by_side(rows: pl.DataFrame, colours: Mapping[str, str], *, title: str, ink: str) -> Picture:
    """Return two bars per name, one below the other, with their amounts.

    Args:
        rows: ``name``, ``kind``, ``amount``, ``text``, ``order`` (of the kinds).
        colours: of the kinds.
        ink: colour of writing.
    """
    names = tuple(rows["name"].unique(maintain_order=True))
    return Picture(_side_by_side(names, tuple(colours.items()), title, ink, _room(rows["amount"])), rows)


@lru_cache(KEPT)
def _side_by_side(names: tuple[str, ...], colours: Colours, title: str, ink: str, room: float | None) -> Spec:
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False)),
        yOffset=alt.YOffset("order:O"),
        x=alt.X(
            "amount:Q",
            title=title,
            axis=alt.Axis(grid=True, tickCount=5, labelExpr=SHORT),
            scale=alt.Undefined if room is None else alt.Scale(domainMax=room),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="Name"),
            alt.Tooltip("kind:N", title="When"),
            alt.Tooltip("text:N", title=title),
        ],
    )
    bars = base.mark_bar().encode(color=alt.Color("kind:N", scale=scale(colours), legend=None))
    texts = base.mark_text(align="left", dx=4, color=ink, fontSize=10).encode(text="text:N")
    return spec_of((bars + texts).properties(height=alt.Step(18)))


def days(rows: pl.DataFrame, colours: Mapping[str, str], grain: Grain, *, title: str) -> Picture:
    """Return amounts over time, stacked by name.

    Args:
        rows: ``moment``, ``name``, ``amount``.
        colours: of the names, in the order in which they are stacked.
    """
    names = list(colours)
    order = pl.DataFrame({"name": names, "order": range(len(names))}, schema={"name": pl.String, "order": pl.Int64})
    spec = _days(tuple(colours.items()), grain, title, _times(rows, grain))
    return Picture(spec, labelled(rows.join(order, on="name", how="inner"), grain))


@lru_cache(KEPT)
def _days(colours: Colours, grain: Grain, title: str, times: tuple[str, ...]) -> Spec:
    return spec_of(
        alt.Chart()
        .mark_bar()
        .encode(
            x=_time_axis(times),
            y=alt.Y("amount:Q", title=f"{title} {A[grain]}", stack="zero", axis=alt.Axis(labelExpr=SHORT)),
            color=alt.Color("name:N", scale=scale(colours), sort=[name for name, _ in colours], legend=None),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("label:N", title=grain.title()),
                alt.Tooltip("name:N", title="Name"),
                alt.Tooltip("amount:Q", title=title, format=",.2f"),
            ],
        )
        .properties(height=HEIGHT)
    )


def heat(rows: pl.DataFrame, colours: tuple[str, str, str], grain: Grain) -> Picture:
    """Return how much of each node stood idle over time.

    Args:
        rows: ``moment``, ``node``, ``part``, ``idle``.
        colours: of nothing, of half and of all of it.
    """
    return Picture(_heat(colours, grain, _times(rows, grain)), labelled(rows, grain))


@lru_cache(KEPT)
def _heat(colours: tuple[str, str, str], grain: Grain, times: tuple[str, ...]) -> Spec:
    return spec_of(
        alt.Chart()
        .mark_rect()
        .encode(
            x=_time_axis(times),
            y=alt.Y("node:N", title=None, axis=alt.Axis(labelLimit=220)),
            color=alt.Color(
                "part:Q",
                scale=alt.Scale(domain=[0, 0.5, 1], range=colours, interpolate="rgb"),
                legend=alt.Legend(title="Idle share", format=".0%", orient="top"),
            ),
            tooltip=[
                alt.Tooltip("label:N", title=grain.title()),
                alt.Tooltip("node:N", title="Node"),
                alt.Tooltip("part:Q", title="Idle", format=".1%"),
                alt.Tooltip("idle:Q", title="Idle GPU-hours", format=",.1f"),
            ],
        )
        .properties(height=alt.Step(22))
    )


def _room(amounts: pl.Series) -> float | None:
    """Return up to where an axis goes, so that what is written beside the longest bar isn't cut on a telephone."""
    longest = amounts.max() if amounts.len() else None
    return float(f"{1.3 * longest:.1e}") if isinstance(longest, float) and longest > 0 else None


def labelled(rows: pl.DataFrame, grain: Grain) -> pl.DataFrame:
    """Return rows with their ``moment`` as text, ``label``."""
    # Times as text: a browser would move them to its own time zone.
    return rows.with_columns(label=pl.col("moment").dt.strftime(FORMS[grain])).drop("moment")


def _times(rows: pl.DataFrame, grain: Grain) -> tuple[str, ...]:
    return tuple(rows["moment"].unique().sort().dt.strftime(FORMS[grain]))


def _time_axis(times: tuple[str, ...]) -> alt.X:
    """Return the axis of times, a few of them named."""
    told = times[:: max(1, -(-len(times) // LABELS))]
    return alt.X("label:N", sort=times, title=None, axis=alt.Axis(values=told, labelAngle=0, ticks=False))


def scale(colours: Colours) -> alt.Scale:
    """Return the scale from names to their colours."""
    return alt.Scale(domain=[name for name, _ in colours], range=[colour for _, colour in colours])


def spec_of(chart: alt.TopLevelMixin) -> Spec:
    """Return a chart as Vega-Lite."""
    # It isn't checked against Vega-Lite's schema: that takes as long again.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    # Altair puts a row of nothing into a chart without data, which would be drawn beside those that come later.
    del spec["datasets"]
    for part in (spec, *spec.get("layer", ())):
        part.pop("data", None)
    return spec
