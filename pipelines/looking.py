"""Looks at samples again: those of cards with new ones, from some days before on, not all that there ever were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from pipelines.config import Config
from pipelines.instants import DAY_MS, from_ms
from pipelines.lake import Wanted
from pipelines.series import DEVICE_KEY
from pipelines.shown import CARD_KEY, TABLES, Tables, nothing, show
from pipelines.sighting import Sight, reading_of
from pipelines.splicing import ALL, SEAM, spliced, unsettled, whole

DAYS_BACK: Final = (1, 4, 16, None)
"""How many days before the change the seam lies, and how many before the seam reading begins; None: read all."""

Read = Callable[[Sequence[Wanted]], Iterator[pl.DataFrame]]

DIRTY: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "device": pl.String(),
    "changed": pl.Int64(),  # ms, UTC midnight of the first day with other samples than before
}
"""grain: card."""


@dataclass(frozen=True)
class Look:
    """What was looked at again.

    Attributes:
        seams: splicing.SEAM of the cards that were read: their stamps are known from ``seam`` on.
    """

    sight: Sight
    seams: pl.DataFrame


def look_again(
    kept: Tables, dirty: pl.DataFrame, read: Read, config: Config, scheduled: pl.DataFrame, *, pruned: int = ALL
) -> Look:
    """Return what all cards show, of which the dirty ones are read again.

    Args:
        kept: shown.TABLES of all cards as they were.
        dirty: DIRTY.
        read: yields samples of wanted cards, all of one card in one table.
        scheduled: the schedulers' runs (``cluster``, ``labelled_as``, ``start``, ``end`` in ms).
        pruned: before this time (ms) there are no samples any more: what they showed stays as it was.
    """
    if dirty.is_empty():
        return Look(Sight(kept), pl.DataFrame(schema=SEAM))
    reading = reading_of(config)
    sight, new, settled = Sight(kept), [nothing()], [pl.DataFrame(schema=SEAM)]
    left = dirty
    for back in DAYS_BACK:
        if left.is_empty():
            break
        seams, doubtful = _seams(left, back, pruned), []
        for samples in read(_wanted(seams)):
            shown = show(samples, reading, scheduled)
            mine = whole(shown.tables, kept, seams)
            asked = mine.filter(pl.col("seam") > ALL)
            doubted = asked.select(CARD_KEY).clear() if back is None else unsettled(shown, kept, asked)
            sure = mine.join(doubted, on=CARD_KEY, how="anti")
            doubtful.append(doubted)
            settled.append(sure)
            keys = shown.scrapes.devices.select("dev", *DEVICE_KEY).join(sure, on=CARD_KEY, how="semi")
            sight.stamps.add(keys, shown.seen.busy, shown.seen.energy)
            new.append({name: rows.join(sure, on=CARD_KEY, how="semi") for name, rows in shown.tables.items()})
        left = left.join(pl.concat([left.select(CARD_KEY).clear(), *doubtful]), on=CARD_KEY, how="semi")
    all_seams = pl.concat(settled)
    sight.tables = spliced(kept, {name: pl.concat(t[name] for t in new) for name in TABLES}, all_seams)
    return Look(sight, all_seams)


def dirty_by_records(old: pl.DataFrame, new: pl.DataFrame, kept: Tables) -> pl.DataFrame:
    """Return the cards (DIRTY) whose labels mean something else since the schedulers' runs changed.

    Of a run that only goes on or is cut short, that is what is labelled after the earlier of its two ends.

    Args:
        old, new: ``cluster``, ``labelled_as``, ``start``, ``end`` (ms).
        kept: shown.TABLES.
    """
    run, all_of = ["cluster", "labelled_as", "start"], ["cluster", "labelled_as", "start", "end"]
    gone = old.unique().join(new, on=all_of, how="anti", nulls_equal=True)
    come = new.unique().join(old, on=all_of, how="anti", nulls_equal=True)
    both = gone.join(come, on=run, how="full", coalesce=True, nulls_equal=True, suffix="_now")
    changed = both.group_by("labelled_as").agg(
        since=pl.when(pl.col("end").is_null() | pl.col("end_now").is_null())
        .then(ALL)
        .otherwise(pl.min_horizontal("end", "end_now"))
        .min()
    )
    named = kept["shown_label"].with_columns(
        labelled_as=pl.when(pl.col("job").is_not_null())
        .then(pl.col("job"))
        .otherwise(pl.concat_str(pl.col("namespace") + "/", "pod", ignore_nulls=True))
    )
    until = kept["shown_device"].group_by(CARD_KEY).agg(pl.col("last").max())
    return (
        named.join(changed, on="labelled_as")
        .with_columns(since=pl.max_horizontal("since", "first"))
        .join(until, on=CARD_KEY)
        .filter(pl.col("since") <= pl.col("last"))
        .group_by(CARD_KEY)
        .agg(changed=pl.col("since").min() // DAY_MS * DAY_MS)
        .select(list(DIRTY))
    )


def _seams(dirty: pl.DataFrame, back: int | None, pruned: int) -> pl.DataFrame:
    before = pl.lit(pruned, pl.Int64)
    return dirty.with_columns(
        read_from=before if back is None else pl.col("changed") - 2 * back * DAY_MS,
        seam=before if back is None else pl.col("changed") - back * DAY_MS,
    ).select(list(SEAM))


def _wanted(seams: pl.DataFrame) -> list[Wanted]:
    grouped = seams.group_by("cluster", "read_from").agg("device").sort("cluster", "read_from")
    return [Wanted(cluster, devices, from_ms(max(start, 0)).date()) for cluster, start, devices in grouped.iter_rows()]
