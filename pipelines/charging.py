"""What is allocated → charges: each tenant's leases by class and at their price, and what its reservations come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl

from pipelines.classes import Class, Outage, Piece, Reserved, ReservedStretch, Segment, classify
from pipelines.config import Config, Reservation, Tenant
from pipelines.contract import Contract, Months, credit, decided
from pipelines.instants import HOUR_MS, to_ms
from pipelines.intervals import Interval
from pipelines.metering import Metered
from pipelines.rated import ZERO, Charge, TenantUse, exact_sum
from pipelines.rates import RateCard


@dataclass(frozen=True)
class Scope:
    """What a rating is about: [within) in ms, and the whole local months around it.

    Attributes:
        cuts: where prices may change for everybody, and local midnights.
    """

    metered: Metered
    config: Config
    card: RateCard
    cuts: list[int]
    within: Interval
    months: Months
    whole: Interval

    @property
    def months_decide(self) -> bool:
        """Whether anything is decided by whole months: volume tiers, availability."""
        return bool(self.config.sla.thresholds or any(r.tiers for r in self.config.rates))


class Leased(NamedTuple):
    """The lease that a segment is a part of."""

    id: str
    cluster: str
    workload: str
    model: str | None


@dataclass
class Segments:
    """One payer's segments, in order, and the lease of each."""

    segments: list[Segment] = field(default_factory=list)
    leases: list[Leased] = field(default_factory=list)


def charge(
    allocated: pl.DataFrame, decisive: pl.DataFrame, scope: Scope, tenants: dict[str | None, TenantUse]
) -> list[Charge]:
    """Return all charges, and add to each tenant's use what its own lines come to.

    Args:
        allocated: usage of the period with its lease's attributes, ``payer`` and ``spot``.
        decisive: the same of the whole months, where they decide anything; else `allocated` itself.
    """
    held = set(allocated["payer"].unique())
    present = sorted({t for t in held if t} | {r.tenant for r in scope.config.reservations})
    settings = {t.id: t for t in scope.config.tenants}
    contracts = {t: Contract(scope.card, settings[t].discounts_in_force, scope.months) for t in present}
    cuts: dict[str | None, list[int]] = {
        t: sorted({*scope.cuts, *contracts[t].edges}) if settings[t].discounts else scope.cuts for t in present
    }
    if None in held:
        cuts[None] = sorted({*scope.card.edges, *scope.months.starts})
    found = segments_of(allocated, cuts)
    deciding = found if decisive is allocated else segments_of(decisive, cuts)
    charges: list[Charge] = []
    for t in present:
        charges += _tenant(settings[t], found[t], deciding[t], contracts[t], cuts[t], scope, tenants)
    if None in held:
        charges += _nobodys(found[None], scope, tenants[None])
    return charges


def segments_of(rows: pl.DataFrame, cuts: Mapping[str | None, list[int]]) -> Mapping[str | None, Segments]:
    """Return each payer's segments, cut at that payer's cuts; who has none has an empty one."""
    alike: dict[tuple[int, ...], list[str | None]] = defaultdict(list)
    for payer, own in cuts.items():
        alike[tuple(own)].append(payer)
    found: dict[str | None, Segments] = defaultdict(Segments)
    for own_cuts, payers in alike.items():
        mine = pl.col("payer").is_in(pl.Series(payers, dtype=pl.String).implode(), nulls_equal=True)
        _add_segments(rows.filter(mine), own_cuts, found)
    return found


def _add_segments(rows: pl.DataFrame, cuts: Sequence[int], found: dict[str | None, Segments]) -> None:
    """Join contiguous rows of one lease and weight between cuts."""
    grain = ["payer", "id", "weight_num", "weight_den", "stretch", "spot"]
    ordered = with_stretch(rows, cuts).sort(*grain, "start")
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
        .select(
            "payer", "id", "lease_cluster", "workload", "model", "device", "instance", "weight_num", "weight_den",
            "whole_start", "start", "end", "class", "spot",
        )
    )  # fmt: skip
    gpus: dict[tuple[int, int], Fraction] = {}
    for (
        payer,
        lease,
        cluster,
        workload,
        model,
        device,
        instance,
        *weight,
        since,
        start,
        end,
        given,
        spot,
    ) in joined.iter_rows():
        num, den = weight
        share = gpus.get((num, den))
        if share is None:
            share = gpus[num, den] = Fraction(num, den)
        own = found[payer]
        order = (since, workload, f"{device}/{instance or ''}")
        own.segments.append(Segment(order, start, end, share, model, given, spot))
        own.leases.append(Leased(lease, cluster, workload, model))


def with_stretch(rows: pl.DataFrame, edges: Sequence[int]) -> pl.DataFrame:
    """Add ``stretch``: which stretch between the (sorted) edges a row starts in."""
    return rows.with_columns(
        pl.Series("stretch", np.searchsorted(np.array(edges, np.int64), rows["start"].to_numpy(), side="right"))
    )


_Classified = tuple[list[Piece], list[ReservedStretch]]


