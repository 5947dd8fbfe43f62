"""Summaries of jobs (jobstats' in AdminComment) as evidence of how busy GPUs were whose samples are gone."""

from __future__ import annotations

import polars as pl

from pipelines.observations import PPB
from pipelines.tables import Finding


def with_summaries(
    usage: pl.DataFrame, leases: pl.DataFrame, summaries: pl.DataFrame, findings: list[Finding]
) -> pl.DataFrame:
    """Let a summary stand for the samples of a run's leases where not one of them was ever observed.

    A summary is a mean over the run: each of its hours gets it. It says nothing of energy, and of memory only the
    highest use, so those stay unknown.

    Args:
        usage: rollup.USAGE.
        leases: metering.LEASE.
        summaries: ``facts.SUMMARY``.
        findings: gets how many runs are known by a summary alone.
    """
    if summaries.is_empty() or usage.is_empty():
        return usage
    told = summaries.select(
        "cluster",
        "workload",
        whole_start=pl.col("start").dt.epoch("ms"),
        ppb=(pl.col("utilization") * PPB).round().cast(pl.Int64),
    ).unique(["cluster", "workload", "whole_start"], keep="first", maintain_order=True)
    of_slurm = leases.filter(pl.col("kind") == "slurm").select("cluster", "workload", "whole_start", lease="id")
    unseen = usage.filter(pl.col("lease").is_not_null()).group_by("lease").agg(seen=pl.col("busy_observed_ms").sum())
    known = (
        of_slurm.join(told, on=["cluster", "workload", "whole_start"])
        .join(unseen.filter(pl.col("seen") == 0), on="lease")
        .select("lease", "ppb")
    )
    if known.is_empty():
        return usage
    findings.append(Finding("summarised_use", known.height, "busy by its scheduler's summary, without samples"))
    spans = pl.col("end") - pl.col("start")
    return (
        usage.join(known, on="lease", how="left", maintain_order="left")
        .with_columns(
            busy_observed_ms=pl.when(pl.col("ppb").is_null()).then("busy_observed_ms").otherwise(spans),
            busy_ppb_ms=pl.when(pl.col("ppb").is_null()).then("busy_ppb_ms").otherwise(spans * pl.col("ppb")),
        )
        .drop("ppb")
    )
