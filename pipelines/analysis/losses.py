"""What each cause cost: every lease's waste split over the causes of its hours, exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.analysis.causes import UNKNOWN, UNOBSERVED
from pipelines.analysis.jobs import settled
from pipelines.analysis.tables import PPB, Analysis
from pipelines.instants import HOUR_MS
from pipelines.rates import RateCard

ZERO: Final = Fraction(0)
_GRAIN: Final = ("payer", "id", "lease_cluster", "workload", "model", "stretch", "weight_num", "weight_den")


@dataclass
class CauseUse:
    """What one cause took of a workload in a period.

    Attributes:
        gpu_ms: time held under it.
        waste: its part of the workload's waste, money before rounding.
    """

    gpu_ms: Fraction = ZERO
    waste: Fraction = ZERO


ByCause = dict[str, CauseUse]


def losses(
    allocated: pl.DataFrame,
    analysis: Analysis,
    card: RateCard,
    means: Mapping[str | None, Mapping[str, Fraction]],
) -> dict[tuple[str | None, str, str], ByCause]:
    """Return what each cause took, by tenant, cluster and workload; nothing where nothing was analysed.

    The waste of a lease is (1 − mean) × its price. Of that, the observed hours bear what they lost, each under its
    cause, and the unobserved ones the rest, as lost at the lease's mean. So causes add up to the waste.

    Args:
        analysis: of the period.
        allocated: usage of the period with ``payer``, ``id`` (of the lease), ``lease_cluster``, ``workload``.
        means: by tenant and lease how busy it was; a lease without one was never observed and has no waste.
    """
    found: dict[tuple[str | None, str, str], ByCause] = defaultdict(lambda: defaultdict(CauseUse))
    if analysis.windows.is_empty():
        return {}
    for lease in _by_lease(_sums(allocated, analysis, card)):
        first = lease[0]
        mean = means.get(first["payer"], {}).get(first["id"])
        causes = found[first["payer"], first["lease_cluster"], first["workload"]]
        exact, price = _exact(lease, card, mean)
        for cause, use in exact.items():
            causes[cause].gpu_ms += use.gpu_ms
        if mean is None:
            continue
        # Where prices change within the lease, its mean and its hours weigh them differently: the mean counts. Where
        # all that was lost has no price, time stands in for it.
        lost = {cause: use.waste for cause, use in exact.items()}
        shares = lost if any(lost.values()) else {cause: use.gpu_ms for cause, use in exact.items()}
        whole = sum(shares.values(), ZERO)
        for cause, share in shares.items():
            causes[cause].waste += share * price * (1 - mean) / whole if whole else ZERO
    return {key: dict(causes) for key, causes in found.items()}


def main_cause(causes: Mapping[str, CauseUse]) -> str | None:
    """Return the cause of most of the observed time; None: nothing was observed."""
    seen = {cause: use.gpu_ms for cause, use in causes.items() if cause != UNOBSERVED and use.gpu_ms}
    return max(sorted(seen), key=lambda cause: seen[cause]) if seen else None


def _sums(allocated: pl.DataFrame, analysis: Analysis, card: RateCard) -> pl.DataFrame:
    """Return per lease, price and cause the ms (× PPB) held and lost, as whole numbers."""
    windows = settled(analysis.windows).select("hour", "cause", "workload", lease_cluster="cluster")
    idle = analysis.idle.rename({"lease": "id"})
    stretch = np.searchsorted(np.array(card.edges, np.int64), allocated["start"].to_numpy(), side="right")
    rows = (
        allocated.with_columns(pl.Series("stretch", stretch), hour=pl.col("start") // HOUR_MS * HOUR_MS)
        .join(windows, on=["hour", "workload", "lease_cluster"], how="left")
        .join(idle, on=["id", "device", "instance", "hour"], how="left", nulls_equal=True)
        .with_columns(pl.col("cause").fill_null(UNKNOWN), pl.col("time_ppb", "loss_ppb").fill_null(0))
        .with_columns(
            seen=pl.col("busy_observed_ms").cast(pl.Int128),
            lost=pl.col("busy_observed_ms").cast(pl.Int128) * PPB - pl.col("busy_ppb_ms"),
        )
    )
    unseen = pl.col("end") - pl.col("start") - pl.col("busy_observed_ms")
    working, seen, lost = PPB - pl.col("time_ppb"), pl.col("seen"), pl.col("lost")
    pieces = (
        (pl.lit("idle"), seen * pl.col("time_ppb"), lost * pl.col("loss_ppb")),
        (pl.col("cause"), seen * working, lost * (PPB - pl.col("loss_ppb"))),
        (pl.lit(UNOBSERVED), unseen.cast(pl.Int128) * PPB, pl.lit(0, pl.Int128)),
    )
    grain = [*_GRAIN, "cause"]
    return (
        pl.concat(rows.select(*_GRAIN, "start", cause=c, time=t, lost=lost_) for c, t, lost_ in pieces)
        .filter((pl.col("time") > 0) | (pl.col("lost") > 0))
        .group_by(grain)
        .agg(pl.col("time", "lost").sum(), pl.col("start").min())
        .sort(grain, nulls_last=True)
    )


def _by_lease(sums: pl.DataFrame) -> Iterable[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for row in sums.iter_rows(named=True):
        if rows and any(rows[0][c] != row[c] for c in ("payer", "id", "lease_cluster", "workload", "model")):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def _exact(rows: list[dict[str, Any]], card: RateCard, mean: Fraction | None) -> tuple[ByCause, Fraction]:
    """Return by cause GPU-ms and what they lost at the on-demand rate, and the price of all of it."""
    found: ByCause = defaultdict(CauseUse)
    price = ZERO
    for row in rows:
        weight = Fraction(row["weight_num"], row["weight_den"])
        rate = weight / HOUR_MS * (card.price(row["model"], "on_demand", row["start"]) or 0)
        gpu_ms = Fraction(int(row["time"]), PPB)
        use = found[row["cause"]]
        use.gpu_ms += weight * gpu_ms
        price += rate * gpu_ms
        if row["cause"] == UNOBSERVED:
            use.waste += rate * gpu_ms * (1 - mean) if mean is not None else ZERO
        else:
            use.waste += rate * Fraction(int(row["lost"]), PPB * PPB)
    return found, price
