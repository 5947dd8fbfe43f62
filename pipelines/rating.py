"""Usage × classes × rates → every tenant's hours and money, exact until a line is made.

Nothing here reads a clock or a file: the same usage under the same configuration gives the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.classes import CLASSES, Class, Outage, Piece, Reserved, ReservedStretch, Segment, classify
from pipelines.config import Config, Reservation
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.intervals import Interval
from pipelines.metering import Metered
from pipelines.observations import PPB
from pipelines.periods import local_midnights
from pipelines.rates import RateCard
from pipelines.tables import Finding
from pipelines.tenancy import tenancy

ZERO: Final = Fraction(0)
INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass
class Held:
    """Sums over what one lease, workload or tenant held in the period, in GPU-ms unless said.

    Attributes:
        seen, busy: of what was observed; busy is the activity in it.
        observed_allocated, active: of the leases ever observed.
        waste: money, (allocated − active) at the on-demand rate.
        leases: how many leases, and how many of them were ever observed.
    """

    allocated: Fraction = ZERO
    seen: Fraction = ZERO
    observed_allocated: Fraction = ZERO
    active: Fraction = ZERO
    waste: Fraction = ZERO
    leases: int = 0
    observed_leases: int = 0
    joules: float | None = None

    def add(self, other: Held) -> None:
        """Add another's sums."""
        self.allocated += other.allocated
        self.seen += other.seen
        self.observed_allocated += other.observed_allocated
        self.active += other.active
        self.waste += other.waste
        self.leases += other.leases
        self.observed_leases += other.observed_leases
        if other.joules is not None:
            self.joules = (self.joules or 0.0) + other.joules

    @property
    def utilization(self) -> Fraction | None:
        """Active ÷ the allocated hours of the observed leases."""
        return self.active / self.observed_allocated if self.observed_allocated else None

    @property
    def coverage(self) -> Fraction | None:
        """The share of the allocated time with a valid busy sample."""
        return self.seen / self.allocated if self.allocated else None


@dataclass
class WorkloadUse:
    """A workload of one tenant in the period."""

    cluster: str
    workload: str
    user: str | None
    start: int
    end: int
    held: Held = field(default_factory=Held)
    usage: Fraction = ZERO
    reserved_cost: Fraction = ZERO


@dataclass
class TenantUse:
    """What one tenant held in the period, and what its own lines come to before rounding.

    Attributes:
        hours: GPU-hours by class.
        list_price: allocated hours at the on-demand rate.
        unused: unused reserved hours by reservation; `unused_list_price` at the on-demand rate.
        fees, credits: money by reservation.
        means: how busy each lease was, where it was observed.
    """

    held: Held = field(default_factory=Held)
    hours: dict[Class, Fraction] = field(default_factory=lambda: dict.fromkeys(CLASSES, ZERO))
    workloads: dict[tuple[str, str], WorkloadUse] = field(default_factory=dict)
    usage: Fraction = ZERO
    reservation: Fraction = ZERO
    credit: Fraction = ZERO
    list_price: Fraction = ZERO
    unused: dict[str, Fraction] = field(default_factory=dict)
    unused_list_price: Fraction = ZERO
    fees: dict[str, Fraction] = field(default_factory=dict)
    credits: dict[str, Fraction] = field(default_factory=dict)
    means: dict[str, Fraction] = field(default_factory=dict)
    has_reservation: bool = False


@dataclass
class FleetUse:
    """Where the fleet's device time went, in GPU-hours by state, and what it is worth.

    Attributes:
        idle: idle hours by model, and their on-demand price; `owned_idle` the same by owner of dedicated devices.
    """

    hours: dict[str, Fraction]
    capacity_price: Fraction
    devices: int
    joules: float | None
    idle: dict[str | None, tuple[Fraction, Fraction]]
    owned_idle: dict[str, dict[str | None, tuple[Fraction, Fraction]]]


@dataclass(frozen=True)
class Charge:
    """A part of a lease in one class at one rate (None: no price is known)."""

    tenant: str | None
    lease: str
    workload: str
    model: str | None
    start: int
    end: int
    gpus: Fraction
    class_: Class
    reservation: str | None
    rate: Fraction | None


