"""Samples whose clock was wrong: they would stretch what a ledger covers by years."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Final

import polars as pl

from pipelines.sources.tally import Tally
from pipelines.tables import Batch

_APART: Final = timedelta(days=366)
_MOST: Final = 0.01
REASON: Final = "sample over a year away from all others (a clock that was wrong?)"


def stray_days(days: pl.DataFrame) -> list[date]:
    """Return the days of samples that lie over a year from the others and are at most a hundredth of all.

    Args:
        days: ``day`` and ``len``, how many samples it has.
    """
    ordered = days.sort("day").with_columns(
        island=(pl.col("day").diff() > _APART).fill_null(value=False).cum_sum(),
    )
    sizes = ordered.group_by("island").agg(pl.col("len").sum())
    few = sizes.filter(pl.col("len") <= _MOST * pl.col("len").sum()).select("island")
    return ordered.join(few, on="island", how="semi", maintain_order="left")["day"].to_list()


def without_strays(batch: Batch, tally: Tally) -> Batch:
    """Return a batch without stray samples, which are counted."""
    days = batch.samples.group_by(day=pl.col("time").dt.date()).len()
    strays = stray_days(days) if days.height > 1 else []
    if not strays:
        return batch
    kept = batch.samples.filter(~pl.col("time").dt.date().is_in(strays))
    tally.add(REASON, count=batch.samples.height - kept.height)
    return replace(batch, samples=kept, findings=tally.findings())
