"""What exists: cards and their MIG instances, seen or only listed, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import polars as pl

from pipelines.intervals import Interval, overlaps, subtract, union
from pipelines.leases import Lease
from pipelines.observations import Observations
from pipelines.quality import Scrapes
from pipelines.tables import Finding


@dataclass
class Device:
    """A schedulable accelerator: a whole card, or one MIG instance of it.

    Attributes:
        dev: its number; instances have another number than their card.
        presence: where it was observed.
        exists: of a card, where it is capacity; of an instance, where the card's layout has it.
        free_slices: (from, count) steps: time slices that are seen and name no owner.
    """

    dev: int
    card: int
    cluster: str | None
    device: str
    instance: str | None = None
    profile: str | None = None
    model: str | None = None
    node: str | None = None
    presence: list[Interval] = field(default_factory=list)
    exists: list[Interval] = field(default_factory=list)
    free_slices: list[tuple[int, int]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The device's name: UUID, or UUID/instance."""
        return self.device if self.instance is None else f"{self.device}/{self.instance}"


@dataclass(frozen=True)
class Listing:
    """An inventory row, as it bears on one card."""

    start: int
    end: int
    slots: int | None
    owner: str | None


@dataclass
class Fleet:
    """All devices by number, with what the inventory says of the cards.

    Attributes:
        instances: the MIG instances of a card, by the card's number.
        hulls: of a seen card, from its first sample to its last one's reach.
        listings: of a card, by number.
        spare: cards that stand in, while it isn't seen, for one that is seen at another time.
    """

    devices: list[Device] = field(default_factory=list)
    instances: dict[int, list[int]] = field(default_factory=dict)
    hulls: dict[int, Interval] = field(default_factory=dict)
    listings: dict[int, list[Listing]] = field(default_factory=dict)
    spare: set[int] = field(default_factory=set)
    has_inventory: bool = False

    def add(self, **attributes: object) -> Device:
        """Add a card that no sample shows."""
        dev = len(self.devices)
        device = Device(dev=dev, card=dev, **attributes)  # type: ignore[arg-type]
        self.devices.append(device)
        return device

    def absorb(self, other: Fleet) -> int:
        """Add another fleet's devices, numbered on; return by how much their numbers grew."""
        offset = len(self.devices)
        self.devices += [replace(d, dev=d.dev + offset, card=d.card + offset) for d in other.devices]
        self.instances |= {card + offset: [dev + offset for dev in devs] for card, devs in other.instances.items()}
        self.hulls |= {card + offset: hull for card, hull in other.hulls.items()}
        return offset

    def cards(self) -> list[Device]:
        """Return the whole cards."""
        return [d for d in self.devices if d.instance is None]

    def slots_at(self, card: int, t: int) -> int | None:
        """Return the time slices of a card at `t`, where they are known."""
        return next((x.slots for x in self.listings.get(card, ()) if x.start <= t < x.end and x.slots), None)

    def owner_at(self, card: int, t: int) -> str | None:
        """Return the tenant that the card is dedicated to at `t`."""
        return next((x.owner for x in self.listings.get(card, ()) if x.start <= t < x.end and x.owner), None)


def seen_fleet(scrapes: Scrapes, seen: Observations) -> Fleet:
    """Return the devices that samples show."""
    fleet = Fleet()
    nodes = dict(
        seen.timeline.filter(pl.col("node").is_not_null())
        .join(scrapes.devices.select("dev", "card"), on="dev")
        .sort("t", "dev")
        .group_by("card")
        .agg(pl.col("node").last())
        .iter_rows()
    )
    presence: dict[int, list[Interval]] = {}
    for dev, start, end in seen.presence.iter_rows():
        presence.setdefault(dev, []).append((start, end))
    for row in scrapes.devices.iter_rows(named=True):
        fleet.devices.append(
            Device(
                **{k: row[k] for k in ("dev", "card", "cluster", "device", "instance", "profile", "model")},
                node=nodes.get(row["card"]),
                presence=presence.get(row["dev"], []),
            )
        )
        if row["instance"] is not None:
            fleet.instances.setdefault(row["card"], []).append(row["dev"])
    for device in fleet.devices:
        if device.model is None:
            device.model = fleet.devices[device.card].model
    changes = seen.timeline.filter(
        pl.col("free_slices").ne_missing(pl.col("free_slices").shift(1).over("dev").fill_null(0))
    )
    for dev, t, count in changes.select("dev", "t", "free_slices").iter_rows():
        fleet.devices[dev].free_slices.append((t, count))
    fleet.hulls = {card: (start, end) for card, start, end in seen.hulls.iter_rows()}
    return fleet


