"""How well a job scales: runs of one name at several sizes, by what each GPU got done.

Work is what the loops measured themselves where they did (tokens, else samples, per second and GPU); else the activity
of the tensor pipes, which for one program follows the arithmetic that it gets done; else that of the SMs, which a
waiting kernel keeps a little busy too, so that it flatters large runs.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from pipelines.analysis.signatures import THRESHOLDS
from pipelines.instants import HOUR_MS

SCALING: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "user": pl.String(),
    "name": pl.String(),  # of the job, or namespace/pod without what its controller put behind it
    "devices": pl.Int64(),
    "runs": pl.Int64(),
    "gpu_hours": pl.Float64(),  # observed and not idle
    "measure": pl.String(),  # tokens | samples (per second and GPU) | tensor | sm (activity)
    "per_gpu": pl.Float64(),
    "efficiency": pl.Float64(),  # per_gpu, of that of the runs on the fewest devices
}
"""grain: tenant × user × job name × size; of names that ran at two sizes or more."""

WORK: Final = ("cluster", "workload")
_MEASURES: Final = ("tokens", "samples", "tensor", "sm")
_SUFFIX: Final = r"(-\d+|-[bcdfghjklmnpqrstvwxz2456789]{5})+$"
"""What Kubernetes' controllers put behind a pod's name: an index, or five random letters without vowels."""


def scaling(windows: pl.DataFrame, training: pl.DataFrame, names: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Return SCALING.

    Args:
        windows: WINDOW.
        training: ``training.PROGRESS``: what loops measured.
        names: ``facts.RUN_NAME``.
        owners: ``cluster``, ``workload``, ``tenant``, ``user`` of each workload.
    """
    runs = _runs(windows, training).join(names.unique(WORK), on=list(WORK), how="left").join(owners, on=list(WORK))
    runs = runs.with_columns(name=pl.coalesce("name", pl.col("workload").str.replace(_SUFFIX, "")))
    job = ["tenant", "user", "name"]
    sizes = (
        runs.group_by(*job, "devices")
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            *((pl.col(m) * pl.col("ms")).sum() / _known(m) for m in _MEASURES),
            gpu_hours=pl.col("ms").sum() / HOUR_MS,
        )
        .filter(pl.len().over(job) > 1)
    )
    chosen = _measure(job)
    return (
        sizes.with_columns(measure=chosen)
        .filter(pl.col("measure").is_not_null())
        .with_columns(per_gpu=pl.coalesce(pl.when(pl.col("measure") == m).then(m) for m in _MEASURES))
        .sort(*job, "devices", nulls_last=True)
        .with_columns(efficiency=pl.col("per_gpu") / pl.col("per_gpu").first().over(job))
        .select(pl.col(c).cast(t) for c, t in SCALING.items())
        .with_columns(pl.col("per_gpu", "efficiency", "gpu_hours").round_sig_figs(6))
    )


def _known(measure: str) -> pl.Expr:
    return pl.when(pl.col(measure).is_not_null()).then("ms").sum()


def _measure(job: list[str]) -> pl.Expr:
    """Return the first measure that is known at every size of a job; tensor pipes only where they are used."""
    chosen = pl.lit(None, pl.String)
    for measure in reversed(_MEASURES):
        least = THRESHOLDS["tensor_none"].value if measure == "tensor" else 0.0
        usable = (pl.col(measure).fill_nan(None) > least).fill_null(value=False).all().over(job)
        chosen = pl.when(usable).then(pl.lit(measure)).otherwise(chosen)
    return chosen


def _runs(windows: pl.DataFrame, training: pl.DataFrame) -> pl.DataFrame:
    """grain: workload; its size, its working time and each measure of work per GPU, over that time."""
    worked = windows.with_columns(ms=pl.col("observed_ms") - pl.col("idle_ms")).filter(pl.col("ms") > 0)
    sums = worked.group_by(WORK).agg(
        pl.col("devices").max(),
        *((pl.col(m) * pl.col("ms")).sum() / _known(m) for m in ("tensor", "sm")),
        pl.col("ms").sum(),
    )
    counts = ("tokens", "samples")
    of_rank = training.group_by(*WORK, "run", "rank").agg(
        *(pl.when(pl.col(c).is_not_null().any()).then(pl.col(c).sum()).alias(c) for c in counts),
        seconds=(pl.col("last").max() - pl.col("first").min()) / 1000,
    )
    rates = (
        of_rank.filter(pl.col("seconds") > 0).group_by(WORK).agg((pl.col(c) / pl.col("seconds")).mean() for c in counts)
    )
    return sums.join(rates, on=list(WORK), how="left")
