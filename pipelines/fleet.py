"""What exists: cards and their MIG instances, seen or only listed, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from pipelines.intervals import Interval, union
from pipelines.observations import Observations
from pipelines.quality import Scrapes


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
