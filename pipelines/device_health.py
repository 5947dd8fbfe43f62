"""What devices say of their own health: XID errors, the driver's recovery action, memory that can't be repaired.

All of it is evidence, and makes a device degraded: whether it is down, which nobody pays for, is said by those who
take it out of use (a scheduler, the calendar, an allocations file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from exporter.xid import xid_class
from pipelines.health import Spell

_ACTIONS: Final = {1: "reset the GPU", 2: "reboot the node", 3: "drain peer-to-peer", 4: "drain and reset"}
_XID_MENDS: Final = {
    "restart_node": "restart the node",
    "reset_gpu": "reset the GPU",
    "workflow": "follow NVIDIA's workflow",
}
_WATCHED: Final = ("xid_last_code", "recovery_action", "row_remap_failed", "row_remap_pending", "retired_pages_pending")
_GONE_MS: Final = 600_000  # a card that its node's others have outlived by so much is missing


class DeviceWatch:
    """Looks at samples as they pass by."""

    def __init__(self) -> None:
        self._runs: list[pl.DataFrame] = []
        self._last: list[pl.DataFrame] = []

    def over(self, pieces: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the pieces as they are; all of a card is in one of them."""
        for samples in pieces:
            if samples.height:
                self._look(samples)
            yield samples

    def spells(self) -> list[Spell]:
        """Return what the devices said, once all pieces have passed."""
        return sorted([*self._said(), *self._missing()], key=lambda spell: (spell.start, str(spell)))

    def _look(self, samples: pl.DataFrame) -> None:
        cards = ["cluster", "device"]
        self._last.append(
            samples.group_by(cards).agg(pl.col("node").drop_nulls().last(), last=pl.col("time").max().dt.epoch("ms"))
        )
        for column in _WATCHED:
            if column not in samples.columns or samples[column].is_null().all():
                continue
            told = (
                samples.filter(pl.col(column).is_not_null() & pl.col(column).is_not_nan())
                .group_by(*cards, "time")
                .agg(pl.col(column).max().cast(pl.Int64).alias("value"), pl.col("node").first())
                .sort(*cards, "time")
            )
            changes = told.filter((pl.col("value") != pl.col("value").shift(1).over(cards)).fill_null(value=True))
            self._runs.append(
                changes.with_columns(
                    start=pl.col("time").dt.epoch("ms"), end=pl.col("time").shift(-1).over(cards).dt.epoch("ms"),
                    metric=pl.lit(column),
                ).filter(pl.col("value") > 0)
            )  # fmt: skip

    def _said(self) -> Iterator[Spell]:
        for runs in self._runs:
            for row in runs.iter_rows(named=True):
                reason = _reason(row["metric"], row["value"])
                if reason is not None:
                    told = (row["cluster"], row["node"], row["device"])
                    yield Spell(*told, "degraded", reason, "device", row["start"], row["end"])

    def _missing(self) -> Iterator[Spell]:
        """Yield cards that are no longer seen though their node still is."""
        if not self._last:
            return
        cards = pl.concat(self._last).group_by("cluster", "device").agg(pl.col("node").last(), pl.col("last").max())
        seen = cards.filter(pl.col("node").is_not_null()).with_columns(
            until=pl.col("last").max().over("cluster", "node")
        )
        for row in (
            seen.filter(pl.col("until") - pl.col("last") > _GONE_MS).sort("last", "device").iter_rows(named=True)
        ):
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
