"""Causes of a rated period, tenant by tenant and workload by workload, in money that adds up to each tenant's waste."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import polars as pl

from pipelines.analysis.causes import BY_ID
from pipelines.analysis.classify import IDLE as IDLE_CAUSE
from pipelines.analysis.classify import idle_clarity, idle_evidence
from pipelines.analysis.jobs import settled
from pipelines.analysis.losses import main_cause
from pipelines.analysis.tables import BOTTLENECK, Analysis
from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval
from pipelines.money import largest_remainder, round_money
from pipelines.rated import Rated, TenantUse

_NOT_SEEN: Final = "Make the GPU's exporter reachable: what wasn't sampled can't be told."


@dataclass(frozen=True)
class Bottleneck:
    """One cause of one workload in a period.

    Attributes:
        main: whether it took most of the observed time.
        share_of_time: of the workload's GPU-hours.
        waste: its part of the tenant's waste; None where that is not known.
        confidence: 0–1; None where nothing was told.
        evidence: the numbers that decided, each with ``feature``, ``value``, ``is`` ("<" or ">=") and ``limit``.
    """

    tenant: str
    cluster: str
    workload: str
    cause: str
    main: bool
    share_of_time: float
    gpu_hours: float
    waste: Decimal | None
    confidence: float | None
    evidence: tuple[Mapping[str, Any], ...]

    @property
    def remedy(self) -> str:
        """What to try first."""
        return BY_ID[self.cause].remedy if self.cause in BY_ID else _NOT_SEEN


def bottlenecks(rated: Rated, analysis: Analysis, within: Interval, currency: str) -> list[Bottleneck]:
    """Return the causes of every tenant's workloads, by tenant, then workload, the largest share of time first.

    Args:
        within: the rated period in ms.
    """
    told = _told(analysis.within(within).windows)
    found: list[Bottleneck] = []
    for tenant, use in sorted((t, u) for t, u in rated.tenants.items() if t is not None):
        found += _of_tenant(tenant, use, told, currency)
    return found


def bottleneck_table(period: str, found: list[Bottleneck], names: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """Return BOTTLENECK of one period.

    Args:
        names: by cluster and workload what reports call it.
    """
    rows = [
        (
            period, b.tenant, names[b.cluster, b.workload], b.cause, b.main, b.share_of_time, b.gpu_hours, b.waste,
            b.confidence, json.dumps(list(b.evidence)), b.remedy,
        )
        for b in found
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=BOTTLENECK, orient="row")


def _of_tenant(
    tenant: str, use: TenantUse, told: Mapping[tuple[str, str, str], tuple[float | None, str]], currency: str
) -> Iterator[Bottleneck]:
    exact = {(*key, cause): c.waste for key, w in use.workloads.items() for cause, c in w.causes.items()}
    if not exact:
        return
    known = use.held.observed_leases > 0
    money = largest_remainder(round_money(use.held.waste, currency), exact, currency) if known else {}
    for (cluster, workload), w in sorted(use.workloads.items()):
        main, whole = main_cause(w.causes), sum((c.gpu_ms for c in w.causes.values()), Fraction(0))
        for cause, c in sorted(w.causes.items(), key=lambda item: (-item[1].gpu_ms, item[0])):
            confidence, evidence = told.get((cluster, workload, cause), (None, "[]"))
            yield Bottleneck(
                tenant,
                cluster,
                workload,
                cause,
                main=cause == main,
                share_of_time=round(float(c.gpu_ms / whole), 6) if whole else 0.0,
                gpu_hours=round(float(c.gpu_ms / HOUR_MS), 6),
                waste=money.get((cluster, workload, cause)) if w.held.observed_leases else None,
                confidence=None if confidence is None else round(confidence, 3),
                evidence=tuple(json.loads(evidence)),
            )


def _told(windows: pl.DataFrame) -> dict[tuple[str, str, str], tuple[float | None, str]]:
    """Return by cluster, workload and cause how clear it was, and the evidence of its clearest hour."""
    inside = settled(windows)
    key = ["cluster", "workload", "cause"]
    worked = pl.col("observed_ms") - pl.col("idle_ms")
    causes = (
        inside.filter((worked > 0) & pl.col("confidence").is_not_null())
        .with_columns(ms=worked)
        .select(*key, "ms", "confidence", "evidence")
    )
    idle = inside.filter(pl.col("idle_ms") > 0).select(
        "cluster",
        "workload",
        cause=pl.lit(IDLE_CAUSE),
        ms="idle_ms",
        confidence=idle_clarity(),
        evidence=pl.Series(
            [
                json.dumps([idle_evidence(value)])
                for value in inside.filter(pl.col("idle_ms") > 0)["idle_activity"].to_list()
            ],
            dtype=pl.String,
        ),
    )
    sums = (
        pl.concat([causes.filter(pl.col("cause") != IDLE_CAUSE), idle])
        .sort(*key, "confidence", "ms", descending=[False, False, False, True, True])
        .group_by(key, maintain_order=True)
        .agg(
            confidence=(pl.col("confidence") * pl.col("ms")).sum() / pl.col("ms").sum(),
            evidence=pl.col("evidence").first(),
        )
    )
    return {(c, w, cause): (confidence, evidence) for c, w, cause, confidence, evidence in sums.iter_rows()}
