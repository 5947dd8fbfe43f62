"""Joins what was known of cards with what their newest samples show, at a midnight that parts the two exactly.

Samples are read again from some days before the first changed one: the days up to the seam give the newer ones their
history (how long a value stands, which counter moved, who was named last), the days from the seam on are taken anew.
A card where that history doesn't suffice is told by `unsettled`, and is read from further back.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from pipelines.device_health import changes
from pipelines.observations import joined
from pipelines.series import DEVICE_KEY
from pipelines.shown import CARD_KEY, TABLES, Shown, Tables

ALL: Final = -(1 << 60)
"""A seam before everything: nothing of what was known stays."""

SEAM: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "device": pl.String(),
    "read_from": pl.Int64(),  # ms, UTC midnight: samples were read from here on
    "seam": pl.Int64(),  # what is shown from here on is taken anew
    "changed": pl.Int64(),  # the first day with new samples
}
"""grain: card; read_from < seam < changed."""

_POD: Final = [*DEVICE_KEY, "namespace", "pod"]
_RUN: Final = [*DEVICE_KEY, "labelled_as", "record_start"]


def spliced(kept: Tables, new: Tables, seams: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return TABLES of all cards: of those with a seam (SEAM) what was known before it and is new after it."""
    seam = seams.select(*CARD_KEY, "seam")
    others, old, fresh = {}, {}, {}
    for name in TABLES:
        others[name] = kept[name].join(seam, on=CARD_KEY, how="anti", nulls_equal=True)
        old[name] = kept[name].join(seam, on=CARD_KEY, nulls_equal=True).filter(pl.col("seam") > ALL)
        fresh[name] = new[name].join(seam, on=CARD_KEY, nulls_equal=True)
    parted = {
        name: pl.concat([old[name].filter(pl.col(t) < pl.col("seam")), fresh[name].filter(pl.col(t) >= pl.col("seam"))])
        for name, t in (("shown_slices", "t"), ("shown_layout", "t"), ("shown_trouble", "t"))
    }
    both = {name: pl.concat([old[name], fresh[name]]) for name in TABLES}
    made = {
        **parted,
        "shown_trouble": changes(parted["shown_trouble"]),
        "shown_device": _devices(both["shown_device"]),
        "shown_stream": both["shown_stream"].unique([*CARD_KEY, "replica", "scrape_job", "node"]),
        "shown_label": both["shown_label"].group_by(*_POD, "said_uid", "job").agg(pl.col("first").min()),
        "shown_presence": _presence(old["shown_presence"], fresh["shown_presence"]),
        "shown_run": _runs(old["shown_run"], fresh["shown_run"]),
        "shown_named": _named(old["shown_named"], fresh["shown_named"]),
        "shown_finding": pl.concat(
            [
                old["shown_finding"].filter(pl.col("end") <= pl.col("seam")),
                fresh["shown_finding"].filter(pl.col("end") > pl.col("seam")),
            ]
        ),
    }
    return {name: pl.concat([others[name], made[name].select(list(schema))]) for name, schema in TABLES.items()}


def _devices(both: pl.DataFrame) -> pl.DataFrame:
    """Return devices with their newest names; `both` has what was known first."""
    newest = [pl.col(c).drop_nulls().last() for c in ("own_model", "any_model", "node")]
    return both.group_by(DEVICE_KEY, maintain_order=True).agg(
        *newest, pl.col("first").min(), pl.col("last", "seen").max(), pl.col("counter", "xid").any()
    )


