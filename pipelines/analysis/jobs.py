"""What only a workload as a whole shows: whether a straggler persists, and whether it ever needed the whole card."""

from __future__ import annotations

from typing import Final

import polars as pl

from pipelines.analysis.causes import UNKNOWN
from pipelines.analysis.signatures import THRESHOLDS

WORK: Final = ("cluster", "workload")


def settled(windows: pl.DataFrame) -> pl.DataFrame:
    """Return WINDOW with causes that the rest of their workload's windows contradict turned into unknown.

    - A straggler is the same device in most of the windows that name one.
    - A workload that filled its card, or its SMs, at any time needs the card at all times.
    """
    suspect = pl.col("suspect")
    often = (
        windows.filter(suspect.is_not_null())
        .group_by(*WORK, "suspect")
        .len()
        .with_columns(share=pl.col("len") / pl.col("len").sum().over(WORK))
    )
    persists = often.filter(pl.col("share") >= THRESHOLDS["persistent"].value).select(*WORK, "suspect", same=True)
    peaks = windows.group_by(WORK).agg(most_memory=pl.col("memory_peak").max(), most_sm=pl.col("sm_peak").max())
    joined = windows.join(persists, on=[*WORK, "suspect"], how="left", maintain_order="left").join(
        peaks, on=list(WORK), how="left", maintain_order="left"
    )
    passing = (pl.col("cause") == "straggler") & pl.col("same").is_null()
    needed = (pl.col("cause") == "overprovisioned") & (
        (pl.col("most_memory") >= THRESHOLDS["half_memory"].value) | (pl.col("most_sm") >= THRESHOLDS["half_sm"].value)
    )
    doubtful = (passing | needed).fill_null(value=False)
    return joined.with_columns(
        cause=pl.when(doubtful).then(pl.lit(UNKNOWN)).otherwise("cause"),
        confidence=pl.when(~doubtful).then("confidence"),
        suspect=pl.when(~doubtful).then("suspect"),
    ).select(windows.columns)
