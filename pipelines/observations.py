"""Scrapes → how long each value stands, and whether it can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from pipelines.findings import counted, of_cards
from pipelines.quality import KEY_SHIFT, Scrapes
from pipelines.streams import reach_of

FROZEN_SCRAPES: Final = 5
FROZEN_MS: Final = 180_000
CONTRADICTION_MS: Final = 3_600_000
PPB: Final = 1_000_000_000  # ratios are summed as whole billionths, so that hours × ratio stay exact

RATIOS: Final = ("busy", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")


@dataclass(frozen=True)
class Observations:
    """What is known of some cards, as intervals in ms.

    Attributes:
        timeline: ``dev``, ``t``, ``reach``, ``node``, ``free_slices``: a device's scrapes and until when each stands.
        presence: ``dev``, ``start``, ``end``: where a device was observed, joined where contiguous.
        hulls: ``card``, ``start``, ``end``: from a card's first sample to its last one's reach.
        busy: ``dev``, ``start``, ``end``, ``busy`` and the other RATIOS as whole billionths (Int64, null: not known).
        energy: ``card``, ``start``, ``end``, ``watts``: mean power of a board between two readings.
        findings: what was found wrong: ``card`` and findings.FINDING.
    """

    timeline: pl.DataFrame
    presence: pl.DataFrame
    hulls: pl.DataFrame
    busy: pl.DataFrame
    energy: pl.DataFrame
    findings: list[pl.DataFrame]


def observe(scrapes: Scrapes, interval_ms: int | None) -> Observations:
    """Return what the scrapes show."""
    findings = list(scrapes.findings)
    card = scrapes.devices["card"]  # by ``dev``
    timeline = _with_reach(scrapes.timeline, "dev", interval_ms)
    timeline = timeline.with_columns(card=card.gather(timeline["dev"]))
    series = scrapes.series.with_columns(card=card.gather(scrapes.series["dev"]))
    _count_gaps(timeline, findings)
    frozen = _frozen(scrapes.board, findings)
    timeline = _mark_frozen(timeline, frozen)
    board = _mark_frozen(scrapes.board, frozen)
    return Observations(
        timeline=timeline.select("dev", "t", "reach", "node", "free_slices"),
        presence=joined(timeline.filter(~pl.col("frozen")).select("dev", start="t", end="reach")),
        hulls=timeline.group_by("card").agg(start=pl.col("t").min(), end=pl.col("reach").max()).sort("card"),
        busy=_busy(_mark_frozen(series, frozen), interval_ms, findings),
        energy=_energy(board, interval_ms, findings),
        findings=findings,
    )


def joined(intervals: pl.DataFrame) -> pl.DataFrame:
    """Join intervals (``dev``, ``start``, ``end`` in ms, sorted by device and start) that touch or overlap."""
    dev = intervals["dev"].to_numpy().astype(np.int64) << KEY_SHIFT
    start, until = dev + intervals["start"].to_numpy(), np.maximum.accumulate(dev + intervals["end"].to_numpy())
    apart = np.ones(len(dev), np.bool_)
    apart[1:] = (start[1:] > until[:-1]) | (dev[1:] != dev[:-1])
    firsts = np.flatnonzero(apart)
    lasts = np.append(firsts[1:], len(dev))[: len(firsts)] - 1
    return intervals[firsts].with_columns(end=pl.Series(until[lasts] - dev[lasts], dtype=pl.Int64))


def _with_reach(frame: pl.DataFrame, key: str, interval_ms: int | None) -> pl.DataFrame:
    """Add ``reach`` to a frame sorted by `key` and ``t``, one row per key and time."""
    keys, times = frame[key].to_numpy(), frame["t"].to_numpy()
    reach = np.empty(len(times), np.int64)
    edges = np.flatnonzero(np.diff(keys)) + 1
    for first, last in zip([0, *edges], [*edges, len(times)], strict=True):
        if last > first:
            reach[first:last] = reach_of(times[first:last], interval_ms)
    return frame.with_columns(pl.Series("reach", reach, pl.Int64))


def _count_gaps(timeline: pl.DataFrame, findings: list[pl.DataFrame]) -> None:
    goes_on = pl.col("dev") == pl.col("dev").shift(-1)
    holes = timeline.filter(goes_on & (pl.col("t").shift(-1) > pl.col("reach")))
    findings.append(counted(holes.select("card", t="reach"), "gap", "holes in the samples of devices"))


def _frozen(board: pl.DataFrame, findings: list[pl.DataFrame]) -> pl.DataFrame:
    """Return where a board's readings stand still: ``card``, ``start``, ``end`` (first and last repeated sample).

    An energy counter that has moved before can't stand still while the card draws power.
    """
    value, t = pl.col("energy_joules_total"), pl.col("t")
    again = (pl.col("card") == pl.col("card").shift(1)).fill_null(value=False)
    moved = again & (value != value.shift(1))
    counter = (
        board.filter(value.is_not_null())
        .with_columns(again=again, moved=moved, run=moved.cum_sum(), since=t.shift(1))
        # The first run never moved before: an idle start, or a counter that is not there.
        .with_columns(run=pl.col("run") - pl.when(~pl.col("again")).then("run").forward_fill())
    )
    powered = pl.col("power_watts") > 0
    runs = (
        counter.filter(pl.col("again") & ~pl.col("moved") & (pl.col("run") > 0))
        .group_by("card", "run", maintain_order=True)
        .agg(
            since=pl.col("since").first(),
            start=t.first(),
            end=t.last(),
            powered=powered.sum(),
            off=(~powered).any(),
        )
        .filter((pl.col("powered") >= FROZEN_SCRAPES) & ~pl.col("off") & (pl.col("end") - pl.col("since") >= FROZEN_MS))
        .select("card", "start", "end")
        .sort("card", "start")
    )
    detail = "a card's readings stood still while it drew power"
    findings.append(of_cards(runs.with_columns(pl.col("end") + 1), "frozen_series", detail))
    return runs


def _mark_frozen(frame: pl.DataFrame, frozen: pl.DataFrame) -> pl.DataFrame:
    if not frozen.height:
        return frame.with_columns(frozen=pl.lit(value=False))
    spans = frozen.select("card", "start", frozen_until="end").sort("start")
    marked = (
        frame.with_row_index("order")
        .sort("t")
        .join_asof(spans, left_on="t", right_on="start", by="card", strategy="backward", check_sortedness=False)
    )
    return (
        marked.with_columns(frozen=(pl.col("t") <= pl.col("frozen_until")).fill_null(value=False))
        .sort("order")
        .drop("order", "start", "frozen_until")
    )


def _busy(series: pl.DataFrame, interval_ms: int | None, findings: list[pl.DataFrame]) -> pl.DataFrame:
    """Decide each device's busy ratio over time: the engine's activity, else GPU_UTIL."""
    rows = _with_reach(series.filter(pl.col("busy_seen")), "dev", interval_ms)
    engine, util = pl.col("engine_active_ratio"), pl.col("gpu_util_ratio")
    against = ((engine == 0) & (util > 0) & ~pl.col("frozen")).fill_null(value=False)
    rows = rows.with_columns(against=against)
    breaks = (
        (pl.col("dev") != pl.col("dev").shift(1))
        | (pl.col("against") != pl.col("against").shift(1))
        | (pl.col("t") > pl.col("reach").shift(1))
    )
    rows = rows.with_columns(run=breaks.fill_null(value=True).cum_sum())
    runs = (
        rows.filter(pl.col("against"))
        .group_by("dev", "run")
        .agg(pl.col("card").first(), start=pl.col("t").min(), end=pl.col("reach").max())
        .filter(pl.col("end") - pl.col("start") >= CONTRADICTION_MS)
        .sort("dev", "start")
    )
    detail = "engine activity is 0 for an hour while GPU_UTIL is above: the latter counts"
    findings.append(of_cards(runs, "contradicting_series", detail))
    runs = runs.select("dev", "run", contradicted=pl.lit(value=True))
    rows = rows.join(runs, on=["dev", "run"], how="left", maintain_order="left")
    busy = pl.when(pl.col("contradicted").fill_null(value=False)).then(util).otherwise(pl.coalesce(engine, util))
    observed = ~pl.col("frozen")
    return rows.with_columns(busy=busy).select(
        "dev",
        pl.col("t").alias("start"),
        pl.col("reach").alias("end"),
        *(pl.when(observed).then((pl.col(c) * PPB).round().cast(pl.Int64)).alias(c) for c in RATIOS),
        memory_used_bytes=pl.when(observed).then(pl.col("memory_used_bytes")),
    )


def _energy(board: pl.DataFrame, interval_ms: int | None, findings: list[pl.DataFrame]) -> pl.DataFrame:
    """Spread each counter's increase evenly between its two samples; without a counter, take power × time."""
    live = board.filter(~pl.col("frozen"))
    counter = live.filter(pl.col("energy_joules_total").is_not_null())  # sorted by card and time, as boards are
    following = pl.col("energy_joules_total").shift(-1)
    pairs = counter.select(
        "card",
        start="t",
        end=pl.when(pl.col("card") == pl.col("card").shift(-1)).then(pl.col("t").shift(-1)),
        increase=following - pl.col("energy_joules_total"),
        after=following,
    ).filter(pl.col("end").is_not_null())
    resets = pairs.filter(pl.col("increase") < 0).select("card", t="end")
    detail = "an energy counter started again; what it shows from then on is new"
    findings.append(counted(resets, "counter_reset", detail))
    joules = pl.when(pl.col("increase") < 0).then("after").otherwise("increase")
    metered = pairs.select("card", "start", "end", watts=joules / (pl.col("end") - pl.col("start")) * 1000)
    unmetered = (
        live.filter(pl.col("power_seen")).join(counter.select("card").unique(), on="card", how="anti").sort("card", "t")
    )
    powered = _with_reach(unmetered, "card", interval_ms).select("card", start="t", end="reach", watts="power_watts")
    return pl.concat([metered, powered.filter(pl.col("watts").is_not_null())]).sort("card", "start")
