"""Where each device-second goes: down, else allocated, else stranded, else idle, else unobserved."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal

from pipelines.fleet import Device, Fleet
from pipelines.intervals import Interval, contains, union
from pipelines.leases import Lease
from pipelines.mig import Weighting, card_weights
from pipelines.models import model_matches
from pipelines.schedulers import Record
from pipelines.tables import Finding

State = Literal["down", "allocated", "stranded", "idle", "unobserved"]
STATES: Final[tuple[State, ...]] = ("down", "allocated", "stranded", "idle", "unobserved")
NO_LEASE: Final = -1
_WHOLE: Final = Fraction(1)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a device over [start, end) in ms: `weight` of the card, in one state, of one lease."""

    dev: int
    state: State
    lease: int
    start: int
    end: int
    weight: Fraction


@dataclass(frozen=True)
class Split:
    """Values that split a shared device where the configuration wants more than even shares.

    Attributes:
        values: by device and (workload, pod UID): times in ms (sorted) and the value from then on.
    """

    values: dict[tuple[int, str, str | None], tuple[list[int], list[int]]]
    edges: dict[int, list[int]]

    def at(self, lease: Lease, t: int) -> int | None:
        """Return the lease's value at `t`, as a whole number; None where it was never measured by then."""
        times, values = self.values.get((lease.dev, lease.workload, lease.pod_uid), ([], []))
        at = bisect_right(times, t) - 1
        return values[at] if at >= 0 else None


@dataclass
class _Counts:
    """When each was the case: conflicts by device and who, estimated shares by device."""

    conflicts: dict[tuple[str, str], list[Interval]] = field(default_factory=dict)
    estimated: dict[int, list[Interval]] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        for (device, who), intervals in sorted(self.conflicts.items()):
            for start, end in union(intervals):
                yield Finding("conflicting_owner", 1, "held by two at once", f"{device} by {who}", start, end)
        for intervals in self.estimated.values():
            start, end = min(intervals)[0], max(end for _, end in intervals)
            detail = "shares of shared devices are estimates (sharing.split)"
            yield Finding("estimated_share", 1, detail, start=start, end=end)


def account(
    fleet: Fleet,
    leases: Sequence[Lease],
    down: Mapping[int, list[Interval]],
    accounted: Mapping[tuple[str | None, str], list[Interval]],
    weighting: Weighting,
    split: Split | None,
    findings: list[Finding],
) -> list[Part]:
    """Return the parts of every card where it exists; they add up to the card at each instant.

    Args:
        down: where cards are down, by number.
        accounted: where a scheduler's accounting speaks for a node: what nobody holds there is idle, sampled or not.
        split: None splits shared devices evenly.
    """
    by_device: dict[int, list[int]] = {}
    for number, lease in enumerate(leases):
        by_device.setdefault(lease.dev, []).append(number)
    counts = _Counts()
    parts: list[Part] = []
    for card in fleet.cards():
        if card.exists:
            parts += _Card(fleet, card, leases, by_device, down, accounted, weighting, split, counts).parts()
    findings += counts.findings()
    return parts


