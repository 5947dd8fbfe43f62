"""Where each device-second goes, exactly: the scenario's intervals cut at all their edges.

Times are integer seconds, parts of a card are fractions. Nothing here reads a sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from pipelines.simulate.scenario import Incident, Lease, Scenario

ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Held:
    """A part of a card that a workload held and is billed for, over [start, end)."""

    lease: Lease
    model: str
    device: str  # UUID, or UUID/instance
    share: Fraction
    start: int
    end: int
    held_since: int  # start of the whole lease, before any cut


@dataclass(frozen=True, slots=True)
class Segment:
    """The states of one device over [start, end): parts of the card that sum to 1."""

    device: int
    start: int
    end: int
    allocated: Fraction
    idle: Fraction
    stranded: Fraction
    down: Fraction
    unobserved: Fraction


def clip(start: int, end: int, low: int, high: int) -> tuple[int, int] | None:
    """The part of [start, end) within [low, high)."""
    start, end = max(start, low), min(end, high)
    return (start, end) if start < end else None


def held_parts(scenario: Scenario) -> list[Held]:
    """Every lease within the billed period, without what is cut off since the device was down."""
    window, fleet = scenario.window, scenario.fleet
    parts = []
    for lease in scenario.leases:
        span = clip(lease.start, lease.billed_end, window.start, window.end)
        if span is None:
            continue
        unit = fleet.units[lease.unit]
        device = fleet.devices[unit.device]
        name = device.uuid if unit.instance is None else f"{device.uuid}/{unit.instance.gi}"
        # What only labels show can't be known to have begun before the first sample.
        since = max(lease.start, window.first) if lease.pod else lease.start
        parts.append(Held(lease, device.card.model, name, unit.share, *span, since))
    return parts


def segments(scenario: Scenario, parts: Iterable[Held]) -> Iterator[Segment]:
    """The states of every device of the inventory through the billed period."""
    window, fleet = scenario.window, scenario.fleet
    by_device: dict[int, list[Held]] = {}
    for part in parts:
        by_device.setdefault(fleet.units[part.lease.unit].device, []).append(part)
    repairs = scenario.of_kind("repair")
    outages = scenario.of_kind("outage")
    for place, device in enumerate(fleet.devices):
        joined = fleet.nodes[device.node].joined
        begin = max(window.start, joined if joined is not None else window.start)
        down = [i for i in repairs if i.device == place]
        blind = [i for i in outages if i.node == device.node]
        yield from _of_device(scenario, place, by_device.get(place, []), (begin, window.end), down, blind)


def _of_device(
    scenario: Scenario,
    place: int,
    parts: list[Held],
    exists: tuple[int, int],
    down: list[Incident],
    blind: list[Incident],
) -> Iterator[Segment]:
    units = [unit for unit in scenario.fleet.units if unit.device == place and unit.instance is not None]
    edges = {*exists}
    changes: dict[int, Fraction] = {}
    for part in parts:
        changes[part.start] = changes.get(part.start, ZERO) + part.share
        changes[part.end] = changes.get(part.end, ZERO) - part.share
    edges |= changes.keys()
    edges |= {edge for incident in (*down, *blind) for edge in (incident.start, incident.end)}
    edges |= {edge for unit in units for edge in (unit.start, unit.end) if edge is not None}
    inside = sorted(edge for edge in edges if exists[0] <= edge <= exists[1])

    allocated = ZERO
    for start, end in itertools.pairwise(inside):
        allocated += changes.get(start, ZERO)
        broken = any(i.start <= start < i.end for i in down)
        laid_out = sum(
            (
                unit.share
                for unit in units
                if (unit.start is None or unit.start <= start) and (unit.end is None or start < unit.end)
            ),
            ZERO,
        )
        stranded = 1 - laid_out if units and not broken else ZERO
        rest = 1 - allocated - stranded
        if broken:
            if allocated:
                raise AssertionError(f"device {place} is down and held at {start}: the scenario contradicts itself")
            yield Segment(place, start, end, ZERO, ZERO, ZERO, Fraction(1), ZERO)
            continue
        if rest < 0:
            raise AssertionError(f"device {place} is held more than once at {start}: the scenario contradicts itself")
        seen = not any(i.start <= start < i.end for i in blind)
        yield Segment(place, start, end, allocated, rest if seen else ZERO, stranded, ZERO, ZERO if seen else rest)
