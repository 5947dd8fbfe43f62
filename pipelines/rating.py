"""Usage × classes × rates → every tenant's hours and money, exact until a line is made.

Nothing here reads a clock or a file: the same usage under the same configuration gives the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.analysis.losses import losses
from pipelines.billing_hours import BILLED, billed_hours
from pipelines.classes import Class, Outage, Piece, Reserved, ReservedStretch, Segment, classify
from pipelines.config import Config, Reservation, Tenant
from pipelines.contract import Contract, Months, credit, decided
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.intervals import Interval, union
from pipelines.metering import Metered
from pipelines.observations import PPB
from pipelines.periods import local_midnights, local_months
from pipelines.rated import ZERO, ByModel, Charge, FleetUse, Held, Rated, TenantUse, WorkloadUse, exact_sum, kwh
from pipelines.rates import RateCard
from pipelines.tables import Finding
from pipelines.tenancy import tenancy

__all__ = ["Charge", "FleetUse", "Held", "Rated", "TenantUse", "WorkloadUse", "clipped", "kwh", "rate"]

LOST: Final = ("idle", "stranded", "down", "repair")
INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class _Scope:
    """What a rating is about: [within) in ms, and the whole local months around it."""

    metered: Metered
    config: Config
    card: RateCard
    cuts: list[int]
    within: Interval
    months: Months
    whole: Interval


def rate(metered: Metered, config: Config, within: Interval) -> Rated:
    """Rate what was metered within a period, given in ms."""
    card = RateCard(config)
    months = local_months(from_ms(within[0]), from_ms(within[1]), config.timezone)
    whole = (to_ms(months[0].start), to_ms(months[-1].end))
    midnights = local_midnights(months[0].start, months[-1].end, config.timezone)
    cuts = sorted({*card.edges, *(to_ms(t) for t in midnights)})
    scope = _Scope(metered, config, card, cuts, within, Months([to_ms(m.start) for m in months]), whole)
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
    charges: list[Charge] = []
    present = {t for t in allocated["payer"].unique() if t} | {r.tenant for r in config.reservations}
    held = dict(allocated.partition_by("payer", as_dict=True).items())
    deciding = held if decisive is allocated else dict(decisive.partition_by("payer", as_dict=True).items())
    nothing = allocated.clear()
    for tenant in sorted(present):
        rows = held.get((tenant,), nothing)
        charges += _tenant(tenant, rows, deciding.get((tenant,), nothing), scope, tenants)
    for tenant, hours in _out_of_use(metered.outages, within).items():
        tenants[tenant].out = hours
    charges += _nobodys(held.get((None,), nothing), card, scope.months, tenants)
    findings += _unpriced(usage, card)
    if None in tenants and tenants[None].held.allocated:
        findings.append(_unresolved(allocated))
    billed = billed_hours(metered.state.get("slurm_billing", pl.DataFrame(schema=BILLED)), config, within)
    return Rated(_fleet(usage, scope), dict(tenants), charges, findings, billed)


def _decisive(allocated: pl.DataFrame, scope: _Scope, owners: pl.DataFrame) -> pl.DataFrame:
    """Return what is allocated in the whole months, where they decide anything."""
    config = scope.config
    if scope.whole == scope.within or not (config.sla.thresholds or any(r.tiers for r in config.rates)):
        return allocated
    return _attributed(clipped(scope.metered.usage, scope.whole), scope.metered.leases, owners)


def clipped(usage: pl.DataFrame, within: Interval) -> pl.DataFrame:
    """Return the usage within a period; a row that straddles its edge counts by its part of the time."""
    start, end = within
    inside = usage.filter((pl.col("start") < end) & (pl.col("end") > start))
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


def _with_stretch(rows: pl.DataFrame, edges: list[int]) -> pl.DataFrame:
    """Add ``stretch``: which stretch between the (sorted) edges a row starts in."""
    return rows.with_columns(
        pl.Series("stretch", np.searchsorted(np.array(edges, np.int64), rows["start"].to_numpy(), side="right"))
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


def _fleet(usage: pl.DataFrame, scope: _Scope) -> FleetUse:
    lost_to = pl.concat(
        [
            _under_repair(usage, scope.metered.outages),
            usage.filter(pl.col("state") != "down").with_columns(lost="state"),
        ]
    )
    grain = ("state", "lost", "model", "owner", "stretch", "weight_num", "weight_den")
    sums = (
        _with_stretch(lost_to, scope.card.edges)
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


def _sum_held(allocated: pl.DataFrame, card: RateCard, tenants: dict[str | None, TenantUse]) -> None:
    """Sum what each lease held and how busy it was; active and waste are computed per lease."""
    grain = ["payer", "id", "lease_cluster", "workload", "model"]
    sums = (
        _with_stretch(allocated, card.edges)
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
    for key, rows in _grouped(sums, grain):
        tenant, lease, cluster, workload, model = key
        use = tenants[tenant]
        # Whole numbers over one denominator; fractions are made once a lease.
        common = lcm(*(row["weight_den"] for row in rows))
        held_ms = seen_ms = busy = 0
        held, price = Held(leases=1), ZERO
        for row in rows:
            weight = row["weight_num"] * (common // row["weight_den"])
            ms = weight * row["ms"]
            held_ms += ms
            if row["seen"]:
                seen_ms += weight * row["seen"]
                busy += weight * int(row["busy"])
            at = (model, row["stretch"])
            if at not in prices:
                prices[at] = (card.price(model, "on_demand", row["start"]) or ZERO) / HOUR_MS
            price += prices[at] * ms
            if row["metered"]:
                held.joules = (held.joules or 0.0) + row["joules"]
        price /= common
        held.allocated = Fraction(held_ms, common)
        if seen_ms:
            mean = Fraction(busy, seen_ms * PPB)
            held.seen = held.allocated if seen_ms == held_ms else Fraction(seen_ms, common)
            held.observed_leases, held.observed_allocated = 1, held.allocated
            held.active, held.waste = held.allocated * mean, price * (1 - mean)
            use.means[lease] = mean
        list_prices[tenant].append(price)
        parts[tenant].append(held)
        first, last = min(r["start"] for r in rows), max(r["end"] for r in rows)
        entry = use.workloads.get((cluster, workload))
        if entry is None:
            own = replace(held)  # further leases are added to it
            use.workloads[cluster, workload] = WorkloadUse(cluster, workload, rows[0]["user"], first, last, own)
        else:
            entry.start, entry.end = min(entry.start, first), max(entry.end, last)
            entry.held.add(held)
    for tenant, of_leases in parts.items():
        tenants[tenant].held = Held.total(of_leases)
        tenants[tenant].list_price = exact_sum(list_prices[tenant])


def _grouped(frame: pl.DataFrame, grain: list[str]) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
    """Yield the rows of a frame sorted by `grain`, group by group."""
    group: list[dict[str, Any]] = []
    current: tuple[Any, ...] | None = None
    for row in frame.iter_rows(named=True):
        key = tuple(row[c] for c in grain)
        if key != current and group:
            yield current or (), group
            group = []
        current = key
        group.append(row)
    if group:
        yield current or (), group


def _segments(rows: pl.DataFrame, cuts: list[int]) -> tuple[list[Segment], list[dict[str, Any]]]:
    """Join contiguous rows of one lease and weight between cuts."""
    grain = ["id", "weight_num", "weight_den", "stretch", "spot"]
    ordered = _with_stretch(rows, cuts).sort(*grain, "start")
    breaks = (pl.col("start") != pl.col("end").shift(1)) | pl.any_horizontal(
        pl.col(c).ne_missing(pl.col(c).shift(1)) for c in grain
    )
    joined = (
        ordered.with_columns(run=breaks.fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            pl.first(*grain, "workload", "lease_cluster", "model", "class", "whole_start", "device", "instance"),
            pl.col("start").min(),
            pl.col("end").max(),
        )
    )
    described = joined.to_dicts()
    segments = [
        Segment(
            order=(row["whole_start"], row["workload"], f"{row['device']}/{row['instance'] or ''}"),
            start=row["start"],
            end=row["end"],
            gpus=Fraction(row["weight_num"], row["weight_den"]),
            model=row["model"],
            given=row["class"],
            spot=row["spot"],
        )
        for row in described
    ]
    return segments, described


def _unpriced(usage: pl.DataFrame, card: RateCard) -> Iterator[Finding]:
    """Name capacity without a price: it is left out of cost and bill."""
    stretches = (
        _with_stretch(usage, card.edges)
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


def _tenant(
    tenant: str, rows: pl.DataFrame, decisive: pl.DataFrame, scope: _Scope, tenants: dict[str | None, TenantUse]
) -> list[Charge]:
    config, card = scope.config, scope.card
    settings = next(t for t in config.tenants if t.id == tenant)
    discounts = settings.discounts_in_force
    plain = Contract(card, discounts, scope.months)
    cuts = sorted({*scope.cuts, *plain.edges}) if discounts else scope.cuts
    pieces, stretches, described = _classified(settings, rows, scope, cuts, scope.within)
    if not pieces and not stretches:
        return []
    contract = plain
    if config.sla.thresholds or any(r.tiers for r in config.rates):
        of_months = (
            (pieces, stretches, described)
            if scope.whole == scope.within
            else _classified(settings, decisive, scope, cuts, scope.whole)
        )
        decision = decided(_hours(of_months[0], of_months[2]), of_months[1], card, scope.months)
        contract = Contract(card, discounts, scope.months, decision)
    use = tenants[tenant]
    by_id = {r.id: r for r in config.reservations if r.tenant == tenant}
    use.has_reservation = bool(stretches)
    _sum_reservations(use, stretches, by_id, contract, scope)
    return _sum_pieces(tenant, use, pieces, described, by_id, contract, scope.months)


_Classified = tuple[list[Piece], list[ReservedStretch], list[dict[str, Any]]]


def _classified(settings: Tenant, rows: pl.DataFrame, scope: _Scope, cuts: list[int], within: Interval) -> _Classified:
    """Return the pieces of one tenant's leases by class, the use of its reservations, and the leases of the pieces."""
    own = [
        r
        for r in scope.config.reservations
        if r.tenant == settings.id and to_ms(r.to) > within[0] and to_ms(r.from_) < within[1]
    ]
    segments, described = _segments(rows, cuts)
    if not segments and not own:
        return [], [], []
    pieces, stretches = classify(
        segments,
        [Reserved(r.id, r.model, r.gpus, to_ms(r.from_), to_ms(r.to)) for r in own],
        _outages(scope.metered.outages, settings.id) if scope.config.sla.credit_downtime else [],
        quota=settings.quota.gpus if settings.quota else None,
        cuts=cuts,
        within=within,
    )
    return pieces, stretches, described


