"""Capacity that nobody held, by what stood in the way: nothing, a reservation, a neighbour, a MIG layout, a fault."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.config import Config, Reservation
from pipelines.idle.held import SLACK_MS
from pipelines.idle.items import Item
from pipelines.idle.spans import runs, split
from pipelines.instants import HOUR_MS, to_ms
from pipelines.intervals import Interval
from pipelines.rated import Rated
from pipelines.rates import RateCard
from pipelines.selectors import glob_matches

ZERO: Final = Fraction(0)
_GROUP: Final = ["cause", "cluster", "node", "model", "owner"]
_LENDABLE: Final = ("unallocated", "fragmented")
_NAMED: Final = 5  # workloads, cards and layouts that evidence names


def free_items(usage: pl.DataFrame, leases: pl.DataFrame, rated: Rated, config: Config, within: Interval) -> list[Item]:
    """Return what nobody held; its hours are the report's idle, stranded and down ones.

    A GPU is fragmented while it is whole and free and another GPU of its node is held or down: no job that wants the
    whole node can have it. What unused reservations could have used is theirs, model by model as idle capacity is
    shared: of unallocated and fragmented hours alike.

    Args:
        usage: rollup.USAGE of the period, clipped to it.
        leases: metering.LEASE.
    """
    rows = _by_cause(usage)
    items = list(_grouped(rows, usage, leases, config, within))
    return _with_reservations(items, rated, config, within)


def _by_cause(usage: pl.DataFrame) -> pl.DataFrame:
    """Return usage that nobody held, cut where its ``cause`` changes, with its ``ms``."""
    nodes = usage.select("cluster", "node").unique().sort("cluster", "node", nulls_last=True).with_row_index("key")
    keyed = usage.join(nodes, on=["cluster", "node"], nulls_equal=True, maintain_order="left")
    taken = keyed.filter(pl.col("state").is_in(["allocated", "down"]) & pl.col("node").is_not_null())
    free = keyed.filter(pl.col("state").is_in(["idle", "stranded", "down"])).with_columns(
        cause=pl.when(pl.col("state") == "idle").then(pl.lit("unallocated")).otherwise("state")
    )
    whole = (pl.col("state") == "idle") & pl.col("instance").is_null() & (pl.col("weight_num") == pl.col("weight_den"))
    beside, alone = split(free.filter(whole), taken)
    fragmented = beside.with_columns(cause=pl.lit("fragmented"))
    return pl.concat([free.filter(~whole), alone, fragmented]).with_columns(ms=pl.col("end") - pl.col("start"))


def _grouped(
    rows: pl.DataFrame, usage: pl.DataFrame, leases: pl.DataFrame, config: Config, within: Interval
) -> Iterator[Item]:
    card = RateCard(config)
    stretch = np.searchsorted(np.array(card.edges, np.int64), rows["start"].to_numpy(), side="right")
    grain = [*_GROUP, "stretch", "weight_num", "weight_den"]
    sums = (
        rows.with_columns(pl.Series("stretch", stretch))
        .group_by(grain)
        .agg(pl.col("ms").sum(), at=pl.col("start").min(), last=pl.col("end").max(), cards=pl.col("device").n_unique())
        .sort(grain, nulls_last=True)
    )
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in sums.iter_rows(named=True):
        groups[tuple(row[c] for c in _GROUP)].append(row)
    going_on = _going_on(rows, within)
    about = _Evidence(usage, leases, rows)
    for key, of in groups.items():
        cause, cluster, node, model, owner = key
        hours, worth, priced = ZERO, ZERO, True
        for row in of:
            amount = Fraction(row["ms"] * row["weight_num"], row["weight_den"] * HOUR_MS)
            price = card.price(model, "on_demand", row["at"])
            hours, worth, priced = hours + amount, worth + amount * (price or 0), priced and price is not None
        since, now = going_on.get(key, (None, 0))
        yield Item(
            cause, node or f"{cluster} without a node", cluster, owner, None, node, model, hours,
            worth if priced else None, min(r["at"] for r in of), max(r["last"] for r in of), since,
            now or max(r["cards"] for r in of), about.of(cause, cluster, node),
        )  # fmt: skip


def _going_on(rows: pl.DataFrame, within: Interval) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return by group since when it goes on at the period's end, and of how many cards."""
    end = min(within[1], rows.select(pl.col("end").max()).item() or within[1])
    last = runs(rows, [*_GROUP, "device", "instance"]).filter(pl.col("end") >= end - SLACK_MS)
    per_group = last.group_by(_GROUP).agg(pl.col("start").min(), cards=pl.col("device").n_unique())
    return {tuple(row[:-2]): (row[-2], row[-1]) for row in per_group.iter_rows()}


class _Evidence:
    """What shows a group's cause: who is in the way, how cards are cut, which ones are down."""

    def __init__(self, usage: pl.DataFrame, leases: pl.DataFrame, rows: pl.DataFrame) -> None:
        names = leases.select("workload", lease="id")
        key = ["cluster", "node"]
        held = usage.filter(pl.col("state") == "allocated")
        latest = held.filter(pl.col("end") > pl.col("end").max().over(key) - HOUR_MS)
        self._holders = _lists(latest.join(names, on="lease"), key, "workload")
        self._layouts = _lists(_layouts(usage, rows), key, "layout")
        self._down = _lists(rows.filter(pl.col("cause") == "down"), key, "device")
        self._sizes = dict(_sizes(usage, key))

    def of(self, cause: str, cluster: str | None, node: str | None) -> dict[str, Any]:
        key = (cluster, node)
        size = {"gpus_of_node": self._sizes[key]} if key in self._sizes else {}
        if cause == "fragmented":
            return {**size, "held_by": self._holders.get(key, [])}
        if cause == "stranded":
            return {"layouts": self._layouts.get(key, [])}
        return {"cards": self._down.get(key, [])} if cause == "down" else size