@dataclass
class Rated:
    """A period, rated; `tenants` holds None for what no tenant owns."""

    fleet: FleetUse
    tenants: dict[str | None, TenantUse]
    charges: list[Charge]
    findings: list[Finding]


def rate(metered: Metered, config: Config, within: Interval) -> Rated:
    """Rate what was metered within a period, given in ms."""
    card = RateCard(config)
    midnights = local_midnights(from_ms(within[0]), from_ms(within[1]), config.timezone)
    cuts = sorted({*card.edges, *(to_ms(t) for t in midnights)})
    usage = clipped(metered.usage, within)
    findings: list[Finding] = []
    fleet = _fleet(usage, card)
    owners = tenancy(metered.leases, config)
    allocated = _attributed(usage, metered.leases, owners)
    tenants: dict[str | None, TenantUse] = defaultdict(TenantUse)
    _sum_held(allocated, card, tenants)
    charges: list[Charge] = []
    for tenant in sorted({t for t in allocated["payer"].unique() if t} | {r.tenant for r in config.reservations}):
        rows = allocated.filter(pl.col("payer") == tenant)
        charges += _tenant(tenant, rows, metered, config, card, cuts, within, tenants)
    charges += _nobodys(allocated.filter(pl.col("payer").is_null()), card, cuts, tenants)
    findings += _unpriced(usage, card)
    if None in tenants and tenants[None].held.allocated:
        findings.append(_unresolved(allocated))
    return Rated(fleet, dict(tenants), charges, findings)


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


def _fleet(usage: pl.DataFrame, card: RateCard) -> FleetUse:
    sums = (
        _with_stretch(usage, card.edges)
        .group_by("state", "model", "owner", "stretch", "weight_num", "weight_den")
        .agg(ms=(pl.col("end") - pl.col("start")).sum(), at=pl.col("start").min())
    )
    hours: dict[str, Fraction] = defaultdict(Fraction)
    price = ZERO
    idle: dict[str | None, tuple[Fraction, Fraction]] = {}
    owned: dict[str, dict[str | None, tuple[Fraction, Fraction]]] = defaultdict(dict)
    for row in sums.sort("state", "model", "owner", "stretch", "weight_num", "weight_den").iter_rows(named=True):
        amount = Fraction(row["ms"] * row["weight_num"], row["weight_den"] * HOUR_MS)
        hours[row["state"]] += amount
        rate_ = card.price(row["model"], "on_demand", row["at"])
        price += amount * (rate_ or 0)
        if row["state"] == "idle":
            for table in (idle, *([owned[row["owner"]]] if row["owner"] else [])):
                h, p = table.get(row["model"], (ZERO, ZERO))
                table[row["model"]] = (h + amount, p + amount * (rate_ or 0))
    energy = usage["energy_joules"].drop_nulls()
    return FleetUse(
        hours=hours,
        capacity_price=price,
        devices=usage.select(pl.struct("cluster", "device").n_unique()).item() if usage.height else 0,
        joules=float(energy.sum()) if len(energy) else None,
        idle=idle,
        owned_idle=owned,
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
    for key, rows in _grouped(sums, grain):
        tenant, lease, cluster, workload, model = key
        held, busy, price = Held(leases=1), ZERO, ZERO
        for row in rows:
            weight = Fraction(row["weight_num"], row["weight_den"])
            held.allocated += weight * row["ms"]
            held.seen += weight * row["seen"]
            busy += weight * int(row["busy"]) / PPB
            price += weight * row["ms"] / HOUR_MS * (card.price(model, "on_demand", row["start"]) or 0)
            if row["metered"]:
                held.joules = (held.joules or 0.0) + row["joules"]
        if held.seen:
            mean = busy / held.seen
            held.observed_leases, held.observed_allocated = 1, held.allocated
            held.active, held.waste = held.allocated * mean, price * (1 - mean)
            tenants[tenant].means[lease] = mean
        use = tenants[tenant]
        use.list_price += price
        entry = use.workloads.setdefault(
            (cluster, workload), WorkloadUse(cluster, workload, rows[0]["user"], rows[0]["start"], rows[0]["end"])
        )
        entry.start = min(entry.start, *(r["start"] for r in rows))
        entry.end = max(entry.end, *(r["end"] for r in rows))
        entry.held.add(held)
        use.held.add(held)


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
    tenant: str,
    rows: pl.DataFrame,
    metered: Metered,
    config: Config,
    card: RateCard,
    cuts: list[int],
    within: Interval,
    tenants: dict[str | None, TenantUse],
) -> list[Charge]:
    segments, described = _segments(rows, cuts)
    own = [
        r for r in config.reservations if r.tenant == tenant and to_ms(r.to) > within[0] and to_ms(r.from_) < within[1]
    ]
    if not segments and not own:
        return []
    settings = next(t for t in config.tenants if t.id == tenant)
    pieces, stretches = classify(
        segments,
        [Reserved(r.id, r.model, r.gpus, to_ms(r.from_), to_ms(r.to)) for r in own],
        _outages(metered.outages, tenant) if config.sla.credit_downtime else [],
        quota=settings.quota.gpus if settings.quota else None,
        cuts=cuts,
        within=within,
    )
    use = tenants[tenant]
    by_id = {r.id: r for r in own}
    use.has_reservation = bool(own)
    _sum_reservations(use, stretches, by_id, card)
    return _sum_pieces(tenant, use, pieces, described, by_id, card)