class _Card:
    """The sweep over one card's edges."""

    def __init__(
        self,
        fleet: Fleet,
        card: Device,
        leases: Sequence[Lease],
        by_device: Mapping[int, list[int]],
        down: Mapping[int, list[Interval]],
        accounted: Mapping[tuple[str | None, str], list[Interval]],
        weighting: Weighting,
        split: Split | None,
        counts: _Counts,
    ) -> None:
        self._fleet, self._card, self._leases, self._counts = fleet, card, leases, counts
        self._weighting, self._split = weighting, split
        self._instances = fleet.instances.get(card.dev, [])
        self._devs = [card.dev, *self._instances]
        self._down = down.get(card.dev, [])
        node = card.node or ""
        self._accounted = accounted.get((card.cluster, node), accounted.get((None, node), []))
        self._waiting = {
            dev: sorted(by_device.get(dev, ()), key=lambda n: leases[n].start, reverse=True) for dev in self._devs
        }
        self._holding: dict[int, list[int]] = {dev: [] for dev in self._devs}
        self._weights: dict[tuple[int, ...], dict[int, Fraction]] = {}

    def parts(self) -> list[Part]:
        """Return the card's parts, in order of time."""
        edges = self._edges()
        result: list[Part] = []
        for start, end in pairwise(edges):
            self._advance(start)
            if not contains(self._card.exists, start):
                continue
            if contains(self._down, start):
                result.append(Part(self._card.dev, "down", NO_LEASE, start, end, Fraction(1)))
                continue
            present = tuple(dev for dev in self._instances if contains(self._fleet.devices[dev].exists, start))
            if not present:
                result += self._device(self._card.dev, Fraction(1), start, end)
                continue
            weights = self._layout(present)
            for dev in present:
                result += self._device(dev, weights[dev], start, end)
            stranded = 1 - sum(weights.values(), Fraction(0))
            if stranded:
                result.append(Part(self._card.dev, "stranded", NO_LEASE, start, end, stranded))
            for number in self._holding[self._card.dev]:
                who = f"{self._leases[number].workload} and its MIG instances"
                self._note_conflict(self._card.device, who, (start, end))
        return result

    def _edges(self) -> list[int]:
        edges: set[int] = set()
        for intervals in (self._card.exists, self._down, self._accounted):
            edges.update(x for i in intervals for x in i)
        for listing in self._fleet.listings.get(self._card.dev, ()):
            edges.update((listing.start, listing.end))
        for dev in self._devs:
            device = self._fleet.devices[dev]
            edges.update(x for i in device.presence for x in i)
            edges.update(t for t, _ in device.free_slices)
            if device.instance is not None:
                edges.update(x for i in device.exists for x in i)
            for number in self._waiting[dev]:
                lease = self._leases[number]
                edges.update((lease.start, lease.end), (since for since, _ in lease.slices if since > lease.start))
            if self._split:
                edges.update(self._split.edges.get(dev, ()))
        first, last = self._card.exists[0][0], self._card.exists[-1][1]
        return sorted(e for e in edges if first <= e <= last)

    def _advance(self, t: int) -> None:
        for dev in self._devs:
            holding, waiting = self._holding[dev], self._waiting[dev]
            if holding:
                self._holding[dev] = holding = [n for n in holding if self._leases[n].end > t]
            while waiting and self._leases[waiting[-1]].start <= t:
                number = waiting.pop()
                if self._leases[number].end > t:
                    holding.append(number)

    def _layout(self, present: tuple[int, ...]) -> dict[int, Fraction]:
        if present not in self._weights:
            devices = {str(dev): self._fleet.devices[dev] for dev in present}
            weights = card_weights({key: (d.model, d.profile) for key, d in devices.items()}, self._weighting)
            self._weights[present] = {int(key): w for key, w in weights.items()}
        return self._weights[present]

    def _device(self, dev: int, weight: Fraction, start: int, end: int) -> list[Part]:
        device = self._fleet.devices[dev]
        shares = self._shares(dev, (start, end))
        if len(shares) == 1 and shares[holder := next(iter(shares))] is _WHOLE:
            return [Part(dev, "allocated", holder, start, end, weight)]
        parts = [Part(dev, "allocated", n, start, end, weight * s) for n, s in shares.items() if s]
        rest = weight * (1 - sum(shares.values(), Fraction(0)))
        if rest:
            seen = contains(device.presence, start) or contains(self._accounted, start)
            parts.append(Part(dev, "idle" if seen else "unobserved", NO_LEASE, start, end, rest))
        return parts

    def _shares(self, dev: int, span: Interval) -> dict[int, Fraction]:
        """Split the device among its holders over a span in which nothing changes."""
        t = span[0]
        holding = self._holding[dev]
        if not holding:
            return {}
        leases = [self._leases[n] for n in holding]
        slots = self._fleet.slots_at(self._card.dev, t)
        if len(holding) == 1 and not slots and leases[0].share is None:
            return {holding[0]: _WHOLE}
        device, who = self._fleet.devices[dev].key, " and ".join(sorted({lease.workload for lease in leases})[:3])
        if len(leases) > 1 and any(n.kind in ("slurm", "allocations") and n.share is None for n in leases):
            self._note_conflict(device, who, span)  # two on one device is sharing, but a scheduler gives it to one
        stated = {n: lease.share for n, lease in zip(holding, leases, strict=True) if lease.share is not None}
        open_to = {n: lease.slices_at(t) for n, lease in zip(holding, leases, strict=True) if n not in stated}
        if slots:
            total = max(slots, sum(open_to.values()) + _count_at(self._fleet.devices[dev].free_slices, t))
            shares = {n: Fraction(count, total) for n, count in open_to.items()}
        else:
            shares = {n: Fraction(1, len(open_to)) for n in open_to}
        if self._split and len(open_to) > 1:
            shares = self._by_measure(dev, shares, span)
        shares |= stated
        held = sum(shares.values(), Fraction(0))
        if held > 1:  # shares that sources state and that don't fit: each gives way in proportion, and it is said
            self._note_conflict(device, who, span)
            return {n: s / held for n, s in shares.items()}
        return shares

    def _by_measure(self, dev: int, even: dict[int, Fraction], span: Interval) -> dict[int, Fraction]:
        """Split what is held by what was measured per owner; even where it wasn't measured."""
        measured = {n: self._split.at(self._leases[n], span[0]) for n in even} if self._split else {}
        values = {n: v for n, v in measured.items() if v is not None}
        if len(values) < len(even) or not sum(values.values()):
            return even
        self._counts.estimated.setdefault(dev, []).append(span)
        held, total = sum(even.values(), Fraction(0)), sum(values.values())
        return {n: held * Fraction(v, total) for n, v in values.items()}

    def _note_conflict(self, device: str, who: str, span: Interval) -> None:
        self._counts.conflicts.setdefault((device, who), []).append(span)


