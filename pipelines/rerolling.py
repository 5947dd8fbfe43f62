"""Rolls up again only the days of cards where a part or a sample changed; of all others the stored usage stands.

The usage of a card in a UTC day follows from its parts and the observations of that day alone, so what is left out is
exactly what it would be if it were made anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from pipelines.capacity import Part
from pipelines.fleet import Fleet
from pipelines.instants import DAY_MS
from pipelines.leases import Lease
from pipelines.looking import DIRTY, Look
from pipelines.rollup import usage_order
from pipelines.series import DEVICE_KEY
from pipelines.shown import CARD_KEY

PART: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(DEVICE_KEY, pl.String()),
    "node": pl.String(),
    "model": pl.String(),
    "state": pl.String(),  # of a part; "owner" of a stretch in which a card is dedicated
    "lease": pl.String(),  # id; of an owner the tenant
    "guessed": pl.Boolean(),
    "weight_num": pl.Int64(),
    "weight_den": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}
"""grain: part of a device, or stretch of a card's dedication: all that usage takes from elsewhere than samples."""

CARD_DAY: Final[dict[str, pl.DataType]] = {"cluster": pl.String(), "device": pl.String(), "day": pl.Int64()}
"""grain: card × UTC day, given by its start in ms."""


def part_table(parts: Sequence[Part], leases: Sequence[Lease], ids: Sequence[str], fleet: Fleet) -> pl.DataFrame:
    """Return PART."""
    named = [(d.cluster, d.device, d.instance, d.profile, d.node, d.model) for d in fleet.devices]
    rows: list[tuple[object, ...]] = [
        (*named[p.dev], p.state, ids[p.lease] if p.lease >= 0 else None, p.lease >= 0 and leases[p.lease].guessed,
         p.weight.numerator, p.weight.denominator, p.start, p.end)
        for p in parts
    ]  # fmt: skip
    rows += [
        (*named[card], "owner", listing.owner, False, 1, 1, listing.start, listing.end)
        for card, listed in fleet.listings.items()
        for listing in listed
        if listing.owner
    ]
    return pl.DataFrame(rows, schema=PART, orient="row")


def changed_days(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Return the days of cards (CARD_DAY) in which two tables of PART differ."""
    by_day = [_by_day(a.join(b, on=list(PART), how="anti", nulls_equal=True)) for a, b in ((old, new), (new, old))]
    grain = [*PART, "day"]
    differing = [a.join(b, on=grain, how="anti", nulls_equal=True) for a, b in (by_day, by_day[::-1])]
    return pl.concat(differing).select(list(CARD_DAY)).unique()


def _by_day(parts: pl.DataFrame) -> pl.DataFrame:
    """Cut parts at UTC midnights and add the ``day``."""
    return (
        parts.with_columns(day=pl.int_ranges(pl.col("start") // DAY_MS, (pl.col("end") - 1) // DAY_MS + 1) * DAY_MS)
        .explode("day")
        .with_columns(start=pl.max_horizontal("start", "day"), end=pl.min_horizontal("end", pl.col("day") + DAY_MS))
    )


def stamped_days(parts: pl.DataFrame, usage: pl.DataFrame, seams: pl.DataFrame) -> pl.DataFrame:
    """Return the days of cards (CARD_DAY) from their seams on, that have parts or had usage."""
    seam = seams.select(*CARD_KEY, "seam").unique()
    of_parts = _by_day(
        parts.join(seam, on=CARD_KEY, nulls_equal=True)
        .filter((pl.col("state") != "owner") & (pl.col("end") > pl.col("seam")))
        .with_columns(start=pl.max_horizontal("start", "seam"))
    )
    of_usage = (
        usage.select(*CARD_KEY, "start")
        .join(seam, on=CARD_KEY, nulls_equal=True)
        .filter(pl.col("start") >= pl.col("seam"))
        .with_columns(day=pl.col("start") // DAY_MS * DAY_MS)
    )
    return pl.concat([of_parts.select(list(CARD_DAY)), of_usage.select(list(CARD_DAY))]).unique()


def unstamped(days: pl.DataFrame, looked: Look) -> pl.DataFrame:
    """Return the cards (DIRTY) that have samples and changed in days of which no observations are at hand."""
    sampled = looked.sight.tables["shown_device"].select(CARD_KEY).unique()
    seam = looked.seams.group_by(CARD_KEY).agg(pl.col("seam").min())
    return (
        days.join(sampled, on=CARD_KEY, how="semi", nulls_equal=True)
        .join(seam, on=CARD_KEY, how="left", nulls_equal=True)
        .filter(pl.col("seam").is_null() | (pl.col("day") < pl.col("seam")))
        .group_by(CARD_KEY)
        .agg(changed=pl.col("day").min())
        .select(list(DIRTY))
    )


def rolled_again(
    usage: pl.DataFrame,
    days: pl.DataFrame,
    parts: Sequence[Part],
    fleet: Fleet,
    roll: Callable[[Sequence[Part]], pl.DataFrame],
) -> pl.DataFrame:
    """Return usage with the days of cards (CARD_DAY) made anew of `parts`."""
    day = pl.col("start") // DAY_MS * DAY_MS
    kept = usage.with_columns(day=day).join(days, on=list(CARD_DAY), how="anti", nulls_equal=True).drop("day")
    return usage_order(pl.concat([kept, roll(list(_within(parts, days, fleet)))]))


def _within(parts: Sequence[Part], days: pl.DataFrame, fleet: Fleet) -> Iterator[Part]:
    """Yield what of parts lies in days of their cards; days are whole hours, so no row is cut but where it would be."""
    by_card: dict[tuple[str | None, str], list[int]] = {}
    for cluster, device, day in days.sort("day").iter_rows():
        by_card.setdefault((cluster, device), []).append(day)
    for part in parts:
        device = fleet.devices[part.dev]
        mine = by_card.get((device.cluster, device.device), [])
        for day in mine[bisect_right(mine, part.start - DAY_MS) :]:
            if day >= part.end:
                break
            start, end = max(part.start, day), min(part.end, day + DAY_MS)
            yield part if (start, end) == (part.start, part.end) else replace(part, start=start, end=end)
