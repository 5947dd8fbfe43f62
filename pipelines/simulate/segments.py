"""Where each device-second goes, exactly: the scenario's intervals cut at all their edges.

Times are integer seconds, and parts of a card are whole quanta of it (`Fleet.quanta` make a card), so that every
sum is exact and cheap. Nothing here reads a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipelines.simulate.fleet import Unit
from pipelines.simulate.scenario import Incident, Lease, Scenario


@dataclass(frozen=True, slots=True)
class Held:
    """Quanta of a card that a workload held and is billed for, over [start, end)."""

    place: int  # of the lease in the scenario
    lease: Lease
    model: str
    device: str  # UUID, or UUID/instance
    quanta: int
    start: int
    end: int
    held_since: int  # start of the whole lease, before any cut


@dataclass(frozen=True, slots=True)
class Segment:
    """The states of one device over [start, end), in quanta that sum to a card."""

    device: int
    start: int
    end: int
    allocated: int = 0
    idle: int = 0
    stranded: int = 0
    down: int = 0
    unobserved: int = 0


def clip(start: int, end: int, low: int, high: int) -> tuple[int, int] | None:
    """The part of [start, end) within [low, high)."""
    start, end = max(start, low), min(end, high)
    return (start, end) if start < end else None


def held_parts(scenario: Scenario) -> list[Held]:
    """Every lease within the billed period, without what is cut off since the device was down."""
    window, fleet = scenario.window, scenario.fleet
    parts = []
    for place, lease in enumerate(scenario.leases):
        span = clip(lease.start, lease.billed_end, window.start, window.end)
        if span is None:
            continue
        unit = fleet.units[lease.unit]
        device = fleet.devices[unit.device]
        name = device.uuid if unit.instance is None else f"{device.uuid}/{unit.instance.gi}"
        # What only labels show can't be known to have begun before the first sample.
        since = max(lease.start, window.first) if lease.pod else lease.start
        parts.append(Held(place, lease, device.card.model, name, int(unit.share * fleet.quanta), *span, since))
    return parts


def segments(scenario: Scenario, parts: Iterable[Held]) -> Iterator[Segment]:
    """The states of every device of the inventory through the billed period."""
    window, fleet = scenario.window, scenario.fleet
    by_device: dict[int, list[Held]] = {}
    for part in parts:
        by_device.setdefault(fleet.units[part.lease.unit].device, []).append(part)
    instances: dict[int, list[Unit]] = {}
    for unit in fleet.units:
        if unit.instance is not None:
            instances.setdefault(unit.device, []).append(unit)
    repairs, outages = scenario.of_kind("repair"), scenario.of_kind("outage")
    for place, device in enumerate(fleet.devices):
        joined = fleet.nodes[device.node].joined
        begin = window.start if joined is None else min(max(window.start, joined), window.end)
        story = _Story(
            device=place,
            quanta=fleet.quanta,
            exists=(begin, window.end),
            down=[i for i in repairs if i.device == place],
            blind=[i for i in outages if i.node == device.node],
            instances=instances.get(place, []),
        )
        yield from story.segments(by_device.get(place, []))


@dataclass(frozen=True, slots=True)
class _Story:
    """What befell one device."""

    device: int
    quanta: int
    exists: tuple[int, int]
    down: list[Incident]
    blind: list[Incident]
    instances: list[Unit]

    def segments(self, parts: list[Held]) -> Iterator[Segment]:
        changes: dict[int, int] = {}
        for part in parts:
            changes[part.start] = changes.get(part.start, 0) + part.quanta
            changes[part.end] = changes.get(part.end, 0) - part.quanta
        edges = {*self.exists, *changes}
        edges |= {edge for incident in (*self.down, *self.blind) for edge in (incident.start, incident.end)}
        edges |= {edge for unit in self.instances for edge in (unit.start, unit.end) if edge is not None}
        held = 0
        for start, end in pairwise(sorted(edge for edge in edges if self.exists[0] <= edge <= self.exists[1])):
            held += changes.get(start, 0)
            yield self._segment(start, end, held)

    def _segment(self, start: int, end: int, held: int) -> Segment:
        if any(i.start <= start < i.end for i in self.down):
            if held:
                raise AssertionError(f"device {self.device} is down and held at {start}: the scenario is wrong")
            return Segment(self.device, start, end, down=self.quanta)
        laid_out = sum(
            int(unit.share * self.quanta)
            for unit in self.instances
            if (unit.start is None or unit.start <= start) and (unit.end is None or start < unit.end)
        )
        stranded = self.quanta - laid_out if self.instances else 0
        rest = self.quanta - held - stranded
        if rest < 0:
            raise AssertionError(f"device {self.device} is held more than once at {start}: the scenario is wrong")
        if any(i.start <= start < i.end for i in self.blind):
            return Segment(self.device, start, end, allocated=held, stranded=stranded, unobserved=rest)
        return Segment(self.device, start, end, allocated=held, stranded=stranded, idle=rest)