def _hours(pieces: Iterable[Piece], described: list[dict[str, Any]]) -> Iterator[tuple[str | None, str, int, Fraction]]:
    for piece in pieces:
        if piece.reservation is None:
            hours = piece.gpus * (piece.end - piece.start) / HOUR_MS
            yield described[piece.segment]["model"], piece.class_, piece.start, hours


def _nobodys(rows: pl.DataFrame, card: RateCard, months: Months, tenants: dict[str | None, TenantUse]) -> list[Charge]:
    """Charge nobody for what no tenant owns: it has a class and a rate, and stays unbilled."""
    segments, described = _segments(rows, sorted({*card.edges, *months.starts}))
    if not segments:
        return []
    pieces, _ = classify(segments, [], [], quota=None, cuts=(), within=(0, 0))
    return _sum_pieces(None, tenants[None], pieces, described, {}, Contract(card, (), months), months)


def _out_of_use(outages: pl.DataFrame, within: Interval) -> dict[str, Fraction]:
    """Return the GPU-hours of a period that were out of use, by the tenant whom that hits."""
    out: dict[str, Fraction] = defaultdict(Fraction)
    hits = outages.filter(pl.col("tenant").is_not_null() & (pl.col("start") < within[1]) & (pl.col("end") > within[0]))
    for tenant, gpus, start, end in hits.select("tenant", "gpus", "start", "end").iter_rows():
        out[tenant] += Fraction(gpus) * (min(end, within[1]) - max(start, within[0])) / HOUR_MS
    return out


