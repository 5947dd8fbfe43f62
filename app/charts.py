"""Pictures: each takes a small table and returns a chart; colours mean what app.palette says."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import altair as alt
import polars as pl

from app import palette
from app.usage import Grain

# Tables are cut to a few thousand rows where they are asked for; altair's own limit isn't needed.
alt.data_transformers.disable_max_rows()

HEIGHT: Final = 280
LABELS: Final = 10
NOW: Final = palette.SERIES[0]
MARGIN: Final = 130
"""Pixels left of pictures that share their time axis."""
A: Final[dict[Grain, str]] = {"hour": "an hour", "day": "a day", "month": "a month"}
_UNIT: Final = alt.Scale(domain=[0, 1])
_LOCAL: Final = "%Y-%m-%dT%H:%M:%S"
_FORMS: Final[dict[Grain, str]] = {"hour": "%-d %b %H:00", "day": "%-d %b", "month": "%b %Y"}


def hours(rows: pl.DataFrame, states: tuple[palette.State, ...], grain: Grain) -> alt.Chart:
    """Return GPU-hours over time, stacked by state.

    Args:
        rows: usage.states.
    """
    chart: alt.Chart = (
        alt.Chart(labelled(rows, grain))
        .mark_bar()
        .encode(
            x=time_axis(rows, grain),
            y=alt.Y("gpu_hours:Q", title=f"GPU-hours {A[grain]}", stack="zero"),
            color=alt.Color(
                "state:N",
                scale=palette.state_colours(states),
                legend=None,
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("label:N", title=grain.title()),
                alt.Tooltip("state:N", title="State"),
                alt.Tooltip("gpu_hours:Q", title="GPU-hours", format=",.1f"),
            ],
        )
        .properties(height=HEIGHT)
    )
    return chart


def amounts(rows: pl.DataFrame, *, title: str, ink: str) -> alt.LayerChart:
    """Return one bar per name, longest first, with its amount written beside it.

    Args:
        rows: ``name``, ``amount`` (for the length), ``text`` (as written), and ``colour``, where it has a meaning.
        ink: colour of writing.
    """
    names = rows["name"].to_list()
    base = alt.Chart(rows).encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False)),
        x=alt.X("amount:Q", title=title, axis=alt.Axis(grid=True, tickCount=5, format="~s")),
        tooltip=[alt.Tooltip("name:N", title="Name"), alt.Tooltip("text:N", title=title)],
    )
    coloured = alt.Color("colour:N", scale=None) if "colour" in rows.columns else alt.value(palette.SERIES[0])
    bars = base.mark_bar().encode(color=coloured)
    texts = base.mark_text(align="left", dx=4, color=ink).encode(text="text:N")
    layered: alt.LayerChart = (bars + texts).properties(height=alt.Step(28))
    return layered


def side_by_side(rows: pl.DataFrame, colours: dict[str, str], *, title: str, ink: str) -> alt.LayerChart:
    """Return two bars per name, one below the other, with their amounts.

    Args:
        rows: ``name``, ``kind``, ``amount``, ``text``, ``order`` (of the kinds).
        colours: of the kinds.
        ink: colour of writing.
    """
    names = rows["name"].unique(maintain_order=True).to_list()
    base = alt.Chart(rows).encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False)),
        yOffset=alt.YOffset("order:O"),
        x=alt.X("amount:Q", title=title, axis=alt.Axis(grid=True, tickCount=5, format="~s")),
        tooltip=[
            alt.Tooltip("name:N", title="Name"),
            alt.Tooltip("kind:N", title="When"),
            alt.Tooltip("text:N", title=title),
        ],
    )
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    bars = base.mark_bar().encode(color=alt.Color("kind:N", scale=scale, legend=None))
    texts = base.mark_text(align="left", dx=4, color=ink, fontSize=10).encode(text="text:N")
    layered: alt.LayerChart = (bars + texts).properties(height=alt.Step(18))
    return layered


def days(rows: pl.DataFrame, colours: dict[str, str], grain: Grain, *, title: str) -> alt.Chart:
    """Return amounts over time, stacked by name.

    Args:
        rows: ``moment``, ``name``, ``amount``.
        colours: of the names, in the order in which they are stacked.
    """
    names = list(colours)
    order = pl.DataFrame({"name": names, "order": range(len(names))}, schema={"name": pl.String, "order": pl.Int64})
    chart: alt.Chart = (
        alt.Chart(labelled(rows.join(order, on="name", how="inner"), grain))
        .mark_bar()
        .encode(
            x=time_axis(rows, grain),
            y=alt.Y("amount:Q", title=f"{title} {A[grain]}", stack="zero", axis=alt.Axis(format="~s")),
            color=alt.Color(
                "name:N",
                scale=alt.Scale(domain=names, range=list(colours.values())),
                sort=names,
                legend=None,
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("label:N", title=grain.title()),
                alt.Tooltip("name:N", title="Name"),
                alt.Tooltip("amount:Q", title=title, format=",.2f"),
            ],
        )
        .properties(height=HEIGHT)
    )
    return chart


def labelled(rows: pl.DataFrame, grain: Grain) -> pl.DataFrame:
    """Return rows with their ``moment`` as text, ``label``."""
    # Times as text: a browser would move them to its own time zone.
    return rows.with_columns(label=pl.col("moment").dt.strftime(_FORMS[grain])).drop("moment")


def time_axis(rows: pl.DataFrame, grain: Grain) -> alt.X:
    """Return the axis of the times in `rows`, a few of them named."""
    times = rows["moment"].unique().sort().dt.strftime(_FORMS[grain]).to_list()
    told = times[:: max(1, -(-len(times) // LABELS))]
    return alt.X("label:N", sort=times, title=None, axis=alt.Axis(values=told, labelAngle=0, ticks=False))


def activity(rows: pl.DataFrame, colours: dict[str, tuple[str, str]]) -> alt.Chart:
    """Return how busy a workload was hour by hour.

    Args:
        rows: causes.time_line.
        colours: name and colour of each of its columns that is drawn.
    """
    long = (
        rows.with_columns(moment=pl.col("moment").dt.strftime(_LOCAL))
        .unpivot(on=list(colours), index=["moment"], variable_name="what", value_name="share")
        .with_columns(pl.col("what").replace({column: name for column, (name, _) in colours.items()}))
    )
    chart: alt.Chart = (
        alt.Chart(long)
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=_hours(rows),
            y=alt.Y("share:Q", title=None, axis=alt.Axis(format=".0%", minExtent=MARGIN, tickCount=4), scale=_UNIT),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=[n for n, _ in colours.values()], range=[c for _, c in colours.values()]),
                legend=None,
            ),
            tooltip=[alt.Tooltip("what:N", title="What"), alt.Tooltip("share:Q", title="Share", format=".1%")],
        )
        .properties(height=170)
    )
    return chart


def strip(rows: pl.DataFrame, names: dict[str, str]) -> alt.Chart:
    """Return when each cause held, a line for each.

    Args:
        rows: causes.time_line.
        names: of the causes, by id.
    """
    told = rows.filter(pl.col("cause").is_not_null()).sort("hour")
    breaks = (pl.col("cause") != pl.col("cause").shift(1)) | (pl.col("hour") != pl.col("hour").shift(1) + 3_600_000)
    runs = (
        told.with_columns(run=breaks.fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.first("cause", "moment"), until=pl.last("moment").dt.offset_by("1h"), hours=pl.len())
        .with_columns(pl.col("moment", "until").dt.strftime(_LOCAL), title=pl.col("cause").replace(names))
    )
    chart: alt.Chart = (
        alt.Chart(runs)
        .mark_bar(height=12)
        .encode(
            x=_hours(rows),
            x2="until:T",
            y=alt.Y("title:N", title=None, axis=alt.Axis(labelLimit=MARGIN, ticks=False, minExtent=MARGIN)),
            color=alt.value(palette.SERIES[0]),
            tooltip=[alt.Tooltip("title:N", title="Cause"), alt.Tooltip("hours:Q", title="Hours on end")],
        )
        .properties(height=alt.Step(22))
    )
    return chart


def _hours(rows: pl.DataFrame) -> alt.X:
    first, *_, last = [*rows["moment"].sort().dt.strftime(_LOCAL)] * 2
    scale = alt.Scale(domain=[_at(first), _at(last)])
    return alt.X("moment:T", title=None, scale=scale, axis=alt.Axis(format="%-d %b %H:%M", labelAngle=0, tickCount=5))


def windows(rows: pl.DataFrame, colours: dict[str, str]) -> alt.Chart:
    """Return how many GPUs of each model are left over time.

    Args:
        rows: ``model``, ``gpus``, ``start``, ``end`` (local, ISO 8601); grain: stretch in which they stay the same.
    """
    ends = rows.group_by("model", maintain_order=True).last().select("model", "gpus", start="end")
    steps = pl.concat([rows.select("model", "gpus", "start"), ends])
    chart: alt.Chart = (
        alt.Chart(steps)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("start:T", title=None, axis=alt.Axis(format="%-d %b", labelAngle=0, tickCount=7)),
            y=alt.Y("gpus:Q", title="GPUs", scale=alt.Scale(zero=True), axis=alt.Axis(tickMinStep=1)),
            color=alt.Color(
                "model:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None
            ),
            tooltip=[alt.Tooltip("model:N", title="Model"), alt.Tooltip("gpus:Q", title="GPUs")],
        )
        .properties(height=180)
    )
    return chart


def gantt(rows: pl.DataFrame, *, order: list[str], colours: dict[str, str], bounds: list[str]) -> alt.Chart:
    """Return who held what when: a line for each device, tenant or workload, a bar for each lease.

    Args:
        rows: ``line``, ``holder``, ``workload``, ``user``, ``start``, ``end`` (local, ISO 8601), ``from``, ``to`` (as
            written); grain: lease.
        order: of the lines, from the top.
        bounds: start and end of the time axis.
    """
    lines = alt.Axis(labelLimit=220, labelOverlap=False, labelFontSize=10, ticks=False)
    times = alt.Axis(format="%-d %b %H:%M")
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X("start:T", title=None, scale=alt.Scale(domain=[_at(b) for b in bounds]), axis=times),
            x2="end:T",
            y=alt.Y("line:N", sort=order, title=None, axis=lines),
            color=alt.Color(
                "holder:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None
            ),
            tooltip=[
                alt.Tooltip("workload:N", title="Workload"),
                alt.Tooltip("holder:N", title="Tenant"),
                alt.Tooltip("user:N", title="User"),
                alt.Tooltip("line:N", title="On"),
                alt.Tooltip("from:N", title="From"),
                alt.Tooltip("to:N", title="To"),
            ],
        )
        .properties(height=alt.Step(15))
    )
    return chart


def _at(text: str) -> alt.DateTime:
    at = datetime.fromisoformat(text)
    return alt.DateTime(year=at.year, month=at.month, date=at.day, hours=at.hour, minutes=at.minute)