def _tenant(
    settings: Tenant,
    own: Segments,
    deciding: Segments,
    contract: Contract,
    cuts: list[int],
    scope: Scope,
    tenants: dict[str | None, TenantUse],
) -> list[Charge]:
    pieces, stretches = _classified(settings, own, scope, cuts, scope.within)
    if not pieces and not stretches:
        return []
    if scope.months_decide:
        whole = scope.whole == scope.within
        all_pieces, all_stretches = (
            (pieces, stretches) if whole else _classified(settings, deciding, scope, cuts, scope.whole)
        )
        decision = decided(_hours(all_pieces, deciding.leases), all_stretches, scope.card, scope.months)
        contract = Contract(scope.card, settings.discounts_in_force, scope.months, decision)
    use = tenants[settings.id]
    by_id = {r.id: r for r in scope.config.reservations if r.tenant == settings.id}
    use.has_reservation = bool(stretches)
    _sum_reservations(use, stretches, by_id, contract, scope)
    return _sum_pieces(settings.id, use, pieces, own.leases, by_id, contract, scope.months)


def _classified(settings: Tenant, own: Segments, scope: Scope, cuts: list[int], within: Interval) -> _Classified:
    """Return the pieces of one tenant's leases by class, and the use of its reservations."""
    reservations = [
        Reserved(r.id, r.model, r.gpus, to_ms(r.from_), to_ms(r.to))
        for r in scope.config.reservations
        if r.tenant == settings.id and to_ms(r.to) > within[0] and to_ms(r.from_) < within[1]
    ]
    if not own.segments and not reservations:
        return [], []
    return classify(
        own.segments,
        reservations,
        _outages(scope.metered.outages, settings.id) if scope.config.sla.credit_downtime else [],
        quota=settings.quota.gpus if settings.quota else None,
        cuts=cuts,
        within=within,
    )


def _outages(outages: pl.DataFrame, tenant: str) -> list[Outage]:
    own = outages.filter(pl.col("tenant") == tenant) if outages.height else outages
    return [Outage(row["start"], row["end"], Fraction(row["gpus"]), row["model"]) for row in own.iter_rows(named=True)]


def _hours(pieces: Iterable[Piece], leases: Sequence[Leased]) -> Iterator[tuple[str | None, str, int, Fraction]]:
    for piece in pieces:
        if piece.reservation is None:
            hours = piece.gpus * (piece.end - piece.start) / HOUR_MS
            yield leases[piece.segment].model, piece.class_, piece.start, hours


def _nobodys(own: Segments, scope: Scope, use: TenantUse) -> list[Charge]:
    """Charge nobody for what no tenant owns: it has a class and a rate, and stays unbilled."""
    pieces, _ = classify(own.segments, [], [], quota=None, cuts=(), within=(0, 0))
    return _sum_pieces(None, use, pieces, own.leases, {}, Contract(scope.card, (), scope.months), scope.months)


def _sum_reservations(
    use: TenantUse,
    stretches: Iterable[ReservedStretch],
    reservations: Mapping[str, Reservation],
    contract: Contract,
    scope: Scope,
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
    leases: Sequence[Leased],
    reservations: Mapping[str, Reservation],
    contract: Contract,
    months: Months,
) -> list[Charge]:
    charges = []
    # Whole ms by what they are charged for: one product per price, not one per piece.
    by_class: dict[tuple[Class, int], int] = {}
    by_month: dict[tuple[int, int, int], int] = {}
    by_workload: dict[tuple[str, str, bool, int, int], int] = {}
    prices: dict[int, Fraction] = {id(None): ZERO}
    for piece in pieces:
        lease, gpus, outside = leases[piece.segment], piece.gpus, piece.reservation is None
        if piece.reservation is not None:
            price: Fraction | None = contract.reserved(reservations[piece.reservation], piece.start)
        else:
            price = contract.usage(lease.model, piece.class_, piece.start)
        at = id(price)
        if price is not None:
            prices[at] = price
        part, denominator = gpus.numerator * (piece.end - piece.start), gpus.denominator
        of_class = (piece.class_, denominator)
        by_class[of_class] = by_class.get(of_class, 0) + part
        if outside:
            of_month = (months.of(piece.start), at, denominator)
            by_month[of_month] = by_month.get(of_month, 0) + part
        of_workload = (lease.cluster, lease.workload, outside, at, denominator)
        by_workload[of_workload] = by_workload.get(of_workload, 0) + part
        charges.append(
            Charge(
                tenant, lease.id, lease.workload, lease.model, piece.start, piece.end, gpus,
                piece.class_, piece.reservation, price,
            )
        )  # fmt: skip
    for (class_, denominator), amount in by_class.items():
        use.hours[class_] += Fraction(amount, denominator * HOUR_MS)
    for (month, at, denominator), amount in by_month.items():
        money = _money(amount, denominator, prices[at])
        use.usage += money
        use.spent[month] = use.spent.get(month, ZERO) + money
    for (cluster, name, outside, at, denominator), amount in by_workload.items():
        workload, money = use.workloads[cluster, name], _money(amount, denominator, prices[at])
        # Most workloads have one price: a sum of fractions costs as much where one of them is 0.
        if outside:
            workload.usage = workload.usage + money if workload.usage else money
        else:
            workload.reserved_cost = workload.reserved_cost + money if workload.reserved_cost else money
    return charges


def _money(amount: int, denominator: int, price: Fraction) -> Fraction:
    """Return what GPU-ms cost at a price per GPU-hour."""
    return Fraction(amount * price.numerator, denominator * HOUR_MS * price.denominator)
