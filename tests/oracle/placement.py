"""Which devices the leases without one take, instant by instant.

Readings
  P1. In order of start, workload and node; a lease takes the devices that are free throughout it (also outside the
      period, so that a month's report doesn't move it), by UUID (nameless GPUs of the inventory come last), and fills
      up with what is free at each instant. Rejected: only what is free throughout; the first by UUID afresh at each
      instant (the hours are the same, energy is not).
  P2. Free is a device that exists, isn't down and has no lease at all on it (a slice is no place for a whole GPU).
      A MIG instance is taken only by a need whose gres type is its profile; a card cut into instances by none.
  P3. A node adds capacity of its own if no sample and no inventory row names it, ever. Rejected: judged at each
      instant (a job that began before the first sample of its node would then be billed for that time too).
  P4. A lease without nodes (an allocations row) takes devices of any node; it adds capacity of its own only if no
      device of the fleet fits its model.
  P5. A job has the whole of a node at an instant if its GPUs there, labelled ones included, are as many as exist there
      then, down ones included, and it holds all that aren't down; only then do its unlabelled devices' samples speak
      for it. A lease whose nodes are unknown never has one: the node itself is a guess.
  P6. A lease on a device that nothing knows adds capacity of its own, as a node without samples does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle.fleet import Card, Fleet, model_fits
from tests.oracle.leases import Holdings, Need
from tests.oracle.mig import Device
from tests.oracle.reading import Run


@dataclass
class Placed:
    """By the interval that begins at `starts[i]`: who took which device, and what stands outside the known fleet."""

    starts: list[int]
    taken: dict[int, dict[Device, Need]] = field(default_factory=lambda: defaultdict(dict))
    outside: dict[int, list[Need]] = field(default_factory=lambda: defaultdict(list))
    unfit: dict[Run, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def index(self, when: int) -> int:
        return bisect_right(self.starts, when) - 1


def place(
    fleet: Fleet,
    holdings: Holdings,
    intervals: list[tuple[int, int]],
    down: Callable[[Card, Device, int], bool],
) -> Placed:
    """Places every need; `down(card, device, at)` says what is out of order."""
    placed = Placed([start for start, _ in intervals])
    for need in sorted(holdings.needs, key=lambda n: (n.run.start, n.run.workload, n.node or "")):
        assert need.run.end is not None
        held = [i for i, (start, _) in enumerate(intervals) if need.run.start <= start < need.run.end]
        if _is_outside(need, fleet):
            for index in held:
                placed.outside[index].append(need)
            continue
        candidates = sorted(_candidates(need, fleet), key=lambda pair: ("/row " in pair[1].id, pair[1].id))

        def free(card: Card, device: Device, index: int, leases: Holdings = holdings, so_far: Placed = placed) -> bool:
            at = intervals[index][0]
            named = any(lease.start <= at < lease.end for lease in leases.leases.get(device, []))
            present = card.exists(at) and device in card.devices(at)
            return present and not named and not down(card, device, at) and device not in so_far.taken[index]

        throughout = [d for c, d in candidates if held and all(free(c, d, i) for i in held)][: need.count]
        for index in held:
            chosen = list(throughout)
            for card, device in candidates:
                if len(chosen) < need.count and device not in chosen and free(card, device, index):
                    chosen.append(device)
            for device in chosen:
                placed.taken[index][device] = need
            if len(chosen) < need.count:
                placed.unfit[need.run].append(intervals[index])
    return placed


def _is_outside(need: Need, fleet: Fleet) -> bool:
    if need.node is not None:
        return need.node not in fleet.nodes
    return not any(model_fits(need.model, card.model) for card in fleet.cards)


def _candidates(need: Need, fleet: Fleet) -> list[tuple[Card, Device]]:
    profile = re.fullmatch(r"\d+g\.\d+gb", need.model)
    pairs = []
    for card in fleet.cards:
        if need.node is not None and need.node not in card.nodes:
            continue
        for device in card.all_devices:
            fits = device.unit[2] == need.model if profile else model_fits(need.model, card.model)
            if bool(profile) == device.is_instance and fits:
                pairs.append((card, device))
    return pairs
