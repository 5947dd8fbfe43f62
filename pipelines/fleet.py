"""What exists: cards and their MIG instances, seen or only listed, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from pipelines.intervals import Interval, union


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
    """

    devices: list[Device] = field(default_factory=list)
    instances: dict[int, list[int]] = field(default_factory=dict)
    hulls: dict[int, Interval] = field(default_factory=dict)
    listings: dict[int, list[Listing]] = field(default_factory=dict)

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


def seen_fleet(devices: pl.DataFrame, presence: pl.DataFrame, slices: pl.DataFrame) -> Fleet:
    """Return the devices that samples show.

    Args:
        devices: ``dev``, ``card``, DEVICE_KEY, ``own_model``, ``any_model``, ``node`` (of cards), ``first``, ``last``
            (ms; null: itself never sampled), sorted by ``dev``.
        presence: ``dev``, ``start``, ``end``.
        slices: ``dev``, ``t``, ``count``: from when on so many slices were seen that name no owner.
    """
    fleet = Fleet()
    for row in devices.iter_rows(named=True):
        fleet.devices.append(
            Device(
                **{k: row[k] for k in ("dev", "card", "cluster", "device", "instance", "profile")},
                model=row["own_model"] or (row["any_model"] if row["instance"] is None else None),
            )
        )
        if row["instance"] is not None:
            fleet.instances.setdefault(row["card"], []).append(row["dev"])
        elif row["node"] is not None:
            fleet.devices[-1].node = row["node"]
        if row["first"] is not None:
            first, last = fleet.hulls.get(row["card"], (row["first"], row["last"]))
            fleet.hulls[row["card"]] = (min(first, row["first"]), max(last, row["last"]))
    for device in fleet.devices:
        card = fleet.devices[device.card]
        device.node = card.node
        device.model = device.model or card.model
    for dev, start, end in presence.select("dev", "start", "end").sort("dev", "start").iter_rows():
        fleet.devices[dev].presence.append((start, end))
    for dev, t, count in slices.select("dev", "t", "count").sort("dev", "t").iter_rows():
        fleet.devices[dev].free_slices.append((t, count))
    return fleet


def lay_out(fleet: Fleet, shown: pl.DataFrame) -> dict[int, list[Interval]]:
    """Say of each MIG instance where its card's layout has it: one interval per unbroken stretch of layouts.

    The layout is what a scrape shows. It stands to the next scrape that shows an instance, holes included, or to one
    of the card alone when no instance's sample stands any more; the last one ends with its samples' reach.

    Args:
        shown: as `layout_changes` returns it, of all cards.
    """
    scrapes: dict[int, dict[int, list[tuple[int, int]]]] = {card: {} for card in fleet.instances}
    for card, t, dev, reach in shown.select("card", "t", "dev", "reach").sort("card", "t", "dev").iter_rows():
        scrapes[card].setdefault(t, []).append((dev, reach))
    for card, at in scrapes.items():
        stretches: dict[int, list[Interval]] = {dev: [] for dev in fleet.instances[card]}
        standing: list[int] = []
        since = until = 0
        for t, devs in at.items():
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


def layout_changes(devices: pl.DataFrame, timeline: pl.DataFrame) -> pl.DataFrame:
    """Return ``card``, ``t``, ``dev``, ``reach`` of the scrapes of cut cards, at the edges of equal, unbroken ones.

    Args:
        devices: ``dev``, ``card``, ``instance``.
        timeline: ``dev``, ``t``, ``reach``.
    """
    cut = devices.filter(pl.col("instance").is_not_null()).select("card").unique()
    if cut.is_empty():
        timeline = timeline.clear()
    rows = timeline.select("dev", "t", "reach").join(devices.select("dev", "card").join(cut, on="card"), on="dev")
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