def _nobodys(rows: pl.DataFrame, card: RateCard, cuts: list[int], tenants: dict[str | None, TenantUse]) -> list[Charge]:
    """Charge nobody for what no tenant owns: it has a class and a rate, and stays unbilled."""
    segments, described = _segments(rows, cuts)
    if not segments:
        return []
    pieces, _ = classify(segments, [], [], quota=None, cuts=(), within=(0, 0))
    return _sum_pieces(None, tenants[None], pieces, described, {}, card)


def _outages(outages: pl.DataFrame, tenant: str) -> list[Outage]:
    return [
        Outage(row["start"], row["end"], Fraction(row["gpus"]), row["model"])
        for row in outages.filter(pl.col("tenant") == tenant).iter_rows(named=True)
    ]


def _sum_reservations(
    use: TenantUse, stretches: Iterable[ReservedStretch], reservations: Mapping[str, Reservation], card: RateCard
) -> None:
    for stretch in stretches:
        hours = Fraction(stretch.end - stretch.start, HOUR_MS)
        reservation = reservations[stretch.reservation]
        price = card.reserved(reservation, stretch.start)
        fee, credit = stretch.gpus * hours * price, stretch.down * hours * price
        use.reservation += fee
        use.credit += credit
        use.fees[reservation.id] = use.fees.get(reservation.id, ZERO) + fee
        use.credits[reservation.id] = use.credits.get(reservation.id, ZERO) + credit
        unused = (stretch.gpus - stretch.used - stretch.down) * hours
        use.unused[reservation.id] = use.unused.get(reservation.id, ZERO) + unused
        use.unused_list_price += unused * (card.on_demand_of(reservation, stretch.start) or 0)


def _sum_pieces(
    tenant: str | None,
    use: TenantUse,
    pieces: Iterable[Piece],
    described: list[dict[str, Any]],
    reservations: Mapping[str, Reservation],
    card: RateCard,
) -> list[Charge]:
    charges = []
    for piece in pieces:
        row = described[piece.segment]
        hours = piece.gpus * (piece.end - piece.start) / HOUR_MS
        use.hours[piece.class_] += hours
        workload = use.workloads[row["lease_cluster"], row["workload"]]
        if piece.reservation is not None:
            price: Fraction | None = card.reserved(reservations[piece.reservation], piece.start)
            workload.reserved_cost += hours * (price or 0)
        else:
            price = card.price(row["model"], piece.class_, piece.start)
            workload.usage += hours * (price or 0)
            use.usage += hours * (price or 0)
        charges.append(
            Charge(
                tenant, row["id"], row["workload"], row["model"], piece.start, piece.end, piece.gpus,
                piece.class_, piece.reservation, price,
            )
        )  # fmt: skip
    return charges


def _unresolved(allocated: pl.DataFrame) -> Finding:
    names = allocated.filter(pl.col("payer").is_null())["workload"].unique().sort().to_list()
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Finding("unresolved_owner", len(names), f"no tenant's selector matches {', '.join(names[:3])}{more}")


def kwh(joules: float | None) -> Fraction | None:
    """Return energy in kWh; measured to the millionth of a Wh, so that money on it is exact."""
    return None if joules is None else Fraction(Decimal(repr(round(joules / 3_600_000, 9))))