def _outages(outages: pl.DataFrame, tenant: str) -> list[Outage]:
    return [
        Outage(row["start"], row["end"], Fraction(row["gpus"]), row["model"])
        for row in outages.filter(pl.col("tenant") == tenant).iter_rows(named=True)
    ]


def _sum_reservations(
    use: TenantUse,
    stretches: Iterable[ReservedStretch],
    reservations: Mapping[str, Reservation],
    contract: Contract,
    scope: _Scope,
) -> None:
    # Whole ms by what they are charged for: a credit is in proportion to fee and downtime.
    sums: dict[tuple[str, int, int, int], _ReservedMs] = {}
    prices: dict[int, Fraction] = {}
    for stretch in stretches:
        reservation = reservations[stretch.reservation]
        price = contract.reserved(reservation, stretch.start)
        prices[id(price)] = price
        month, card_stretch = scope.months.of(stretch.start), scope.card.stretch(stretch.start)
        key = (stretch.reservation, id(price), month, card_stretch)
        found = sums.setdefault(key, _ReservedMs(stretch.start))
        ms = stretch.end - stretch.start
        found.reserved += stretch.gpus * ms
        found.taken.append((stretch.used + stretch.down) * ms)
        if stretch.down:
            found.down += stretch.down * ms
    for (name, price_id, month, _), found in sums.items():
        reservation, price = reservations[name], prices[price_id]
        unused = (found.reserved - exact_sum(found.taken)) / HOUR_MS
        fee, down = Fraction(found.reserved, HOUR_MS) * price, found.down / HOUR_MS * price
        given_back = credit(scope.config.sla, contract.availability(name, month), fee, down)
        use.reservation += fee
        use.credit += given_back
        use.unused_list_price += unused * (scope.card.on_demand_of(reservation, found.start) or 0)
        for table, amount in (
            (use.fees, fee),
            (use.credits, given_back),
            (use.unused, unused),
            (use.unused_fees, unused * price),
        ):
            table[name] = table.get(name, ZERO) + amount
        use.fees_spent[month] = use.fees_spent.get(month, ZERO) + fee


