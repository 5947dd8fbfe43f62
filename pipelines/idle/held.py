"""What was held and not used: idle episodes per GPU, and workloads that barely use theirs.

Idle time is what the analysis saw: five minutes or more, twice in a row, in which nothing ran and nothing was copied.
A time without samples is no idle time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import polars as pl

from pipelines.analysis.bottlenecks import Bottleneck, bottlenecks
from pipelines.analysis.causes import UNOBSERVED
from pipelines.analysis.classify import IDLE
from pipelines.analysis.tables import PPB, Analysis
from pipelines.config import Config
from pipelines.idle.items import Item
from pipelines.instants import HOUR_MS
from pipelines.intervals import Interval
from pipelines.money import round_money
from pipelines.rated import Rated, WorkloadUse
from pipelines.tenancy import tenancy

BARELY: Final = 0.25
"""Utilisation outside idle episodes up to which a workload barely uses its GPUs: Princeton's "low efficiency"."""
_FULL: Final = 0.98  # of an hour: idle all through, but for the edges of samples
SLACK_MS: Final = 10 * 60_000
"""What ends so shortly before the end still goes on: devices are sampled at different times."""
_NAMED: Final = 8

EPISODE: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "cluster": pl.String(),
    "workload": pl.String(),
    "user": pl.String(),
    "lease": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "model": pl.String(),
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
    "idle_ms": pl.Int64(),
    "gpu_ms": pl.Float64(),  # by the part of the card that was held
    "busy": pl.Float64(),  # mean busy ratio in it
    "ongoing": pl.Boolean(),  # at the end of the period, of a lease that runs on
}
"""grain: idle episode of a lease on a device, joined over hours that are idle all through."""


def episodes(
    usage: pl.DataFrame, leases: pl.DataFrame, analysis: Analysis, config: Config, within: Interval
) -> pl.DataFrame:
    """Return EPISODE, the longest first.

    Args:
        usage: rollup.USAGE of the period, clipped to it.
        leases: metering.LEASE.
        analysis: of the period.
    """
    hours = _idle_hours(usage, leases, analysis, config)
    key = ["tenant", "lease", "device", "instance"]
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in key)
    goes_on = same & (pl.col("hour") == pl.col("hour").shift(1) + HOUR_MS) & (pl.col("full") | pl.col("full").shift(1))
    first, last = pl.col("idle_ms").first(), pl.col("idle_ms").last()
    several = pl.len() > 1
    reached = usage.filter(pl.col("state") == "allocated").select(pl.col("end").max()).item() or within[1]
    joined = (
        hours.sort(*key, "hour", nulls_last=True)
        .with_columns(run=(~goes_on).fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in (*key, "cluster", "workload", "user", "node", "model")),
            start=pl.when(several & ~pl.col("full").first())
            .then(pl.col("end").first() - first)
            .otherwise(pl.col("start").first()),
            end=pl.when(several & ~pl.col("full").last())
            .then(pl.col("start").last() + last)
            .otherwise(pl.col("end").last()),
            idle_ms=pl.col("idle_ms").sum(),
            gpu_ms=(pl.col("idle_ms") * pl.col("part")).sum(),
            busy=1 - pl.col("lost").sum() / pl.col("idle_ms").sum(),
            ends=pl.col("lease_end").first(),
            over=pl.col("lease_ended").first(),
        )
    )
    end = min(within[1], reached)
    ongoing = (pl.col("end") >= end - SLACK_MS) & (pl.col("ends") >= end - SLACK_MS) & ~_over("ends", "over", within)
    return (
        joined.with_columns(ongoing=ongoing)
        .sort("gpu_ms", *key, descending=[True, False, False, False, False], nulls_last=True)
        .select(pl.col(c).cast(t) for c, t in EPISODE.items())
    )


def _over(end: str, ended: str, within: Interval) -> pl.Expr:
    """Whether a lease is known to be over by the end of a period."""
    return (pl.col(ended) & (pl.col(end) <= within[1])).fill_null(value=False)


def running(leases: pl.DataFrame, within: Interval) -> pl.DataFrame:
    """Return those of the leases (metering.LEASE) that go on at the end of a period."""
    end = min(within[1], leases.select(pl.col("end").max()).item() or within[1])
    there = (pl.col("end") >= end - SLACK_MS) & (pl.col("start") < within[1])
    return leases.filter(there & ~_over("end", "ended", within))


