"""Rules of thumb by which sites speak to who holds idle GPUs: named, and to be changed in the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

import polars as pl

from pipelines.config import Config
from pipelines.config.reclaim import ReclaimPolicy
from pipelines.idle.held import running
from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval
from pipelines.rated import Rated, WorkloadUse

_PRINCETON: Final = "Princeton Research Computing, job defense shield (as of 2026-11)"
_WARNINGS: Final[tuple[tuple[str, int, Literal["warn", "cancel"]], ...]] = (
    ("1h", 60, "warn"),
    ("1h45", 105, "warn"),
    ("2h", 120, "cancel"),
)

ZERO_UTILIZATION: Final = Decimal("0.005")
"""What a site sees as 0 %."""

BUILT_IN: Final[tuple[ReclaimPolicy, ...]] = (
    ReclaimPolicy(
        name="zero-gpu-hours",
        counts="idle_gpus",
        busy_at_most=ZERO_UTILIZATION,
        gpu_hours=Decimal(24),
        source=_PRINCETON,
    ),
    *(
        ReclaimPolicy(
            name=f"idle-{name}",
            action=action,
            counts="idle_now",
            busy_at_most=ZERO_UTILIZATION,
            minutes=Decimal(minutes),
            source=_PRINCETON,
        )
        for name, minutes, action in _WARNINGS
    ),
    ReclaimPolicy(
        name="low-efficiency",
        counts="all_gpus",
        busy_at_most=Decimal("0.25"),
        gpu_hours=Decimal(50),
        source=_PRINCETON,
    ),
)
"""Applied in any case; a policy of the configuration with the same name stands in its place."""


@dataclass(frozen=True)
class Hit:
    """A workload that a policy is about.

    Attributes:
        gpu_hours: that count; of `idle_now`, those since it began.
        gpus: that are idle; 0 where all of its GPUs count.
    """

    policy: ReclaimPolicy
    tenant: str | None
    cluster: str
    workload: str
    user: str | None
    gpu_hours: Fraction
    gpus: int
    since: int | None
    busy: float


def policies(config: Config) -> list[ReclaimPolicy]:
    """Return the policies that hold: those built in, and the configuration's own in their place or beside them."""
    named = {policy.name: policy for policy in (*BUILT_IN, *config.reclaim)}
    return [policy for policy in named.values() if policy.action != "none"]


def hits(
    rules: Sequence[ReclaimPolicy], rated: Rated, leases: pl.DataFrame, spells: pl.DataFrame, within: Interval
) -> list[Hit]:
    """Return what each policy is about, the most GPU-hours first.

    Args:
        leases: metering.LEASE.
        spells: held.EPISODE.
    """
    held = {
        (cluster, workload): gpus
        for cluster, workload, gpus in running(leases, within)
        .group_by("cluster", "workload")
        .agg(pl.struct("device", "instance").n_unique())
        .iter_rows()
    }
    works = {(t, *key): work for t, use in rated.tenants.items() for key, work in use.workloads.items()}
    found = [hit for rule in rules for hit in _of(rule, works, held, spells, within)]
    order = {rule.name: n for n, rule in enumerate(rules)}
    return sorted(found, key=lambda h: (order[h.policy.name], -h.gpu_hours, h.cluster, h.workload))


def _of(
    rule: ReclaimPolicy,
    works: Mapping[tuple[str | None, str, str], WorkloadUse],
    held: Mapping[tuple[str, str], int],
    spells: pl.DataFrame,
    within: Interval,
) -> list[Hit]:
    if rule.counts == "all_gpus":
        return [hit for key, work in works.items() if (hit := _whole(rule, key, work, held, within)) is not None]
    counted = spells.filter(
        (pl.col("busy") <= float(rule.busy_at_most)) & (pl.col("idle_ms") >= int(rule.minutes * 60_000))
    )
    if rule.counts == "idle_now":
        counted = counted.filter("ongoing")
    found = []
    for key, rows in counted.partition_by("tenant", "cluster", "workload", as_dict=True).items():
        work = works.get((key[0], str(key[1]), str(key[2])))
        if work is None:
            continue
        if rule.counts == "idle_now" and _gpus(rows) < held.get((work.cluster, work.workload), 0):
            continue  # a GPU of it works, or isn't seen: nobody cancels that
        hours = Fraction(round(rows["gpu_ms"].sum()), HOUR_MS)
        if hours < Fraction(rule.gpu_hours):
            continue
        ongoing = rows.filter("ongoing")
        since = int(ongoing.select(pl.col("start").max()).item()) if ongoing.height else None
        busy = rows.select((pl.col("busy") * pl.col("gpu_ms")).sum() / pl.col("gpu_ms").sum()).item()
        found.append(
            Hit(rule, key[0], work.cluster, work.workload, work.user, hours, _gpus(rows), since, round(busy, 4))
        )
    return found


def _gpus(rows: pl.DataFrame) -> int:
    gpus: int = rows.select(pl.struct("device", "instance").n_unique()).item()
    return gpus


def _whole(
    rule: ReclaimPolicy,
    key: tuple[str | None, str, str],
    work: WorkloadUse,
    held: Mapping[tuple[str, str], int],
    within: Interval,
) -> Hit | None:
    mean = work.held.utilization
    hours = work.held.seen / HOUR_MS  # what wasn't seen speaks against nobody
    if mean is None or mean > Fraction(rule.busy_at_most) or hours < Fraction(rule.gpu_hours):
        return None
    since = work.start if work.end >= within[1] and (work.cluster, work.workload) in held else None
    return Hit(rule, key[0], work.cluster, work.workload, work.user, hours, 0, since, round(float(mean), 4))
