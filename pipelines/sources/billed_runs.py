"""What each run of a job bills in Slurm, of jobs with and without GPUs."""

from __future__ import annotations

import polars as pl

from pipelines.facts import BILLED_RUN
from pipelines.slurm_billing import BillingRule
from pipelines.sources.tally import Tally


def billed_runs(jobs: pl.DataFrame, cluster: str, rule: BillingRule, tally: Tally) -> pl.DataFrame:
    """Return ``facts.BILLED_RUN`` of runs whose length is known.

    Args:
        jobs: a row per run: the columns of `sacct`, ``shown``, ``run_id``, ``start``, ``end``, ``ended``, ``elapsed``.
        tally: counts the runs whose billing isn't told.
    """
    held = jobs.filter(pl.col("end").is_not_null() & pl.col("AllocTRES").is_not_null())
    kinds = held.select("AllocTRES", "Partition").unique()
    rates = pl.DataFrame(
        [(*kind, _billing(rule, *kind)) for kind in kinds.iter_rows()],
        schema={"AllocTRES": pl.String, "Partition": pl.String, "billing": pl.Int64},
        orient="row",
    )
    told = held.join(rates, on=["AllocTRES", "Partition"], how="left", nulls_equal=True, maintain_order="left")
    untold = told.filter(pl.col("billing").is_null())
    if untold.height:
        first = untold["line"].min()
        tally.add(
            "job whose AllocTRES tells no billing", first if isinstance(first, int) else None, count=untold.height
        )
    lasted = (pl.col("end") - pl.col("start")).dt.total_seconds()
    return told.filter(pl.col("billing").is_not_null()).select(
        cluster=pl.lit(cluster),
        workload="shown",
        labelled_as="run_id",
        slurm_account=pl.when(~pl.col("Account").str.ends_with("+").fill_null(value=False)).then("Account"),
        slurm_partition="Partition",
        slurm_qos="QOS",
        slurm_user="User",
        start=pl.col("start").cast(BILLED_RUN["start"]),
        end=pl.col("end").cast(BILLED_RUN["end"]),
        ended="ended",
        # Without the time that it was suspended, as sreport counts.
        seconds=pl.coalesce(pl.min_horizontal("elapsed", lasted), lasted),
        billing="billing",
    )


def _billing(rule: BillingRule, tres: str, partition: str | None) -> int | None:
    try:
        told = rule.of(tres, partition)
    except ValueError:
        return None
    return told if told is None or told < 2**53 else None
