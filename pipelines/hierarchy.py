"""Slurm's account tree and namespaces' labels, as what selectors match beside a lease's own labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


Labels = Callable[[str | None, str | None, str | None], Mapping[str, str | None]]
"""Called with a cluster, an account and a namespace; returns the labels that `with_hierarchy` adds."""


def labels_above(facts: Facts) -> Labels:
    """Return the same for one workload at a time."""
    trees = {key: SEPARATOR.join(path) for key, path in _paths(facts["slurm_account"]).items()}
    told: dict[tuple[str, str], set[str]] = {}
    columns = ("cluster", "namespace", "label", "value")
    for cluster, namespace, label, value in facts["namespace_label"].select(columns).iter_rows():
        told.setdefault((cluster, namespace), set()).add(f"{label}={value}")

    def above(cluster: str | None, account: str | None, namespace: str | None) -> Mapping[str, str | None]:
        own = told.get((cluster or "", namespace or ""))
        return {
            "slurm_account_tree": trees.get((cluster or "", account or ""), account),
            "namespace_label": SEPARATOR.join(sorted(own)) if own else None,
        }

    return above


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
