"""Usage × classes × rates → every tenant's hours and money, exact until a line is made.

Nothing here reads a clock or a file: the same usage under the same configuration gives the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from math import lcm
from typing import Any, Final

import polars as pl

from pipelines.analysis.losses import losses
from pipelines.billing_hours import BILLED, billed_hours
from pipelines.charging import Scope, charge, with_stretch
from pipelines.config import Config
from pipelines.contract import Months
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.intervals import Interval, union
from pipelines.metering import Metered
from pipelines.observations import PPB
from pipelines.periods import local_midnights, local_months
from pipelines.rated import ZERO, ByModel, Charge, FleetUse, Held, Rated, TenantUse, WorkloadUse, exact_sum, kwh
from pipelines.rates import RateCard
from pipelines.tables import Finding
from pipelines.tenancy import tenancy
from pipelines.uncollected import uncollected

__all__ = ["Charge", "FleetUse", "Held", "Rated", "TenantUse", "WorkloadUse", "clipped", "kwh", "rate"]

LOST: Final = ("idle", "stranded", "down", "repair")
INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"


@uncollected()
def rate(metered: Metered, config: Config, within: Interval) -> Rated:
    """Rate what was metered within a period, given in ms."""
    card = RateCard(config)
    months = local_months(from_ms(within[0]), from_ms(within[1]), config.timezone)
    whole = (to_ms(months[0].start), to_ms(months[-1].end))
    midnights = local_midnights(months[0].start, months[-1].end, config.timezone)
    cuts = sorted({*card.edges, *(to_ms(t) for t in midnights)})
    scope = Scope(metered, config, card, cuts, within, Months([to_ms(m.start) for m in months]), whole)
    usage = clipped(metered.usage, within)
    findings: list[Finding] = []
    owners = tenancy(metered.leases, config)
    allocated = _attributed(usage, metered.leases, owners)
    decisive = _decisive(allocated, scope, owners)
    tenants: dict[str | None, TenantUse] = defaultdict(TenantUse)
    _sum_held(allocated, card, tenants)
    means = {tenant: use.means for tenant, use in tenants.items()}
    for (tenant, *key), causes in losses(allocated, metered.analysis.within(within), card, means).items():
        tenants[tenant].workloads[key[0], key[1]].causes = causes
    charges = charge(allocated, decisive, scope, tenants)
    for tenant, hours in _out_of_use(metered.outages, within).items():
        tenants[tenant].out = hours
    findings += _unpriced(usage, card)
    if None in tenants and tenants[None].held.allocated:
        findings.append(_unresolved(allocated))
    billed = billed_hours(metered.state.get("slurm_billing", pl.DataFrame(schema=BILLED)), config, within)
    return Rated(_fleet(usage, scope), dict(tenants), charges, findings, billed)


def _decisive(allocated: pl.DataFrame, scope: Scope, owners: pl.DataFrame) -> pl.DataFrame:
    """Return what is allocated in the whole months, where they decide anything."""
    if scope.whole == scope.within or not scope.months_decide:
        return allocated
    return _attributed(clipped(scope.metered.usage, scope.whole), scope.metered.leases, owners)


def clipped(usage: pl.DataFrame, within: Interval) -> pl.DataFrame:
    """Return the usage within a period; a row that straddles its edge counts by its part of the time."""
    start, end = within
    inside = usage.filter((pl.col("start") < end) & (pl.col("end") > start))
    if not inside.select(((pl.col("start") < start) | (pl.col("end") > end)).any()).item():
        return inside
    sums = [c for c in inside.columns if c.endswith("_ms")]
    cut = pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start))
    whole = pl.col("end") - pl.col("start")
    straddles = cut < whole
    return inside.with_columns(
        *(
            pl.when(straddles).then((pl.col(c) * (cut / whole)).cast(inside.schema[c])).otherwise(c).alias(c)
            for c in sums
        ),
        energy_joules=pl.when(straddles).then(pl.col("energy_joules") * (cut / whole)).otherwise("energy_joules"),
        start=pl.max_horizontal("start", pl.lit(start)),
        end=pl.min_horizontal("end", pl.lit(end)),
    )


def _under_repair(usage: pl.DataFrame, outages: pl.DataFrame) -> pl.DataFrame:
    """Return the down rows of usage cut where their card is under repair, with ``lost`` saying which is which."""
    down = usage.filter(pl.col("state") == "down").with_columns(lost=pl.lit("down"))
    repairs: dict[str, list[Interval]] = {}
    for device, start, end in outages.filter(pl.col("cause") == "repair").select("device", "start", "end").iter_rows():
        repairs.setdefault(device, []).append((start, end))
    if not repairs:
        return down
    spans = [(d, *span) for d, intervals in repairs.items() for span in union(intervals)]
    schema = {"device": pl.String, "repair_start": pl.Int64, "repair_end": pl.Int64}
    touched = (
        down.with_row_index("row")
        .join(pl.DataFrame(spans, schema=schema, orient="row"), on="device")
        .with_columns(
            start=pl.max_horizontal("start", "repair_start"),
            end=pl.min_horizontal("end", "repair_end"),
            lost=pl.lit("repair"),
        )
        .filter(pl.col("start") < pl.col("end"))
    )
    within = touched.group_by("row").agg(repaired=(pl.col("end") - pl.col("start")).sum())
    # What is left of a row may lie in pieces; only its length counts, as its price holds for all of it.
    rest = (
        down.with_row_index("row")
        .join(within, on="row", how="left")
        .with_columns(end=pl.col("end") - pl.col("repaired").fill_null(0))
        .filter(pl.col("start") < pl.col("end"))
    )
    return pl.concat([rest.select(down.columns), touched.select(down.columns)])


def _fleet(usage: pl.DataFrame, scope: Scope) -> FleetUse:
    lost_to = pl.concat(
        [
            _under_repair(usage, scope.metered.outages),
            usage.filter(pl.col("state") != "down").with_columns(lost="state"),
        ]
    )
    grain = ("state", "lost", "model", "owner", "stretch", "weight_num", "weight_den")
    sums = (
        with_stretch(lost_to, scope.card.edges)
        .group_by(grain)
        .agg(ms=(pl.col("end") - pl.col("start")).sum(), at=pl.col("start").min())
    )
    hours: dict[str, Fraction] = defaultdict(Fraction)
    price = ZERO
    lost: dict[str, ByModel] = defaultdict(dict)
    owned: dict[str, dict[str, ByModel]] = defaultdict(lambda: defaultdict(dict))
    for row in sums.sort(grain).iter_rows(named=True):
        state, model, owner = row["lost"], row["model"], row["owner"]
        amount = Fraction(row["ms"] * row["weight_num"], row["weight_den"] * HOUR_MS)
        hours[row["state"]] += amount
        money = amount * (scope.card.price(model, "on_demand", row["at"]) or 0)
        price += money
        if state in LOST:
            for table in (lost[state], *([owned[owner][state]] if owner else [])):
                h, p = table.get(model, (ZERO, ZERO))
                table[model] = (h + amount, p + money)
    energy = usage["energy_joules"].drop_nulls()
    return FleetUse(
        hours=hours,
        capacity_price=price,
        devices=usage.select(pl.struct("cluster", "device").n_unique()).item() if usage.height else 0,
        joules=float(energy.sum()) if len(energy) else None,
        lost=lost,
        owned=owned,
    )


def _attributed(usage: pl.DataFrame, leases: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Return the allocated rows with their lease's attributes, who pays (``payer``) and whether it is spot."""
    allocated = usage.filter(pl.col("state") == "allocated").rename({"lease": "id"})
    attributes = leases.select("id", "workload", "user", "slurm_user", "whole_start", "class", lease_cluster="cluster")
    stretches = owners.select(pl.col("lease").alias("id"), "from", "to", "spot", payer="tenant")
    return (
        allocated.join(attributes, on="id", how="left")
        .join(stretches, on="id", how="left")
        .filter((pl.col("start") >= pl.col("from")) & (pl.col("start") < pl.col("to")))
        .sort("id", "start", "weight_num", "weight_den")
    )