def _presence(old: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    before = old.with_columns(end=pl.min_horizontal("end", "seam"))
    after = fresh.with_columns(start=pl.max_horizontal("start", "seam"))
    pieces = pl.concat([before, after]).filter(pl.col("start") < pl.col("end"))
    ordered = pieces.drop("seam").sort(*DEVICE_KEY, "start").with_columns(dev=pl.struct(DEVICE_KEY).rle_id())
    return joined(ordered).drop("dev")


def _runs(old: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Return runs that begin before the seam as they were known, the last of each as long as it is known to be now."""
    before = old.filter(pl.col("first") < pl.col("seam"))
    across = (
        fresh.filter(pl.col("first") < pl.col("seam")).sort("first").group_by(DEVICE_KEY).agg(now=pl.col("end").last())
    )
    newest = pl.col("first") == pl.col("first").max().over(DEVICE_KEY)
    before = before.join(across, on=DEVICE_KEY, how="left", nulls_equal=True).with_columns(
        end=pl.when(newest).then(pl.coalesce("now", "end")).otherwise("end")
    )
    return pl.concat([before.drop("now"), fresh.filter(pl.col("first") >= pl.col("seam"))])


def _named(old: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    before = old.filter(pl.col("first") < pl.col("seam"))
    return (
        pl.concat([before, fresh]).group_by(_RUN, maintain_order=True).agg(pl.col("first").min(), pl.col("last").last())
    )


def whole(shown: Tables, kept: Tables, seams: pl.DataFrame) -> pl.DataFrame:
    """Return SEAM with the seams of cards whose every sample was read put before everything."""
    known = kept["shown_device"].group_by(CARD_KEY).agg(pl.col("first").min())
    cards = shown["shown_device"].select(CARD_KEY).unique()
    mine = seams.join(cards, on=CARD_KEY, how="semi", nulls_equal=True)
    told = mine.join(known, on=CARD_KEY, how="left", nulls_equal=True)
    all_read = pl.col("first").is_null() | (pl.col("first") >= pl.col("read_from"))
    return told.with_columns(seam=pl.when(all_read).then(ALL).otherwise("seam")).select(list(SEAM))


def unsettled(shown: Shown, kept: Tables, seams: pl.DataFrame) -> pl.DataFrame:
    """Return the cards (CARD_KEY) for which what was read doesn't suffice to say what their newest samples show.

    Args:
        kept: what is known of the cards.
        seams: SEAM of cards in `shown` of which not all samples were read.
    """
    cards = shown.scrapes.devices.filter(pl.col("instance").is_null()).select(*CARD_KEY, card="dev")
    seam = seams.join(cards, on=CARD_KEY, nulls_equal=True)
    known = {
        name: rows.join(seam.select(*CARD_KEY, "card", "seam", "read_from"), on=CARD_KEY, nulls_equal=True)
        for name, rows in kept.items()
    }
    new = {name: rows.join(seam.select(*CARD_KEY, "card"), on=CARD_KEY) for name, rows in shown.tables.items()}
    doubted = [
        _recorded_by_several(known, new),
        _named_two_ways(known, new),
        _long_unseen(shown, known, seam),
        _still(shown, known, seam),
        _xid_unread(shown, known, seam),
        _contradicting(shown, seam),
        _shorter(known, new),
    ]
    doubtful = pl.concat([d.select(pl.col("card").cast(pl.Int32)) for d in doubted]).unique()
    return seam.join(doubtful, on="card", how="semi").select(CARD_KEY)


def _recorded_by_several(known: Tables, new: Tables) -> pl.DataFrame:
    """Cards of several replicas: a hole is filled on the grid of the first by name, however far back."""
    key = ["card", "replica", "scrape_job", "node"]
    both = pl.concat([known["shown_stream"].select(key), new["shown_stream"].select(key)]).unique()
    return both.group_by("card").len().filter(pl.col("len") > 1)


def _named_two_ways(known: Tables, new: Tables) -> pl.DataFrame:
    """Pods that some samples name by UID and some by name alone: they are one pod only where there is one UID."""
    key = ["card", *_POD, "said_uid"]
    both = pl.concat([known["shown_label"].select(key), new["shown_label"].select(key)])
    mixed = (
        both.filter(pl.col("pod").is_not_null())
        .group_by("card", *_POD)
        .agg(some=pl.col("said_uid").is_not_null().any(), none=pl.col("said_uid").is_null().any())
        .filter(pl.col("some") & pl.col("none"))
    )
    return mixed.join(new["shown_label"], on=_POD, how="semi", nulls_equal=True)


def _long_unseen(shown: Shown, known: Tables, seam: pl.DataFrame) -> pl.DataFrame:
    """Devices with new samples that have none just before the seam, or none between it and the change."""
    times = shown.seen.timeline.join(shown.scrapes.devices.select("dev", *DEVICE_KEY, "card"), on="dev").join(
        seam.select("card", "seam", "changed"), on="card"
    )
    t = pl.col("t")
    seen = times.group_by("dev", *DEVICE_KEY, "card").agg(
        before=(t < pl.col("seam")).any(),
        between=((t >= pl.col("seam")) & (t < pl.col("changed"))).any(),
        after=(t >= pl.col("changed")).any(),
    )
    older = known["shown_device"].filter(pl.col("first") < pl.col("read_from")).select(DEVICE_KEY)
    return seen.join(older, on=DEVICE_KEY, how="semi", nulls_equal=True).filter(
        pl.col("after") & ~(pl.col("before") & pl.col("between"))
    )


def _moved(shown: Shown, seam: pl.DataFrame) -> pl.DataFrame:
    """Return where energy counters move: ``card``, ``t``, ``seam``, ``changed``."""
    value = pl.col("energy_joules_total")
    counter = shown.scrapes.board.filter(value.is_not_null()).sort("card", "t")
    return (
        counter.filter((value != value.shift(1).over("card")).fill_null(value=False))
        .select("card", "t")
        .join(seam.select("card", "seam", "changed"), on="card")
    )


def _still(shown: Shown, known: Tables, seam: pl.DataFrame) -> pl.DataFrame:
    """Cards with a counter that doesn't move both before and after the seam: they may be frozen since long ago."""
    read = shown.scrapes.board.filter(pl.col("energy_joules_total").is_not_null()).select("card").unique()
    had = known["shown_device"].filter("counter").select("card")
    t = pl.col("t")
    moves = (
        _moved(shown, seam)
        .group_by("card")
        .agg(
            before=(t < pl.col("seam")).any(),
            between=((t >= pl.col("seam")) & (t < pl.col("changed"))).any(),
        )
        .filter(pl.col("before") & pl.col("between"))
    )
    counted = pl.concat([read, had]).unique().join(seam, on="card", how="semi")
    # A counter that is new turns power × time into its own increments, from the card's first sample on.
    first_ever = read.join(seam, on="card", how="semi").join(had, on="card", how="anti")
    return pl.concat([counted.join(moves, on="card", how="anti"), first_ever])


def _xid_unread(shown: Shown, known: Tables, seam: pl.DataFrame) -> pl.DataFrame:
    """Cards whose XID gauge was not read just before the seam: the code then says if one after it is another."""
    had = known["shown_device"].filter("xid").select("card")
    read = shown.scrapes.xids.join(seam.select("card", "seam"), on="card").filter(pl.col("t") < pl.col("seam"))
    return had.join(read, on="card", how="anti")


def _contradicting(shown: Shown, seam: pl.DataFrame) -> pl.DataFrame:
    """Devices whose engine reads 0 against GPU_UTIL, without a sample just before the seam where it doesn't."""
    moved = _moved(shown, seam).group_by("card").agg(since=pl.col("t").min())
    rows = (
        shown.scrapes.series.filter("busy_seen")
        .join(shown.scrapes.devices.select("dev", "card"), on="dev")
        .join(seam.select("card", "seam"), on="card")
        .join(moved, on="card", how="left")
    )
    against = ((pl.col("engine_active_ratio") == 0) & (pl.col("gpu_util_ratio") > 0)).fill_null(value=False)
    believed = pl.col("since").is_null() | (pl.col("t") >= pl.col("since"))
    return (
        rows.filter(pl.col("t") < pl.col("seam"))
        .group_by("card", "dev")
        .agg(against=against.any(), otherwise=(believed & ~against).any())
        .filter(pl.col("against") & ~pl.col("otherwise"))
    )


def _shorter(known: Tables, new: Tables) -> pl.DataFrame:
    """Cards with a scheduler's run whose labels are not there any more: it may have got shorter."""
    spanning = known["shown_named"].filter((pl.col("first") < pl.col("seam")) & (pl.col("last") >= pl.col("read_from")))
    return spanning.join(new["shown_named"], on=_RUN, how="anti", nulls_equal=True)
