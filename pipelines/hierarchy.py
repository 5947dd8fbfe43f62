"""Slurm's account tree and namespaces' labels, as what selectors match beside a lease's own labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from pipelines.facts import Facts

SEPARATOR: Final = "\n"
"""Between the values of a label that has several: it is in no account's name and no label."""


def with_hierarchy(leases: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """Add ``slurm_account_tree`` (an account and all above it) and ``namespace_label`` (``key=value`` each).

    Args:
        leases: metering.LEASE, those two still null.
    """
    trees = pl.DataFrame(
        [(*key, SEPARATOR.join(path)) for key, path in _paths(facts["slurm_account"]).items()],
        schema={"cluster": pl.String(), "slurm_account": pl.String(), "slurm_account_tree": pl.String()},
        orient="row",
    )
    labels = (
        facts["namespace_label"]
        .select("cluster", "namespace", told=pl.concat_str("label", pl.lit("="), "value"))
        .group_by("cluster", "namespace")
        .agg(namespace_label=pl.col("told").unique().sort().str.join(SEPARATOR))
    )
    return (
        leases.drop("slurm_account_tree", "namespace_label")
        .join(trees, on=["cluster", "slurm_account"], how="left", maintain_order="left")
        .join(labels, on=["cluster", "namespace"], how="left", maintain_order="left")
        # Without a tree an account stands alone.
        .with_columns(slurm_account_tree=pl.coalesce("slurm_account_tree", "slurm_account"))
        .select(leases.columns)
    )


def _paths(accounts: pl.DataFrame) -> Mapping[tuple[str, str], list[str]]:
    """Return each account with all above it, itself first; a circle ends where it closes."""
    parents = {(cluster, account): parent for cluster, account, parent in accounts.select(
        "cluster", "account", "parent").iter_rows()}  # fmt: skip
    paths = {}
    for cluster, account in parents:
        path = [account]
        while (above := parents.get((cluster, path[-1]))) is not None and above not in path:
            path.append(above)
        paths[cluster, account] = path
    return paths
