"""Billing-hours of Slurm: what its jobs bill by TRESBillingWeights, beside the GPU-hours that the bill goes by.

They are what `sreport` reports of the TRES ``billing``, of jobs without GPUs too. They price nothing: see
docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import polars as pl

from pipelines.config import Config
from pipelines.facts import Facts
from pipelines.hierarchy import with_hierarchy
from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval
from pipelines.selectors import LIST_KEYS, SELECTOR_KEYS
from pipelines.tenancy import tenancy

BILLED: Final[dict[str, pl.DataType]] = {
    "id": pl.String(),
    "workload": pl.String(),
    "tenant": pl.String(),  # always null: accounting names none
    **{key: pl.String() for key in (*SELECTOR_KEYS, *LIST_KEYS)},
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
    "ran": pl.Int64(),  # ms of these that it wasn't suspended
    "billing": pl.Int64(),  # units per second
}
"""grain: run of a job."""

Billed = Mapping[tuple[str | None, str, str | None], Fraction]
"""Billing-hours by tenant (None: nobody's), cluster and account."""


def billed_table(facts: Facts) -> pl.DataFrame:
    """Return BILLED: of rows about one run the ended one counts, then the longer."""
    rows = facts["slurm_billing"].sort("ended", "end", "billing", descending=True, maintain_order=True)
    runs = rows.unique(["cluster", "labelled_as", "start"], keep="first", maintain_order=True).sort(
        "start", "cluster", "labelled_as"
    )
    table = runs.with_row_index("id").select(
        *(
            (pl.col(name) if name in ("id", *runs.columns) else pl.lit(None)).cast(kind).alias(name)
            for name, kind in BILLED.items()
            if name not in ("start", "end", "ran")
        ),
        start=pl.col("start").dt.epoch("ms"),
        end=pl.col("end").dt.epoch("ms"),
        ran=pl.col("seconds") * 1000,
    )
    return with_hierarchy(table.select(list(BILLED)), facts)


def billed_hours(table: pl.DataFrame, config: Config, within: Interval) -> Billed | None:
    """Return what was billed within a period, in ms; None: no source tells of any.

    Of a run that was suspended nobody knows when: its parts bill in proportion.
    """
    inside = table.filter((pl.col("start") < within[1]) & (pl.col("end") > within[0]))
    if inside.is_empty():
        return None
    stretches = tenancy(inside, config).select("from", "to", id="lease", payer="tenant")
    overlap = pl.min_horizontal("to", pl.lit(within[1])) - pl.max_horizontal("from", pl.lit(within[0]))
    whole = pl.col("end") - pl.col("start")
    sums = (
        inside.select("id", "cluster", "slurm_account", "start", "end", "ran", "billing")
        .join(stretches, on="id")
        .with_columns(overlap=overlap)
        .filter(pl.col("overlap") > 0)
        # Whole unit-ms by the length of the run, so that nothing is rounded: most ran all of it.
        .with_columns(of=pl.when(pl.col("ran") == whole).then(1).otherwise(whole))
        .group_by("payer", "cluster", "slurm_account", "of")
        .agg(
            units=(
                pl.col("billing").cast(pl.Int128)
                * pl.col("overlap")
                * pl.when(pl.col("of") == 1).then(1).otherwise("ran")
            ).sum()
        )
    )
    hours: dict[tuple[str | None, str, str | None], Fraction] = {}
    for payer, cluster, account, of, units in sums.iter_rows():
        key = (payer, cluster, account)
        hours[key] = hours.get(key, Fraction(0)) + Fraction(int(units), of * HOUR_MS)
    return hours