def lay_out(fleet: Fleet, seen: Observations) -> dict[int, list[Interval]]:
    """Say of each MIG instance where its card's layout has it: one interval per unbroken stretch of layouts.

    The layout is what a scrape shows. It stands to the next scrape that shows an instance, holes included, or to one
    of the card alone when no instance's sample stands any more; the last one ends with its samples' reach.
    """
    scrapes: dict[int, dict[int, list[tuple[int, int]]]] = {card: {} for card in fleet.instances}
    for card, t, dev, reach in _layout_changes(fleet, seen).iter_rows():
        scrapes[card].setdefault(t, []).append((dev, reach))
    for card, shown in scrapes.items():
        stretches: dict[int, list[Interval]] = {dev: [] for dev in fleet.instances[card]}
        standing: list[int] = []
        since = until = 0
        for t, devs in shown.items():
            instances = [dev for dev, _ in devs if dev != card]
            if not instances and not (standing and t >= until):
                continue
            for dev in standing:
                stretches[dev].append((since, t))
            standing, since = instances, t
            until = max((reach for dev, reach in devs if dev != card), default=t)
        for dev in standing:
            stretches[dev].append((since, until))
        for dev, intervals in stretches.items():
            fleet.devices[dev].exists = union(intervals)
    return {dev: fleet.devices[dev].exists for devs in fleet.instances.values() for dev in devs}


def _layout_changes(fleet: Fleet, seen: Observations) -> pl.DataFrame:
    """Return ``card``, ``t``, ``dev``, ``reach`` of the scrapes of cut cards, at the edges of equal, unbroken ones."""
    card_of = pl.DataFrame(
        [(dev, card) for card, devs in fleet.instances.items() for dev in [card, *devs]],
        schema={"dev": pl.Int32, "card": pl.Int32},
        orient="row",
    )
    rows = seen.timeline.select("dev", "t", "reach").join(card_of, on="dev")
    shown = (
        rows.group_by("card", "t")
        .agg(shown=pl.col("dev").sort().cast(pl.String).str.join(","), reach=pl.col("reach").max())
        .sort("card", "t")
    )
    alike = (
        (pl.col("card") == pl.col("card").shift(n))
        & (pl.col("shown") == pl.col("shown").shift(n))
        & (pl.col("t") <= pl.col("reach").shift(1) if n == 1 else pl.col("reach") >= pl.col("t").shift(-1))
        for n in (1, -1)
    )
    edges = shown.filter(~pl.all_horizontal(alike).fill_null(value=False)).select("card", "t")
    return rows.join(edges, on=["card", "t"]).select("card", "t", "dev", "reach").sort("card", "t", "dev")


def exist(
    fleet: Fleet, inventory: pl.DataFrame, leases: Iterable[Lease], reach: Interval, findings: list[Finding]
) -> None:
    """Say of each card where it is capacity: where the inventory lists it, else between its first and last sight.

    Args:
        inventory: INVENTORY with ``from`` and ``to`` in ms.
        leases: schedulers' leases on devices that they name; one that nothing else knows exists while it is held.
        reach: bounds in ms of what an inventory without bounds lists.
    """
    inventory = inventory.with_columns(
        pl.col("from").fill_null(reach[0]).clip(*reach), pl.col("to").fill_null(reach[1]).clip(*reach)
    )
    fleet.has_inventory = inventory.height > 0
    sight = {card: [hull] for card, hull in fleet.hulls.items()}
    listed = _list_by_name(fleet, inventory)
    rows = [r for r in inventory.iter_rows(named=True) if r["device"] is None]
    filled = _fill_rows(fleet, rows, listed, sight)
    missing, unlisted = [], []
    for card in fleet.cards():
        by_name = union(listed.get(card.dev, []))
        card.exists = by_name or union(sight.get(card.dev, []))
        if by_name and card.dev not in fleet.hulls:
            missing.append(card.device)
        if fleet.has_inventory and subtract(sight.get(card.dev, []), union([*by_name, *filled.get(card.dev, [])])):
            unlisted.append(card.device)
    _add_spare(fleet, rows)
    for lease in leases:
        card = fleet.devices[fleet.devices[lease.dev].card]
        if card.dev not in listed and card.dev not in fleet.hulls:
            card.exists = union([*card.exists, (lease.start, lease.end)])
    if missing and fleet.hulls:
        findings.append(
            Finding("missing_device", len(missing), f"listed, never sampled: {', '.join(sorted(missing)[:3])}")
        )
    if unlisted:
        findings.append(
            Finding(
                "unlisted_device", len(unlisted), f"sampled, not in the inventory: {', '.join(sorted(unlisted)[:3])}"
            )
        )