@dataclass
class _ReservedMs:
    """GPU-ms of a reservation at one price within a month: all, what was in use or down, and what was down."""

    start: int
    reserved: int = 0
    taken: list[Fraction] = field(default_factory=list)
    down: Fraction = ZERO


def _sum_pieces(
    tenant: str | None,
    use: TenantUse,
    pieces: Iterable[Piece],
    described: list[dict[str, Any]],
    reservations: Mapping[str, Reservation],
    contract: Contract,
    months: Months,
) -> list[Charge]:
    charges = []
    # Whole ms by what they are charged for; one product per price, not one per piece.
    whole: dict[tuple[int, Class, bool, int, int, int], int] = {}
    prices: dict[int, Fraction] = {id(None): ZERO}
    for piece in pieces:
        row = described[piece.segment]
        if piece.reservation is not None:
            price: Fraction | None = contract.reserved(reservations[piece.reservation], piece.start)
        else:
            price = contract.usage(row["model"], piece.class_, piece.start)
        if price is not None:
            prices[id(price)] = price
        key = (
            piece.segment,
            piece.class_,
            piece.reservation is None,
            id(price),
            months.of(piece.start),
            piece.gpus.denominator,
        )
        whole[key] = whole.get(key, 0) + piece.gpus.numerator * (piece.end - piece.start)
        charges.append(
            Charge(
                tenant, row["id"], row["workload"], row["model"], piece.start, piece.end, piece.gpus,
                piece.class_, piece.reservation, price,
            )
        )  # fmt: skip
    for (segment, class_, outside, price_id, month, denominator), amount in whole.items():
        hours = Fraction(amount, denominator * HOUR_MS)
        money = hours * prices[price_id]
        row = described[segment]
        workload = use.workloads[row["lease_cluster"], row["workload"]]
        use.hours[class_] += hours
        if outside:
            workload.usage += money
            use.usage += money
            use.spent[month] = use.spent.get(month, ZERO) + money
        else:
            workload.reserved_cost += money
    return charges


def _unresolved(allocated: pl.DataFrame) -> Finding:
    names = allocated.filter(pl.col("payer").is_null())["workload"].unique().sort().to_list()
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Finding("unresolved_owner", len(names), f"no tenant's selector matches {', '.join(names[:3])}{more}")
