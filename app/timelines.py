"""Pictures along the clock: how busy a workload was, who held what when, what is left in the days ahead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

import altair as alt
import polars as pl

from app import palette
from app.charts import KEPT, Colours, Picture, Spec, scale, spec_of

MARGIN: Final = 130
"""Pixels left of pictures that share their time axis."""
_UNIT: Final = alt.Scale(domain=[0, 1])
_LOCAL: Final = "%Y-%m-%dT%H:%M:%S"


def activity(rows: pl.DataFrame, colours: Mapping[str, tuple[str, str]]) -> Picture:
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
    chart = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=_hour_axis(rows),
            y=alt.Y("share:Q", title=None, axis=alt.Axis(format=".0%", minExtent=MARGIN, tickCount=4), scale=_UNIT),
            color=alt.Color("what:N", scale=scale(tuple(colours.values())), legend=None),
            tooltip=[alt.Tooltip("what:N", title="What"), alt.Tooltip("share:Q", title="Share", format=".1%")],
        )
        .properties(height=170)
    )
    return Picture(spec_of(chart), long)


def strip(rows: pl.DataFrame, names: Mapping[str, str]) -> Picture:
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
    chart = (
        alt.Chart()
        .mark_bar(height=12)
        .encode(
            x=_hour_axis(rows),
            x2="until:T",
            y=alt.Y("title:N", title=None, axis=alt.Axis(labelLimit=MARGIN, ticks=False, minExtent=MARGIN)),
            color=alt.value(palette.SERIES[0]),
            tooltip=[alt.Tooltip("title:N", title="Cause"), alt.Tooltip("hours:Q", title="Hours on end")],
        )
        .properties(height=alt.Step(22))
    )
    return Picture(spec_of(chart), runs)


def _hour_axis(rows: pl.DataFrame) -> alt.X:
    first, *_, last = [*rows["moment"].sort().dt.strftime(_LOCAL)] * 2
    scale = alt.Scale(domain=[_at(first), _at(last)])
    return alt.X("moment:T", title=None, scale=scale, axis=alt.Axis(format="%-d %b %H:%M", labelAngle=0, tickCount=5))


def windows(rows: pl.DataFrame, colours: Mapping[str, str]) -> Picture:
    """Return how many GPUs of each model are left over time.

    Args:
        rows: ``model``, ``gpus``, ``start``, ``end`` (local, ISO 8601); grain: stretch in which they stay the same.
    """
    ends = rows.group_by("model", maintain_order=True).last().select("model", "gpus", start="end")
    return Picture(_windows(tuple(colours.items())), pl.concat([rows.select("model", "gpus", "start"), ends]))


@lru_cache(KEPT)
def _windows(colours: Colours) -> Spec:
    return spec_of(
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("start:T", title=None, axis=alt.Axis(format="%-d %b", labelAngle=0, tickCount=7)),
            y=alt.Y("gpus:Q", title="GPUs", scale=alt.Scale(zero=True), axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("model:N", scale=scale(colours), legend=None),
            tooltip=[alt.Tooltip("model:N", title="Model"), alt.Tooltip("gpus:Q", title="GPUs")],
        )
        .properties(height=180)
    )


def gantt(rows: pl.DataFrame, *, order: list[str], colours: Mapping[str, str], bounds: list[str]) -> Picture:
    """Return who held what when: a line for each device, tenant or workload, a bar for each lease.

    Args:
        rows: ``line``, ``holder``, ``workload``, ``user``, ``start``, ``end`` (local, ISO 8601), ``from``, ``to`` (as
            written); grain: lease.
        order: of the lines, from the top.
        bounds: start and end of the time axis.
    """
    return Picture(_gantt(tuple(order), tuple(colours.items()), tuple(bounds)), rows)


@lru_cache(KEPT)
def _gantt(order: tuple[str, ...], colours: Colours, bounds: tuple[str, ...]) -> Spec:
    lines = alt.Axis(labelLimit=220, labelOverlap=False, labelFontSize=10, ticks=False)
    times = alt.Axis(format="%-d %b %H:%M")
    return spec_of(
        alt.Chart()
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X("start:T", title=None, scale=alt.Scale(domain=[_at(b) for b in bounds]), axis=times),
            x2="end:T",
            y=alt.Y("line:N", sort=order, title=None, axis=lines),
            color=alt.Color("holder:N", scale=scale(colours), legend=None),
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


def _at(text: str) -> alt.DateTime:
    at = datetime.fromisoformat(text)
    return alt.DateTime(year=at.year, month=at.month, date=at.day, hours=at.hour, minutes=at.minute)