def _bounds(row: dict[str, object]) -> Interval:
    return row["from"], row["to"]  # type: ignore[return-value]


def _list_by_name(fleet: Fleet, inventory: pl.DataFrame) -> dict[int, list[Interval]]:
    by_name: dict[str, list[Device]] = {}
    for card in fleet.cards():
        by_name.setdefault(card.device, []).append(card)
    listed: dict[int, list[Interval]] = {}
    for row in inventory.iter_rows(named=True):
        if row["device"] is None:
            continue
        cards = [c for c in by_name.get(row["device"], []) if row["cluster"] in (None, c.cluster)]
        if not cards:
            cards = [fleet.add(cluster=row["cluster"], device=row["device"], model=row["model"], node=row["node"])]
            by_name.setdefault(row["device"], []).extend(cards)
        for card in cards:
            card.node = card.node or row["node"]
            card.model = row["model"] or card.model
            listed.setdefault(card.dev, []).append(_bounds(row))
            fleet.listings.setdefault(card.dev, []).append(Listing(*_bounds(row), row["slots"], row["owner"]))
    return listed


def _fill_rows(
    fleet: Fleet, rows: list[dict[str, object]], listed: dict[int, list[Interval]], sight: dict[int, list[Interval]]
) -> dict[int, list[Interval]]:
    """Let the seen cards of a node fill the rows that list the node without names; note which row each fills."""
    filled: dict[int, list[Interval]] = {}
    for row in rows:
        row["cards"] = []
    for card in sorted(fleet.cards(), key=lambda c: c.device):
        if card.dev in listed or not sight.get(card.dev):
            continue
        candidates = [
            r for r in rows if r["node"] == card.node and card.node is not None and r["cluster"] in (None, card.cluster)
        ]
        same = [r for r in candidates if (str(r["model"] or "")).lower() == (card.model or "").lower()]
        suited = same or [r for r in candidates if r["model"] is None] or candidates
        taken: list[Interval] = []
        for row in sorted(suited, key=lambda r: len(r["cards"]) >= int(r["gpus"] or 0)):  # type: ignore[arg-type,call-overload]
            if overlaps(union(taken), *_bounds(row)):
                continue
            taken.append(_bounds(row))
            row["cards"].append(card.dev)  # type: ignore[attr-defined]
            card.model = card.model or row["model"]  # type: ignore[assignment]
            filled.setdefault(card.dev, []).append(_bounds(row))
            fleet.listings.setdefault(card.dev, []).append(Listing(*_bounds(row), row["slots"], row["owner"]))  # type: ignore[arg-type]
    return filled


def _add_spare(fleet: Fleet, rows: list[dict[str, object]]) -> None:
    """Add cards for what a row lists beyond the cards seen at each instant."""
    numbers: dict[object, int] = {}
    for row in rows:
        start, end = _bounds(row)
        gpus = int(row["gpus"] or 0)  # type: ignore[call-overload]
        cards = [fleet.devices[dev] for dev in row["cards"]]  # type: ignore[attr-defined]
        edges = sorted({start, end, *(x for c in cards for i in c.exists for x in i if start < x < end)})
        free: list[list[Interval]] = [[] for _ in range(gpus)]
        for a, b in pairwise(edges):
            there = sum(any(s <= a < e for s, e in c.exists) for c in cards)
            for ordinal in range(min(there, gpus), gpus):
                free[ordinal].append((a, b))
        model = row["model"] or next((c.model for c in cards if c.model), None)
        added = [i for i in range(gpus) if free[i]]
        for ordinal in added:
            number = numbers[row["node"]] = numbers.get(row["node"], 0) + 1
            spare = fleet.add(cluster=row["cluster"], device=f"{row['node']}#{number}", model=model, node=row["node"])
            spare.exists = union(free[ordinal])
            if ordinal < len(cards):
                fleet.spare.add(spare.dev)
            fleet.listings[spare.dev] = [Listing(start, end, row["slots"], row["owner"])]  # type: ignore[arg-type]
