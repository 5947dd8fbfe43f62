"""Training progress per workload and rank: what steps, tokens and epochs cost, and how long loops waited for data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import polars as pl

from exporter.training_metrics import TRAINING_METRICS
from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval

COUNTED: Final = tuple(m.key for m in TRAINING_METRICS if m.kind == "counter")
GAUGES: Final = ("mfu_ratio", "peak_flops", "world_size")

PROGRESS: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "workload": pl.String(),  # as leases call it
    "run": pl.String(),
    "rank": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "hour": pl.Int64(),  # ms
    "first": pl.Int64(),  # what the counts are since
    "last": pl.Int64(),
    **dict.fromkeys((*COUNTED, *GAUGES), pl.Float64()),
}
"""grain: rank's process × UTC hour; counts are of that hour (of the first one: since the process began)."""


def progress(training: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Return PROGRESS of what was imported.

    Args:
        training: ``facts.TRAINING``: totals since each process began.
        records: ``tables.RECORD``, which says what a labelled job is called.
    """
    if training.is_empty():
        return pl.DataFrame(schema=PROGRESS)
    process = ["cluster", "labelled_as", "run", "rank", "node", "device", "start"]
    named = records.filter(pl.col("kind") == "slurm").unique("labelled_as", keep="first", maintain_order=True)
    hour = pl.col("at").dt.epoch("ms") // HOUR_MS * HOUR_MS
    last = (
        training.with_columns(hour=hour, last=pl.col("at").dt.epoch("ms"))
        .sort(*process, "at")
        .group_by(*process, "hour", maintain_order=True)
        .agg(pl.col("last").last(), *(pl.col(c).drop_nulls().last() for c in (*COUNTED, *GAUGES)))
        .sort(*process, "hour")
    )
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in process)
    began = pl.coalesce(pl.col("start").dt.epoch("ms"), "hour")
    return (
        last.with_columns(
            *(_increase(c, same) for c in COUNTED), first=pl.when(same).then(pl.col("last").shift(1)).otherwise(began)
        )
        .join(named.select("labelled_as", called="workload"), on="labelled_as", how="left", maintain_order="left")
        .with_columns(workload=pl.coalesce("called", "labelled_as"))
        .select(pl.col(c).cast(t) for c, t in PROGRESS.items())
    )


def _increase(key: str, same: pl.Expr) -> pl.Expr:
    """Return what was counted since the row before; all of it at the first, and where counting began anew."""
    before = pl.when(same).then(pl.col(key).shift(1).fill_null(0.0)).otherwise(0.0)
    grown = pl.col(key) - before
    return pl.when(grown >= 0).then(grown).otherwise(key).alias(key)


@dataclass(frozen=True)
class Progress:
    """What a workload's loops did in a period; None: nobody measured it.

    Attributes:
        steps, epochs: of the rank that did most: all ranks do the same steps.
        samples, tokens, flops: over all ranks.
        step_seconds: mean per step.
        waits, communicates: shares of the loops' time; communication may be hidden behind work.
        mfu: mean over time and ranks.
        ranks: how many told of themselves.
    """

    runs: tuple[str, ...]
    ranks: int
    steps: float
    epochs: float | None
    samples: float | None
    tokens: float | None
    flops: float | None
    step_seconds: float | None
    waits: float | None
    communicates: float | None
    checkpoints: float | None
    mfu: float | None
    slowest_rank: str | None

    def costs(self, cost: Decimal) -> Mapping[str, Decimal | None]:
        """Return what a step, a million tokens, a thousand samples and an epoch cost, exactly as far as Decimal goes.

        Args:
            cost: of the workload in the same period: waiting and start-up are part of what a step costs.
        """

        def per(amount: float | None, unit: int) -> Decimal | None:
            return cost * unit / Decimal(repr(amount)) if amount else None

        return {
            "step": per(self.steps, 1),
            "million_tokens": per(self.tokens, 1_000_000),
            "thousand_samples": per(self.samples, 1_000),
            "epoch": per(self.epochs, 1),
        }


def progress_of(training: pl.DataFrame, cluster: str, workload: str, within: Interval | None = None) -> Progress | None:
    """Return what one workload's loops did; None: none told of itself.

    Args:
        training: PROGRESS.
    """
    mine = training.filter((pl.col("cluster") == cluster) & (pl.col("workload") == workload))
    if within is not None:
        mine = mine.filter((pl.col("last") > within[0]) & (pl.col("first") < within[1]))
    if mine.is_empty():
        return None
    ranks = mine.group_by("run", "rank", maintain_order=True).agg(pl.col(c).sum() for c in ("steps", "epochs"))
    seconds = {key: _sum(mine, key) for key in COUNTED}
    steps = float(ranks.select(pl.col("steps").max()).item())
    loop = (seconds["step_seconds"] or 0.0) + (seconds["data_wait_seconds"] or 0.0)
    all_steps = _sum(mine, "steps") or 0.0
    lasted = mine.filter(pl.col("mfu_ratio").is_not_null()).with_columns(ms=pl.col("last") - pl.col("first"))
    return Progress(
        runs=tuple(mine["run"].drop_nulls().unique().sort()),
        ranks=ranks["rank"].n_unique(),
        steps=steps,
        epochs=None if seconds["epochs"] is None else float(ranks.select(pl.col("epochs").max()).item()),
        samples=seconds["samples"],
        tokens=seconds["tokens"],
        flops=seconds["floating_point_operations"],
        step_seconds=seconds["step_seconds"] / all_steps if seconds["step_seconds"] is not None and all_steps else None,
        waits=_part(seconds["data_wait_seconds"], loop),
        communicates=_part(seconds["communication_seconds"], loop),
        checkpoints=_part(seconds["checkpoint_seconds"], loop + (seconds["checkpoint_seconds"] or 0.0)),
        mfu=lasted.select((pl.col("mfu_ratio") * pl.col("ms")).sum() / pl.col("ms").sum()).item()
        if lasted.height and lasted["ms"].sum()
        else None,
        slowest_rank=_slowest(mine),
    )


def _sum(rows: pl.DataFrame, key: str) -> float | None:
    known = rows[key].drop_nulls()
    return float(known.sum()) if len(known) else None


def _part(seconds: float | None, loop: float) -> float | None:
    return seconds / loop if seconds is not None and loop else None


_SLOWER: Final = 1.1
"""Step time of a rank, of the others' median, from which it is named."""


def _slowest(rows: pl.DataFrame) -> str | None:
    """Return the rank whose steps take longest, where there are three and it is clearly slower than the median."""
    known = rows.filter(pl.col("step_seconds").is_not_null() & (pl.col("steps") > 0))
    per = known.group_by("rank").agg(pl.col("step_seconds").sum() / pl.col("steps").sum()).sort("step_seconds")
    if per.height < 3:
        return None
    last = per.row(-1)
    median = per.select(pl.col("step_seconds").median()).item()
    return str(last[0]) if last[1] >= _SLOWER * median else None
