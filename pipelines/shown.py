"""What samples show of cards, as tables: small, without numbers that mean something in one pass only.

It is what is kept of the samples between passes. Stamped observations are not: they are as many as the samples, and
made again for the days that need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from pipelines.device_health import TROUBLE, troubles
from pipelines.findings import FINDING
from pipelines.fleet import layout_changes
from pipelines.observations import Observations, observe
from pipelines.owners import runs_from_labels
from pipelines.quality import Scrapes, clean
from pipelines.series import DEVICE_KEY, runs_of

CARD_KEY: Final = ["cluster", "device"]
_CARD: Final[dict[str, pl.DataType]] = dict.fromkeys(CARD_KEY, pl.String())
_DEVICE: Final[dict[str, pl.DataType]] = dict.fromkeys(DEVICE_KEY, pl.String())

TABLES: Final[Mapping[str, dict[str, pl.DataType]]] = {
    # grain: device (a card always has a row)
    "shown_device": {
        **_DEVICE,
        "own_model": pl.String(),
        "any_model": pl.String(),
        "node": pl.String(),  # of the card: the newest
        "first": pl.Int64(),  # its first sample; null: the card is only seen by its instances
        "last": pl.Int64(),  # its last one's reach
        "seen": pl.Int64(),  # its last one
        "counter": pl.Boolean(),  # of the card: an energy counter was ever read
        "xid": pl.Boolean(),  # of the card: an XID gauge was ever read
    },
    # grain: replica, scrape job and host name that recorded a card
    "shown_stream": {**_CARD, **dict.fromkeys(("replica", "scrape_job", "node"), pl.String())},
    # grain: owner that labels of a device name, as they name it
    "shown_label": {
        **_DEVICE,
        **dict.fromkeys(("namespace", "pod", "said_uid", "job"), pl.String()),
        "first": pl.Int64(),
    },
    # grain: stretch in which a device was observed
    "shown_presence": {**_DEVICE, "start": pl.Int64(), "end": pl.Int64()},
    # grain: change of the number of slices that are seen and name no owner
    "shown_slices": {**_DEVICE, "t": pl.Int64(), "count": pl.Int64()},
    # grain: run of scrapes that name the same owners
    "shown_run": {**_DEVICE, "first": pl.Int64(), "end": pl.Int64(), "node": pl.String(), "named": pl.String()},
    # grain: device × run of a scheduler's workload that it is labelled with
    "shown_named": {
        **_DEVICE,
        "labelled_as": pl.String(),
        "record_start": pl.Int64(),
        "first": pl.Int64(),
        "last": pl.Int64(),
    },
    # grain: device × scrape at an edge of equal layouts
    "shown_layout": {**_DEVICE, "t": pl.Int64(), "reach": pl.Int64()},
    # grain: change of what a card says of its health
    "shown_trouble": TROUBLE,
    # grain: finding of a card
    "shown_finding": {**_CARD, **FINDING},
}

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Reading:
    """How samples are read: the configuration's scrape interval (None: inferred) and pods that hold nothing."""

    interval_ms: int | None
    exporter_pods: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """What the samples of some cards show: TABLES, and what those were made from."""

    tables: Tables
    scrapes: Scrapes
    seen: Observations


def nothing() -> dict[str, pl.DataFrame]:
    """Return TABLES, empty."""
    return {name: pl.DataFrame(schema=schema) for name, schema in TABLES.items()}


def observed(samples: pl.DataFrame, reading: Reading) -> tuple[Scrapes, Observations]:
    """Return what is left of samples (`show`), and what that observes."""
    scrapes = clean(samples, exporter_pods=reading.exporter_pods, interval_ms=reading.interval_ms)
    return scrapes, observe(scrapes, reading.interval_ms)


def show(samples: pl.DataFrame, reading: Reading, scheduled: pl.DataFrame) -> Shown:
    """Return what samples show.

    Args:
        samples: wide; all of the cards in it, from some UTC midnight on.
        scheduled: the schedulers' runs (``cluster``, ``labelled_as``, ``start``, ``end`` in ms).
    """
    scrapes, seen = observed(samples, reading)
    runs, named = runs_from_labels(scrapes, seen, scheduled)
    free = pl.col("free_slices").cast(pl.Int64)
    before = pl.when(pl.col("dev") == pl.col("dev").shift(1)).then(free.shift(1))  # sorted by device and time
    found = pl.concat(seen.findings)
    by_device = {
        "shown_device": _devices(scrapes, seen),
        "shown_label": scrapes.labels.filter(pl.col("pod").is_not_null() | pl.col("job").is_not_null())
        .group_by("dev", "namespace", "pod", "said_uid", "job")
        .agg(pl.col("first").min()),
        "shown_presence": seen.presence,
        "shown_slices": seen.timeline.filter(free.ne_missing(before.fill_null(0))).select("dev", "t", count=free),
        "shown_run": runs,
        "shown_named": named,
        "shown_layout": layout_changes(scrapes.devices, seen.timeline),
    }
    by_card = {"shown_stream": scrapes.labels.unique(["card", "replica", "scrape_job", "node"]), "shown_finding": found}
    tables = {
        "shown_trouble": troubles(samples),
        **{name: _keyed(rows, scrapes, "dev", TABLES[name]) for name, rows in by_device.items()},
        **{name: _keyed(rows, scrapes, "card", TABLES[name]) for name, rows in by_card.items()},
    }
    return Shown(tables, scrapes, seen)


def _devices(scrapes: Scrapes, seen: Observations) -> pl.DataFrame:
    card_of = scrapes.devices.select("dev", "card")
    newest = pl.col("dev").ne_missing(pl.col("dev").shift(-1))  # sorted by device and time
    node = (
        seen.timeline.filter(pl.col("node").is_not_null())
        .filter(newest)
        .select("dev", "t", "node")
        .join(card_of, on="dev")
        .sort("t", "dev")
        .group_by("card")
        .agg(pl.col("node").last())
    )
    times = _times(seen.timeline)
    counters = scrapes.board.filter(pl.col("energy_joules_total").is_not_null())["card"].unique()
    xids = scrapes.xids["card"].unique()
    whole = pl.col("instance").is_null()
    return (
        scrapes.devices.join(node.rename({"card": "dev"}), on="dev", how="left")
        .join(times, on="dev", how="left")
        .with_columns(
            counter=whole & pl.col("dev").is_in(counters.implode()), xid=whole & pl.col("dev").is_in(xids.implode())
        )
    )


def _times(timeline: pl.DataFrame) -> pl.DataFrame:
    """Return of each device its ``first`` and last (``seen``) scrape, and until when the ``last`` stands.

    Args:
        timeline: sorted by device and time.
    """
    starts, lengths = runs_of(timeline, ["dev"])
    reach = timeline["reach"].to_numpy()
    ends = starts + lengths - 1
    return timeline[starts].select(
        "dev",
        first="t",
        last=pl.Series(np.maximum.reduceat(reach, starts) if len(starts) else reach),
        seen=timeline["t"].gather(ends),
    )


def _keyed(rows: pl.DataFrame, scrapes: Scrapes, number: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Put a device's or a card's key in the place of its number."""
    key = DEVICE_KEY if number == "dev" else CARD_KEY
    if number in rows.columns and not set(key) <= set(rows.columns):
        keys = scrapes.devices.select(pl.col("dev").alias(number), *key)
        rows = rows.join(keys, on=number, how="left", maintain_order="left")
    elif not rows.columns:
        return pl.DataFrame(schema=schema)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
