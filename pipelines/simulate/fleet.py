"""Nodes, cards and the units of them that a scheduler hands out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final

import numpy as np

from pipelines.simulate.cards import A100, H100, LAYOUTS, T4, Card, Instance, layout_weights
from pipelines.simulate.terms import SLICES

H100_K8S, H100_SLURM, A100_K8S, A100_SLURM = "h100-k8s", "h100-slurm", "a100-k8s", "a100-slurm"
A100_MIG, T4_SLICED = "a100-mig", "t4-sliced"

# The order in which kinds of node are bought: every eight nodes hold one of each.
_PATTERN: Final = (H100_K8S, H100_SLURM, A100_K8S, H100_SLURM, A100_MIG, T4_SLICED, H100_K8S, A100_SLURM)
_CARD: Final[dict[str, Card]] = {
    H100_K8S: H100,
    H100_SLURM: H100,
    A100_K8S: A100,
    A100_SLURM: A100,
    A100_MIG: A100,
    T4_SLICED: T4,
}
_NODE_GPUS: Final = 8


@dataclass(frozen=True, slots=True)
class Node:
    """A host. ``joined`` is when it was added (UTC seconds); None: it was always there."""

    name: str
    kind: str
    devices: tuple[int, ...]
    joined: int | None = None

    @property
    def slurm(self) -> bool:
        """Whether Slurm runs it; else Kubernetes does."""
        return self.kind in (H100_SLURM, A100_SLURM)


@dataclass(frozen=True, slots=True)
class Device:
    """A card. ``slots`` is the number of its time slices, None where it isn't shared."""

    uuid: str
    node: int
    index: int
    card: Card
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """What one workload can hold: a card, an instance of it, or a slice of its time.

    Args:
        instance: the MIG instance; None: no MIG.
        slot: the time slice; None: not shared.
        share: the part of the card that is billed.
        start, end: while the unit exists (a MIG layout may end); None is open.
    """

    device: int
    group: int  # units of one group can serve one pod together
    share: Fraction
    instance: Instance | None = None
    slot: int | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes, their devices and their units; each refers to the other by its place in the tuple.

    Args:
        quanta: the smallest number of equal parts of a card of which every unit has a whole number.
    """

    nodes: tuple[Node, ...]
    devices: tuple[Device, ...]
    units: tuple[Unit, ...]
    quanta: int

    def count(self, *kinds: str) -> int:
        """Cards on nodes of these kinds."""
        return sum(len(node.devices) for node in self.nodes if node.kind in kinds)


def build_fleet(gpus: int, rng: np.random.Generator, *, relayout_at: int, late_node_at: int | None) -> Fleet:
    """A fleet of ``gpus`` cards.

    From 64 cards on, nodes hold eight; a smaller fleet spreads over the same kinds of node.

    Args:
        relayout_at: when the first MIG card changes its layout (UTC seconds).
        late_node_at: when the last Slurm A100 node joins; None: it was always there.
    """
    if gpus >= _NODE_GPUS * len(_PATTERN):
        sizes = [_NODE_GPUS] * (gpus // _NODE_GPUS) + ([gpus % _NODE_GPUS] if gpus % _NODE_GPUS else [])
    else:
        sizes = [gpus // len(_PATTERN) + (place < gpus % len(_PATTERN)) for place in range(len(_PATTERN))]
        sizes = [size for size in sizes if size]
    kinds = [_PATTERN[place % len(_PATTERN)] for place in range(len(sizes))]
    late = max((place for place, kind in enumerate(kinds) if kind == A100_SLURM), default=None)

    uuids = sorted({_uuid(rng) for _ in range(gpus)})
    nodes: list[Node] = []
    devices: list[Device] = []
    # UUIDs rise with the index on a node, but nodes hold them in no order.
    shuffled = [str(uuid) for uuid in rng.permutation(np.array(uuids))]
    for place, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        first = len(devices)
        for index, uuid in enumerate(sorted(shuffled[first : first + size])):
            slots = SLICES if kind == T4_SLICED else None
            devices.append(Device(uuid, place, index, _CARD[kind], slots))
        name = f"{_CARD[kind].gres}-{place:03d}"
        joined = late_node_at if place == late else None
        nodes.append(Node(name, kind, tuple(range(first, first + size)), joined))
    units = tuple(_units(nodes, relayout_at))
    return Fleet(tuple(nodes), tuple(devices), units, lcm(*{unit.share.denominator for unit in units}))


def _uuid(rng: np.random.Generator) -> str:
    digits = rng.bytes(16).hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _units(nodes: list[Node], relayout_at: int) -> list[Unit]:
    units: list[Unit] = []
    group = 0
    mig_cards = 0
    for node in nodes:
        for device in node.devices:
            if node.kind == A100_MIG:
                layout = LAYOUTS[mig_cards % len(LAYOUTS)]
                if mig_cards == 0:
                    units += _instances(device, group, layout, None, relayout_at)
                    units += _instances(device, group + len(layout), LAYOUTS[1], relayout_at, None)
                    group += len(layout) + len(LAYOUTS[1])
                else:
                    units += _instances(device, group, layout, None, None)
                    group += len(layout)
                mig_cards += 1
            elif node.kind == T4_SLICED:
                units += [Unit(device, group, Fraction(1, SLICES), slot=slot) for slot in range(SLICES)]
                group += 1
            else:
                units.append(Unit(device, group, Fraction(1)))
        if node.kind not in (A100_MIG, T4_SLICED):
            group += 1
    return units


def _instances(device: int, group: int, layout: tuple[Instance, ...], start: int | None, end: int | None) -> list[Unit]:
    weights = layout_weights(layout)
    return [
        Unit(device, group + place, weight, instance=instance, start=start, end=end)
        for place, (instance, weight) in enumerate(zip(layout, weights, strict=True))
    ]