def _layouts(usage: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return how each card was cut when a part of it was stranded last: ``layout`` by cluster, node and device."""
    card = ["cluster", "node", "device"]
    last = rows.filter(pl.col("cause") == "stranded").group_by(card).agg(at=pl.col("start").max())
    cut = usage.filter(pl.col("profile").is_not_null()).join(last, on=card, nulls_equal=True)
    then = cut.filter((pl.col("start") <= pl.col("at")) & (pl.col("end") > pl.col("at"))).unique([*card, "instance"])
    named = then.group_by(card).agg(profiles=pl.col("profile").sort(descending=True).str.join(" + "))
    return named.with_columns(layout=pl.format("{}: {}", "device", "profiles"))


def _sizes(usage: pl.DataFrame, key: list[str]) -> Iterator[tuple[tuple[str | None, str | None], int]]:
    sizes = usage.filter(pl.col("node").is_not_null()).group_by(key).agg(pl.col("device").n_unique())
    for cluster, node, cards in sizes.iter_rows():
        yield (cluster, node), cards


def _lists(rows: pl.DataFrame, key: list[str], column: str) -> dict[tuple[Any, ...], list[str]]:
    """Return the first few different values by key."""
    found = rows.group_by(key).agg(pl.col(column).unique().sort().head(_NAMED))
    return {tuple(row[:-1]): row[-1] for row in found.iter_rows()}


def _with_reservations(items: list[Item], rated: Rated, config: Config, within: Interval) -> list[Item]:
    """Take what unused reservations could have used out of the idle items, and add it as theirs."""
    idle = [item for item in items if item.cause in _LENDABLE]
    left = _sums((item.model, item.gpu_hours) for item in idle)
    whole = dict(left)
    worth = _sums((item.model, item.worth or ZERO) for item in idle)
    reserved = []
    for reservation in config.reservations:
        use = rated.tenants.get(reservation.tenant)
        unused = use.unused.get(reservation.id, ZERO) if use is not None else ZERO
        open_hours, taken, money = unused, ZERO, ZERO
        for model in sorted((m for m in left if glob_matches(reservation.model, m or "")), key=str):
            take = min(open_hours, left[model])
            left[model] -= take
            open_hours -= take
            taken += take
            money += worth[model] * take / whole[model] if whole[model] else ZERO
        if not taken or use is None:
            continue
        first = max(to_ms(reservation.from_), within[0])
        last = min(to_ms(reservation.to), within[1])
        span = Fraction(last - first, HOUR_MS)
        since, gpus = _unused_now(rated, reservation, first, last)
        evidence = {
            "reserved_gpus": reservation.gpus,
            "unused_gpu_hours": round(float(unused), 6),
            "mean_unused_gpus": round(float(unused / span), 2) if span else 0.0,
        }
        reserved.append(
            Item(
                "reserved_unused", reservation.id, None, reservation.tenant, None, None, reservation.model, taken,
                money, first, last, since if last == within[1] else None, gpus, evidence,
            )
        )  # fmt: skip
    rest = {model: left[model] / hours for model, hours in whole.items() if hours}
    kept = [_part(item, rest[item.model]) if item.cause in _LENDABLE else item for item in items]
    return [item for item in [*reserved, *kept] if item.gpu_hours]


def _unused_now(rated: Rated, reservation: Reservation, first: int, last: int) -> tuple[int | None, int]:
    """Return since when, up to `last`, not all of a reservation was used, and how many of its GPUs are not."""
    used: dict[int, Fraction] = {first: ZERO}
    for charge in rated.charges:
        if charge.tenant == reservation.tenant and charge.reservation == reservation.id:
            used[charge.start] = used.get(charge.start, ZERO) + charge.gpus
            used[charge.end] = used.get(charge.end, ZERO) - charge.gpus
    since, now, before = None, ZERO, ZERO
    for t in sorted(t for t in used if t < last):
        now += used[t]
        if now >= reservation.gpus:
            since = None
        elif since is None:
            since = t
        before = reservation.gpus - now
    return since, ceil(before)


def _part(item: Item, share: Fraction) -> Item:
    return replace(item, gpu_hours=item.gpu_hours * share, worth=None if item.worth is None else item.worth * share)


def _sums(pairs: Iterable[tuple[str | None, Fraction]]) -> dict[str | None, Fraction]:
    found: dict[str | None, Fraction] = defaultdict(Fraction)
    for key, amount in pairs:
        found[key] += amount
    return dict(found)


def hours_by_cause(items: Iterable[Item]) -> Mapping[str, Fraction]:
    """Return GPU-hours by cause."""
    found: dict[str, Fraction] = defaultdict(Fraction)
    for item in items:
        found[item.cause] += item.gpu_hours
    return found