_SUMS: Final = [
    "stretch", "weight_num", "weight_den", "user", "ms", "seen", "busy", "joules", "metered", "start", "end"
]  # fmt: skip


def _sum_held(allocated: pl.DataFrame, card: RateCard, tenants: dict[str | None, TenantUse]) -> None:
    """Sum what each lease held and how busy it was; active and waste are computed per lease."""
    grain = ["payer", "id", "lease_cluster", "workload", "model"]
    sums = (
        with_stretch(allocated, card.edges)
        .group_by(*grain, "stretch", "weight_num", "weight_den")
        .agg(
            user=pl.coalesce("user", "slurm_user").max(),
            ms=(pl.col("end") - pl.col("start")).sum(),
            seen=pl.col("busy_observed_ms").sum(),
            busy=pl.col("busy_ppb_ms").cast(pl.Int128).sum(),
            joules=pl.col("energy_joules").sum(),
            metered=pl.col("energy_joules").is_not_null().any(),
            start=pl.col("start").min(),
            end=pl.col("end").max(),
        )
        .sort(*grain, "stretch", "weight_num", "weight_den")
    )
    prices: dict[tuple[str | None, int], Fraction] = {}
    parts: dict[str | None, list[Held]] = defaultdict(list)
    list_prices: dict[str | None, list[Fraction]] = defaultdict(list)
    of_workloads: dict[tuple[str | None, str, str], list[Held]] = defaultdict(list)
    for (tenant, lease, cluster, workload, model), rows in _grouped(sums.select(grain + _SUMS), len(grain)):
        # Whole numbers over one denominator; fractions are made once a lease.
        common = lcm(*(den for _, _, den, *_ in rows))
        held_ms = seen_ms = busy_ppb_ms = 0
        price = ZERO
        joules: float | None = None
        for stretch, num, den, _, ms, seen, busy, energy, metered, start, _ in rows:
            weight = num * (common // den)
            held_ms += weight * ms
            if seen:
                seen_ms += weight * seen
                busy_ppb_ms += weight * busy
            at = (model, stretch)
            if at not in prices:
                prices[at] = (card.price(model, "on_demand", start) or ZERO) / HOUR_MS
            price = prices[at] * (weight * ms) + price if price else prices[at] * (weight * ms)
            if metered:
                joules = (joules or 0.0) + energy
        whole = Fraction(held_ms, common)
        price = price if common == 1 else price / common
        held = Held(whole, leases=1, joules=joules)
        if seen_ms:
            use = tenants[tenant]
            seen_ppb_ms = seen_ms * PPB
            use.means[lease] = Fraction(busy_ppb_ms, seen_ppb_ms)
            held.seen = whole if seen_ms == held_ms else Fraction(seen_ms, common)
            held.observed_leases, held.observed_allocated = 1, whole
            # One fraction each: a product of fractions looks for common divisors three times.
            held.active = Fraction(held_ms * busy_ppb_ms, common * seen_ppb_ms)
            held.waste = Fraction(price.numerator * (seen_ppb_ms - busy_ppb_ms), price.denominator * seen_ppb_ms)
        list_prices[tenant].append(price)
        parts[tenant].append(held)
        of_workloads[tenant, cluster, workload].append(held)
        first, last = min(row[-2] for row in rows), max(row[-1] for row in rows)
        entry = tenants[tenant].workloads.get((cluster, workload))
        if entry is None:
            made = WorkloadUse(cluster, workload, rows[0][3], first, last)
            tenants[tenant].workloads[cluster, workload] = made
        else:
            entry.start, entry.end = min(entry.start, first), max(entry.end, last)
    for (tenant, *key), of_leases in of_workloads.items():
        tenants[tenant].workloads[key[0], key[1]].held = Held.total(of_leases)
    for tenant, of_leases in parts.items():
        tenants[tenant].held = Held.total(of_leases)
        tenants[tenant].list_price = exact_sum(list_prices[tenant])


def _grouped(frame: pl.DataFrame, keys: int) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Yield the rows of a frame that is sorted by its first columns, the keys, group by group: keys and the rest."""
    for key, rows in groupby(frame.iter_rows(), key=lambda row: row[:keys]):
        yield key, [row[keys:] for row in rows]


def _unpriced(usage: pl.DataFrame, card: RateCard) -> Iterator[Finding]:
    """Name capacity without a price: it is left out of cost and bill."""
    stretches = (
        with_stretch(usage, card.edges)
        .group_by("model", "stretch")
        .agg(at=pl.col("start").min(), until=pl.col("end").max())
        .sort("model", "stretch")
    )
    missing = [r for r in stretches.iter_rows(named=True) if card.entry(r["model"], r["at"]) is None]
    if missing:
        named = "; ".join(
            f"{r['model'] or 'an unknown model'} from {from_ms(r['at']):{INSTANT}} to {from_ms(r['until']):{INSTANT}}"
            for r in missing[:3]
        )
        yield Finding("unknown_price", len(missing), f"no rate for {named}")


def _out_of_use(outages: pl.DataFrame, within: Interval) -> dict[str, Fraction]:
    """Return the GPU-hours of a period that were out of use, by the tenant whom that hits."""
    out: dict[str, Fraction] = defaultdict(Fraction)
    hits = outages.filter(pl.col("tenant").is_not_null() & (pl.col("start") < within[1]) & (pl.col("end") > within[0]))
    for tenant, gpus, start, end in hits.select("tenant", "gpus", "start", "end").iter_rows():
        out[tenant] += Fraction(gpus) * (min(end, within[1]) - max(start, within[0])) / HOUR_MS
    return out


def _unresolved(allocated: pl.DataFrame) -> Finding:
    names = allocated.filter(pl.col("payer").is_null())["workload"].unique().sort().to_list()
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Finding("unresolved_owner", len(names), f"no tenant's selector matches {', '.join(names[:3])}{more}")
