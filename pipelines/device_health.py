"""What devices say of their own health: XID errors, the driver's recovery action, memory that can't be repaired.

All of it is evidence, and makes a device degraded: whether it is down, which nobody pays for, is said by those who
take it out of use (a scheduler, the calendar, an allocations file).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from exporter.xid import xid_class
from pipelines.health import Spell
from pipelines.quality import CODES
from pipelines.series import Ints, runs_of

_ACTIONS: Final = {1: "reset the GPU", 2: "reboot the node", 3: "drain peer-to-peer", 4: "drain and reset"}
_XID_MENDS: Final = {
    "restart_node": "restart the node",
    "reset_gpu": "reset the GPU",
    "workflow": "follow NVIDIA's workflow",
}
_WATCHED: Final = ("xid_last_code", "recovery_action", "row_remap_failed", "row_remap_pending", "retired_pages_pending")
_GONE_MS: Final = 600_000  # a card that its node's others have outlived by so much is missing


TROUBLE: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "device": pl.String(),  # the card
    "metric": pl.String(),
    "t": pl.Int64(),  # ms
    "value": pl.Int64(),
    "node": pl.String(),
}
"""grain: card × metric × change of its value, to none too."""


def troubles(samples: pl.DataFrame) -> pl.DataFrame:
    """Return what samples (all of each card, from some time on) say of their devices' health: TROUBLE."""
    found = [pl.DataFrame(schema=TROUBLE)]
    cards = ["cluster", "device"]
    watched = [c for c in _WATCHED if c in samples.columns and samples[c].null_count() < samples.height]
    runs = runs_of(samples, cards) if watched else None
    for column in watched:
        least, total = samples.select(least=pl.col(column).min(), total=pl.col(column).sum()).row(0)
        rows = samples.select(*cards, "node", t=pl.col("time").dt.epoch("ms"), value=column)
        if samples[column].null_count() or not (least >= 0 and total < CODES):
            rows = rows.filter(pl.col("value").is_finite() & (pl.col("value").abs() < CODES))
        told = (
            _telling(rows, runs if runs is not None and rows.height == samples.height else runs_of(rows, cards))
            .group_by(*cards, "t")
            .agg(pl.col("value").max().cast(pl.Int64), pl.col("node").min())
            .with_columns(metric=pl.lit(column))
        )
        found.append(changes(told.select(list(TROUBLE))))
    return pl.concat(found)


def _telling(rows: pl.DataFrame, card_runs: tuple[Ints, Ints]) -> pl.DataFrame:
    """Return the rows that matter: most cards say the same all the time, and of them the first scrape tells all.

    Args:
        rows: ``cluster``, ``device``, ``node``, ``t``, ``value``.
        card_runs: where runs of rows of one card begin, and how long they are.
    """
    if rows.is_empty():
        return rows
    card = ["cluster", "device"]
    starts, lengths = card_runs
    t, value = rows["t"].to_numpy(), rows["value"].to_numpy()
    runs = rows[starts].select(
        *card,
        first=pl.Series(np.minimum.reduceat(t, starts)),
        least=pl.Series(np.minimum.reduceat(value, starts)),
        most=pl.Series(np.maximum.reduceat(value, starts)),
    )
    spans = runs.group_by(card).agg(pl.col("first").min(), steady=pl.col("least").min() == pl.col("most").max())
    spans = runs.select(card).join(spans, on=card, nulls_equal=True, how="left", maintain_order="left")
    steady, first = (np.repeat(spans[name].to_numpy(), lengths) for name in ("steady", "first"))
    return rows.filter(pl.Series(~steady | (t == first)))


def changes(told: pl.DataFrame) -> pl.DataFrame:
    """Return of TROUBLE the rows whose value is another than that before."""
    key = ["cluster", "device", "metric"]
    ordered = told.sort(*key, "t")
    return ordered.filter((pl.col("value") != pl.col("value").shift(1).over(key)).fill_null(value=True))


def device_spells(told: pl.DataFrame, devices: pl.DataFrame) -> list[Spell]:
    """Return what devices say of their health, in the order of time.

    Args:
        told: TROUBLE.
        devices: ``cluster``, ``device``, ``node`` (of cards), ``seen`` (ms of the last sample).
    """
    return sorted([*_said(told), *_missing(devices)], key=lambda spell: (spell.start, str(spell)))


def _said(told: pl.DataFrame) -> Iterator[Spell]:
    key = ["cluster", "device", "metric"]
    runs = told.sort(*key, "t").with_columns(end=pl.col("t").shift(-1).over(key)).filter(pl.col("value") > 0)
    for row in runs.iter_rows(named=True):
        reason = _reason(row["metric"], row["value"])
        if reason is not None:
            yield Spell(row["cluster"], row["node"], row["device"], "degraded", reason, "device", row["t"], row["end"])


def _missing(devices: pl.DataFrame) -> Iterator[Spell]:
    """Yield cards that are no longer seen though their node still is."""
    cards = devices.group_by("cluster", "device").agg(pl.col("node").drop_nulls().last(), last=pl.col("seen").max())
    seen = cards.filter(pl.col("node").is_not_null()).with_columns(until=pl.col("last").max().over("cluster", "node"))
    gone = seen.filter(pl.col("until") - pl.col("last") > _GONE_MS).sort("last", "device")
    for row in gone.iter_rows(named=True):
        told = (row["cluster"], row["node"], row["device"])
        yield Spell(*told, "degraded", "no longer seen, though its node is", "device", row["last"], None)


def _reason(metric: str, value: int) -> str | None:
    """What a value means; None: nothing is wrong with the device for it."""
    if metric == "xid_last_code":
        mend = _XID_MENDS.get(xid_class(value))
        # An application's own fault, or mere information, is no trouble of the card's.
        return None if mend is None else f"XID {value}: {mend}"
    if metric == "recovery_action":
        return f"the driver asks to {_ACTIONS.get(value, f'recover it (action {value})')}"
    return {
        "row_remap_failed": "a row of its memory can't be remapped: replace the board",
        "row_remap_pending": "a row of its memory waits to be remapped: reset the GPU",
    }.get(metric, "memory pages wait to be retired: reset the GPU")