def _idle_hours(usage: pl.DataFrame, leases: pl.DataFrame, analysis: Analysis, config: Config) -> pl.DataFrame:
    """grain: lease × device × hour with idle time; ``full`` where it was idle all through."""
    owners = tenancy(leases, config).select("lease", "from", "to", "tenant")
    named = leases.select(
        "workload", "user", "slurm_user", lease="id", work="cluster", lease_end="end", lease_ended="ended"
    )
    place = ["lease", "device", "instance", "hour"]
    rows = (
        usage.filter(pl.col("state") == "allocated")
        .with_columns(hour=pl.col("start") // HOUR_MS * HOUR_MS)
        .join(analysis.idle, on=place, nulls_equal=True)
        .join(owners, on="lease")
        .filter((pl.col("start") >= pl.col("from")) & (pl.col("start") < pl.col("to")))
        .join(named, on="lease")
    )
    seen, lost = pl.col("busy_observed_ms"), pl.col("busy_observed_ms") - pl.col("busy_ppb_ms") / PPB
    sums = rows.group_by("tenant", *place).agg(
        pl.col("node", "model", "workload", "lease_end", "lease_ended").first(),
        user=pl.coalesce("user", "slurm_user").first(),
        cluster=pl.col("work").first(),
        start=pl.col("start").min(),
        end=pl.col("end").max(),
        held=(pl.col("end") - pl.col("start")).sum(),
        idle_ms=(seen * (pl.col("time_ppb") / PPB)).sum(),
        lost=(lost * (pl.col("loss_ppb") / PPB)).sum(),
        part=(pl.col("weight_num") / pl.col("weight_den")).first(),
    )
    return sums.filter(pl.col("idle_ms") > 0).with_columns(full=pl.col("idle_ms") >= _FULL * pl.col("held"))


def held_items(
    rated: Rated, analysis: Analysis, leases: pl.DataFrame, spells: pl.DataFrame, config: Config, within: Interval
) -> list[Item]:
    """Return what was held and idle, or barely used, by tenant and workload.

    The money is a part of each tenant's waste, as `analysis.bottlenecks` splits it to the cent. What nobody owns is
    rounded by itself.

    Args:
        analysis: of the period.
        leases: metering.LEASE.
        spells: EPISODE.
    """
    on = set(running(leases, within).select("cluster", "workload").iter_rows())
    told: dict[tuple[str | None, str, str], dict[str, Bottleneck]] = defaultdict(dict)
    for found in bottlenecks(rated, analysis, within, config.currency):
        told[found.tenant, found.cluster, found.workload][found.cause] = found
    by_work = {
        tuple(key): rows for key, rows in spells.partition_by("tenant", "cluster", "workload", as_dict=True).items()
    }
    items: list[Item] = []
    for tenant, use in sorted(rated.tenants.items(), key=lambda pair: str(pair[0])):
        for (cluster, workload), work in sorted(use.workloads.items()):
            key = (tenant, cluster, workload)
            since = work.start if (cluster, workload) in on else None
            items += _of_workload(tenant, work, told.get(key, {}), by_work.get(key), config.currency, since)
    return items


def _of_workload(
    tenant: str | None,
    work: WorkloadUse,
    told: dict[str, Bottleneck],
    spells: pl.DataFrame | None,
    currency: str,
    since: int | None,
) -> Iterator[Item]:
    used = {cause: c for cause, c in work.causes.items() if cause not in (IDLE, UNOBSERVED) and c.gpu_ms}

    def money(cause: str) -> Decimal | None:
        if tenant is None:
            return round_money(work.causes[cause].waste, currency)
        return told[cause].waste if cause in told else None

    idle = work.causes.get(IDLE)
    common = (work.workload, work.cluster, tenant, work.user)
    if idle is not None and idle.gpu_ms and spells is not None:
        yield Item(
            "held_idle", *common, _one(spells, "node"), _one(spells, "model"), idle.gpu_ms / HOUR_MS, idle.waste,
            _least(spells, "start"), _most(spells, "end"),
            _since(spells), _gpus(spells), _idle_evidence(spells, work), money(IDLE),
        )  # fmt: skip
    rest = sum((c.gpu_ms for c in used.values()), Fraction(0))
    mean = work.held.utilization
    # All of the activity, also the little in idle episodes: rather too much than a false word.
    activity = mean * work.held.seen / rest if mean is not None and rest else None
    if activity is not None and activity <= BARELY:
        amounts = [money(cause) for cause in used]
        worth = sum((c.waste for c in used.values()), Fraction(0))
        known = [amount for amount in amounts if amount is not None]
        yield Item(
            "held_barely_used", *common, None, None, rest / HOUR_MS, worth, work.start, work.end,
            since, 0,
            {"utilization_outside_idle": round(float(activity), 4), "coverage": _ratio(work.held.coverage),
             "causes": {cause: round(float(c.gpu_ms / HOUR_MS), 6) for cause, c in sorted(used.items())}},
            sum(known, Decimal(0)) if known else None,
        )  # fmt: skip


def _since(spells: pl.DataFrame) -> int | None:
    """Return since when a GPU of it is idle that still is."""
    ongoing = spells.filter("ongoing")
    return _least(ongoing, "start") if ongoing.height else None


def _gpus(spells: pl.DataFrame) -> int:
    """Return how many GPUs are idle now, else were at any time."""
    ongoing = spells.filter("ongoing")
    of: int = (ongoing if ongoing.height else spells).select(pl.struct("device", "instance").n_unique()).item()
    return of


def _idle_evidence(spells: pl.DataFrame, work: WorkloadUse) -> dict[str, Any]:
    gpus = (
        spells.group_by("device", "instance")
        .agg(pl.col("gpu_ms").sum())
        .sort("gpu_ms", "device", descending=[True, False])
        .head(_NAMED)
    )
    named = {"/".join(p for p in (d, i) if p): round(ms / HOUR_MS, 6) for d, i, ms in gpus.iter_rows()}
    return {
        "idle_gpus": named,
        "episodes": spells.height,
        "longest_minutes": round(_most(spells, "idle_ms") / 60_000, 1),
        "busy_in_them": round(
            spells.select((pl.col("busy") * pl.col("gpu_ms")).sum() / pl.col("gpu_ms").sum()).item(), 4
        ),
        "utilization": _ratio(work.held.utilization),
        "coverage": _ratio(work.held.coverage),
    }


def _least(rows: pl.DataFrame, column: str) -> int:
    return int(rows.select(pl.col(column).min()).item())


def _most(rows: pl.DataFrame, column: str) -> int:
    return int(rows.select(pl.col(column).max()).item())


def _ratio(value: Fraction | None) -> float | None:
    return None if value is None else round(float(value), 4)


def _one(spells: pl.DataFrame, column: str) -> str | None:
    """Return the one value of a column; None where there are several."""
    values = spells[column].drop_nulls().unique()
    return str(values[0]) if len(values) == 1 else None
