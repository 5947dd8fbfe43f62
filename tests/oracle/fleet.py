"""Which cards exist, and when.

Readings
  K1. An inventory row without a device takes the node's seen devices of its model that no row names, by UUID, up to its
      `gpus`, as long as they are seen within its time; what is left are nameless GPUs. A seen device beyond that counts
      from its samples, with a finding.
  K2. A device that a row names exists in that row's time only; samples outside it add nothing. Rejected: they do.
  K3. A device exists from its first kept sample to the last one's reach, dropped and frozen samples included.
  K4. A model text of a scheduler or an inventory fits a device's model if its letters and digits stand within the
      model's, case ignored; a blank one fits any.
  K5. A device's node for selectors is the first by name of the host names it was seen under, else the inventory's; a
      node of a scheduler is any of them.
  K6. `devices` counts the cards that exist within the period; a node that only accounting knows has as many as it held
      at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.mig import Device, Layouts
from tests.oracle.reading import Stock
from tests.oracle.samples import Observations
from tests.oracle.settings import FOREVER


@dataclass(eq=False)
class Card:
    """A physical GPU, seen or only listed. `spans` are the times at which it exists."""

    id: str
    model: str
    nodes: set[str]
    cluster: str = ""
    slots: int | None = None
    owner: str | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    layouts: Layouts | None = None
    plain: Device | None = None

    @property
    def node(self) -> str:
        return min(self.nodes, default="")

    def exists(self, when: int) -> bool:
        return any(start <= when < end for start, end in self.spans)

    def devices(self, when: int) -> list[Device]:
        return self.layouts.at(when) if self.layouts else [self.own]

    @property
    def all_devices(self) -> list[Device]:
        return self.layouts.devices if self.layouts else [self.own]

    @property
    def own(self) -> Device:
        assert self.plain
        return self.plain


@dataclass
class Fleet:
    cards: list[Card]
    nodes: set[str]
    unlisted: int
    unseen: int


def assemble(seen: Observations, stock: list[Stock]) -> Fleet:
    """Every card that the inventory lists or the samples show."""
    cards = {uuid: _seen_card(uuid, seen) for uuid in sorted({unit[0] for unit in seen.scrapes})}
    seen_spans = {uuid: _span(uuid, seen) for uuid in cards}
    listed: set[str] = set()
    unseen = 0
    for row in stock:
        if row.device:
            unseen += row.device not in seen_spans
            card = cards.setdefault(row.device, _blank_card(row.device, row.model))
            _list(card, row)
            listed.add(row.device)
    taken: dict[str, list[tuple[int, int]]] = {}
    for row in stock:
        if row.device:
            continue
        room = row.gpus
        for uuid, (start, end) in sorted(seen_spans.items()):
            fits = row.node in cards[uuid].nodes and model_fits(row.model, cards[uuid].model) and uuid not in listed
            free = all(row.end <= s or e <= row.start for s, e in taken.get(uuid, []))
            if room and fits and free and start < row.end and row.start < end:
                taken.setdefault(uuid, []).append((row.start, row.end))
                _list(cards[uuid], row)
                room -= 1
        for number in range(room):
            name = f"{row.node}/row {row.row}/{number:04}"
            cards[name] = _blank_card(name, row.model)
            _list(cards[name], row)
    unlisted = 0
    for uuid, span in seen_spans.items():
        if uuid not in listed and uuid not in taken:
            cards[uuid].spans.append(span)
            unlisted += bool(stock)
    nodes = {node for card in cards.values() for node in card.nodes}
    return Fleet([cards[name] for name in sorted(cards)], nodes, unlisted, unseen)


def model_fits(text: str, model: str) -> bool:
    """Whether a scheduler's or an inventory's word for a model can mean this one."""
    wanted, has = (_letters(t) for t in (text, model))
    return not wanted or not has or wanted in has


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _span(uuid: str, seen: Observations) -> tuple[int, int]:
    scrapes = [s for unit, all_scrapes in seen.scrapes.items() if unit[0] == uuid for s in all_scrapes]
    return min(s.at for s in scrapes), max(s.end for s in scrapes)


def _seen_card(uuid: str, seen: Observations) -> Card:
    card = Card(uuid, seen.models.get(uuid, ""), set(seen.hosts[uuid]), seen.clusters.get(uuid, ""))
    card.layouts = Layouts(uuid, seen)
    return card


def _blank_card(name: str, model: str) -> Card:
    return Card(name, model, set(), plain=Device(name, (name, "", ""), -FOREVER, FOREVER))


def _list(card: Card, row: Stock) -> None:
    card.spans.append((row.start, row.end))
    card.model = card.model or row.model
    card.slots = row.slots if row.slots is not None else card.slots
    card.owner = row.owner or card.owner
    if row.node and not card.nodes:
        card.nodes.add(row.node)