def _count_at(steps: list[tuple[int, int]], t: int) -> int:
    at = bisect_right(steps, (t, 1 << 62)) - 1
    return steps[at][1] if at >= 0 else 0


def take_down(
    parts: list[Part], fleet: Fleet, records: Iterable[Record], findings: list[Finding]
) -> tuple[list[Part], list[tuple[Record, Part]]]:
    """Take the GPUs that are down but not named out of what is unobserved, then out of what is idle.

    Returns:
        the parts, and which of them went down for which record.
    """
    fell: list[tuple[Record, Part]] = []
    cut: set[int] = set()
    for record in records:
        touched: list[Part] = []
        others: list[Part] = []
        for part in parts:
            fits = (
                part.state in ("unobserved", "idle")
                and part.start < record.end
                and part.end > record.start
                and model_matches(record.model, fleet.devices[part.dev].model)
            )
            (touched if fits else others).append(part)
        cut.update(part.dev for part in touched)
        taken, missing = _take(touched, fleet, record)
        parts = others + taken
        fell += [(record, part) for part in taken if part.state == "down"]
        if missing:
            hours = float(missing) / 3_600_000
            findings.append(
                Finding(
                    "conflicting_owner",
                    1,
                    "down beyond what is free",
                    f"{record.workload or 'down'} ({hours:.6g} GPU-hours)",
                    record.start,
                    record.end,
                )
            )
    return _cut_alike(parts, cut), fell


def _cut_alike(parts: list[Part], devs: set[int]) -> list[Part]:
    """Cut all parts of a device at the same times: roll-up sums what was observed once per device and span."""
    edges: dict[int, set[int]] = {dev: set() for dev in devs}
    for part in parts:
        if part.dev in devs:
            edges[part.dev].update((part.start, part.end))
    result = [part for part in parts if part.dev not in devs]
    ordered = {dev: sorted(times) for dev, times in edges.items()}
    for part in parts:
        if part.dev in devs:
            times = ordered[part.dev]
            inner = times[bisect_right(times, part.start) : bisect_left(times, part.end)]
            result += [
                replace(part, start=a, end=b) for a, b in zip([part.start, *inner], [*inner, part.end], strict=True)
            ]
    return result


def _take(parts: list[Part], fleet: Fleet, record: Record) -> tuple[list[Part], Fraction]:
    order = {"unobserved": 0, "idle": 1}
    edges = sorted(
        {record.start, record.end, *(x for p in parts for x in (p.start, p.end) if record.start < x < record.end)}
    )
    result = [
        Part(p.dev, p.state, p.lease, a, b, p.weight)
        for p in parts
        for a, b in ((p.start, min(p.end, record.start)), (max(p.start, record.end), p.end))
        if a < b
    ]
    missing = Fraction(0)
    ordered = sorted(parts, key=lambda p: (order[p.state], fleet.devices[p.dev].key, p.dev))
    for a, b in pairwise(edges):
        left = record.gpus
        for p in ordered:
            if p.start > a or p.end < b:
                continue
            down = min(left, p.weight)
            left -= down
            if down:
                result.append(Part(p.dev, "down", NO_LEASE, a, b, down))
            if p.weight > down:
                result.append(Part(p.dev, p.state, p.lease, a, b, p.weight - down))
        missing += left * (b - a)
    return result, missing
