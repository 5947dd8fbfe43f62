"""Which cards are capacity, and when: the inventory's where there is one, else what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl

from pipelines.fleet import Device, Fleet, Listing
from pipelines.intervals import Interval, insert, overlaps, subtract, union
from pipelines.leases import Lease
from pipelines.models import model_matches
from pipelines.tables import Finding


@dataclass
class _Row:
    """An inventory row without names: `gpus` cards of a node, each a slot that seen cards fill."""

    cluster: str | None
    node: str | None
    model: str | None
    gpus: int
    listing: Listing
    slots: list[list[Device]] = field(default_factory=list)

    @property
    def bounds(self) -> Interval:
        return self.listing.start, self.listing.end


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
    listed = _list_by_name(fleet, inventory)
    missing = [(dev, bounds) for dev, bounds in listed.items() if dev not in fleet.hulls]
    rows = [
        _Row(
            r["cluster"], r["node"], r["model"], r["gpus"] or 0, Listing(r["from"], r["to"], r["slots"], r["owner"]),
            [[] for _ in range(r["gpus"] or 0)],
        )
        for r in inventory.iter_rows(named=True)
        if r["device"] is None
    ]  # fmt: skip
    _fill(fleet, rows, listed)
    for row in rows:
        _spread(fleet, row, listed)
    for card in fleet.cards():
        hull = [fleet.hulls[card.dev]] if card.dev in fleet.hulls else []
        card.exists = union(listed.get(card.dev, hull))
        if inventory.height and subtract(hull, card.exists if card.dev in listed else []):
            detail = "sampled where nothing lists it"
            findings.append(Finding("unlisted_device", 1, detail, card.device, *hull[0]))
    for lease in leases:
        card = fleet.devices[fleet.devices[lease.dev].card]
        if card.dev not in listed and card.dev not in fleet.hulls:
            insert(card.exists, lease.start, lease.end)
    findings += _seen_twice(fleet)
    for dev, bounds in missing if fleet.hulls else ():
        start, end = min(bounds)[0], max(end for _, end in bounds)
        findings.append(Finding("missing_device", 1, "listed, never sampled", fleet.devices[dev].device, start, end))


def _seen_twice(fleet: Fleet) -> Iterator[Finding]:
    """Yield cards that several clusters show at the same time: each counts, so their sources name one cluster twice."""
    seen: dict[str, list[Device]] = {}
    for card in fleet.cards():
        if card.dev in fleet.hulls:
            seen.setdefault(card.device, []).append(card)
    for device, cards in seen.items():
        hulls = sorted(fleet.hulls[card.dev] for card in cards)
        for (_, end), (start, later) in pairwise(hulls):
            if start < end:
                detail = "one UUID in several clusters at once: each counts as a card of its own"
                yield Finding("duplicate_device", 1, detail, device, start, min(end, later))


def _list_by_name(fleet: Fleet, inventory: pl.DataFrame) -> dict[int, list[Interval]]:
    """Return where rows with names list each card; cards never seen are added."""
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
            listed.setdefault(card.dev, []).append((row["from"], row["to"]))
            fleet.listings.setdefault(card.dev, []).append(Listing(row["from"], row["to"], row["slots"], row["owner"]))
    return listed


def _fill(fleet: Fleet, rows: list[_Row], listed: dict[int, list[Interval]]) -> None:
    """Let the seen cards of a node, by first sight, fill the rows that list the node without names.

    A card that replaces another takes the slot that the other left; what finds no slot is not listed.
    """
    seen = [c for c in fleet.cards() if c.dev in fleet.hulls and c.dev not in listed and c.node is not None]
    for card in sorted(seen, key=lambda c: (fleet.hulls[c.dev][0], c.device)):
        hull = fleet.hulls[card.dev]
        near = [r for r in rows if r.node == card.node and r.cluster in (None, card.cluster)]
        near = [r for r in near if overlaps([hull], *r.bounds)]
        suited = [r for r in near if r.model is not None and model_matches(r.model, card.model)]
        taken: list[Interval] = []
        for row in suited or [r for r in near if r.model is None] or near:
            if overlaps(union(taken), *row.bounds):
                continue
            empty = next((slot for slot in row.slots if not slot), None)
            left = next((slot for slot in row.slots if slot and fleet.hulls[slot[-1].dev][1] <= hull[0]), None)
            slot = empty if empty is not None else left
            if slot is not None:
                slot.append(card)
                taken.append(row.bounds)
                card.model = card.model or row.model


def _spread(fleet: Fleet, row: _Row, listed: dict[int, list[Interval]]) -> None:
    """Give each slot's time to the cards that filled it, one after the other; an empty slot is a card of its own."""
    for slot in row.slots:
        model = row.model or next((c.model for s in row.slots for c in s if c.model), None)
        cards = slot or [fleet.add(cluster=row.cluster, device=_unused_name(fleet, row), model=model, node=row.node)]
        starts = [row.listing.start, *(fleet.hulls[card.dev][0] for card in cards[1:]), row.listing.end]
        for card, (start, end) in zip(cards, pairwise(starts), strict=True):
            listed.setdefault(card.dev, []).append((start, end))
            fleet.listings.setdefault(card.dev, []).append(Listing(start, end, row.listing.slots, row.listing.owner))


def _unused_name(fleet: Fleet, row: _Row) -> str:
    names = {d.device for d in fleet.devices if d.node == row.node}
    return next(name for n in range(1, len(names) + 2) if (name := f"{row.node}#{n}") not in names)
