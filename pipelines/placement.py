"""Leases whose devices nobody names → free devices of their nodes and model, by UUID: a guess, and marked as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from pipelines.fleet import Device, Fleet
from pipelines.intervals import Interval, covers_all, cut, insert, intersect, overlaps, subtract, union
from pipelines.leases import Lease
from pipelines.parts import Parts, parts_of
from pipelines.schedulers import Demand, Record, fits, lease_of
from pipelines.tables import Finding


class Placement:
    """Finds free devices for leases that name none, in order, by UUID.

    Args:
        fleet: with `exists` set of every device.
        leases: what already holds devices.
        down: where devices are down, by card.
    """

    def __init__(self, fleet: Fleet, leases: Iterable[Lease], down: dict[int, list[Interval]]) -> None:
        self._fleet, self._down = fleet, down
        self._free: dict[int, list[Interval]] = {}
        self._parts = Parts()
        self._by_node: dict[str | None, list[Device]] = {}
        self._own: dict[tuple[str | None, str | None], list[list[Interval]]] = {}
        self._own_parts: dict[tuple[str | None, str | None], Parts] = {}
        self._own_devices: dict[tuple[str | None, str | None, int, str | None], Device] = {}
        taken: dict[int, list[Interval]] = {}
        for lease in leases:
            taken.setdefault(lease.dev, []).append((lease.start, lease.end))
        for device in sorted(fleet.devices, key=lambda d: (d.device, d.instance or "", d.dev)):
            exists = device.exists
            if device.instance is None and device.dev in fleet.instances:
                laid_out = union(i for dev in fleet.instances[device.dev] for i in fleet.devices[dev].exists)
                exists = subtract(exists, laid_out)
            out = union([*taken.get(device.dev, []), *down.get(device.card, [])])
            self._free[device.dev] = subtract(exists, out)
            self._parts.open(device.dev, self._free[device.dev])
            self._by_node.setdefault(device.node, []).append(device)
        self.findings: list[Finding] = []

    def place(self, demand: Demand) -> list[Lease]:
        """Return the leases of a demand; what doesn't fit is in `findings`."""
        record = demand.record
        leases: list[Lease] = []
        if not record.nodes:
            leases = self._on_anything(record, demand.gpus)
        for node, gpus, mine in self._per_node(demand):
            candidates = self._candidates(node, record)
            if not candidates:
                leases += self._on_own_capacity(node, record, gpus)
                continue
            taken = self._on(self._suited(candidates, record), record, gpus, guessed=True)
            if self._has_all(candidates, record, mine, gpus, taken):
                taken = [replace(lease, guessed=False) for lease in taken]
            leases += taken
        return leases

    def _per_node(self, demand: Demand) -> list[tuple[str, Fraction, set[int]]]:
        """Split the GPUs evenly over the record's nodes, less those already held there."""
        nodes = demand.record.nodes
        if not nodes:
            return []
        if len(nodes) == 1:
            return [(nodes[0], demand.gpus, {d for d in demand.held if self._fleet.devices[d].node == nodes[0]})]
        held = [{dev for dev in demand.held if self._fleet.devices[dev].node == node} for node in nodes]
        total = demand.gpus + len(demand.held)
        if total.denominator == 1:
            each, more = divmod(total.numerator, len(nodes))
            shares = [Fraction(each + (i < more)) for i in range(len(nodes))]
        else:
            shares = [total / len(nodes)] * len(nodes)
        takes: list[Fraction] = []
        left = demand.gpus
        for share, mine in zip(shares, held, strict=True):
            takes.append(min(max(share - len(mine), Fraction(0)), left))
            left -= takes[-1]
        takes[-1] += left  # of devices labelled on nodes that the accounting doesn't name
        return [(node, take, mine) for node, take, mine in zip(nodes, takes, held, strict=True) if take > 0]

    def _candidates(self, node: str | None, record: Record) -> list[Device]:
        return [
            d
            for d in self._by_node.get(node, ())
            if record.cluster is None or d.cluster is None or d.cluster == record.cluster
        ]

    def _suited(self, candidates: list[Device], record: Record) -> list[Device]:
        """Return the devices of the record's model; where the node has none of that name, its cards."""
        return [d for d in candidates if fits(record, d)] or [d for d in candidates if d.instance is None]

    def _has_all(
        self, candidates: list[Device], record: Record, mine: set[int], gpus: Fraction, taken: list[Lease]
    ) -> bool:
        """Return whether a record has every device of a node throughout, but for what is down: then it is no guess.

        Args:
            mine: devices that its labels show.
            gpus, taken: what else it asks for there, and what it got.
        """
        others = [d for d in candidates if d.dev not in mine and overlaps(d.exists, record.start, record.end)]
        if gpus < len(others):
            return False
        got: dict[int, list[Interval]] = {}
        for lease in taken:
            if lease.share in (None, 1):
                got.setdefault(lease.dev, []).append((lease.start, lease.end))
        for device in others:
            there = subtract(intersect(device.exists, [(record.start, record.end)]), self._down.get(device.card, []))
            if subtract(there, union(got.get(device.dev, []))):
                return False
        return True

    def _on_anything(self, record: Record, gpus: Fraction) -> list[Lease]:
        suited = [
            d
            for devices in self._by_node.values()
            for d in self._candidates(devices[0].node, record)
            if fits(record, d)
        ]
        if not suited:
            return self._on_own_capacity(None, record, gpus)
        return self._on(sorted(suited, key=lambda d: (d.device, d.instance or "", d.dev)), record, gpus, guessed=True)

    def _on(self, devices: list[Device], record: Record, gpus: Fraction, *, guessed: bool) -> list[Lease]:
        """Take devices that are free throughout first, then what is free for a while."""
        parts = parts_of(record, gpus)
        if parts is not None and not any(d.instance for d in devices):
            return self._in_parts(devices, record, parts)
        leases: list[Lease] = []
        left = gpus
        for device in devices:
            if left <= 0:
                break
            if covers_all(self._free[device.dev], record.start, record.end):
                share = left if left < 1 else None
                leases.append(self._take(record, device, record.start, record.end, share, guessed=guessed))
                left -= share or 1
        if left > 0:
            leases += self._piecewise(devices, record, left, guessed=guessed)
        return leases

    def _in_parts(self, devices: list[Device], record: Record, parts: list[Fraction | str]) -> list[Lease]:
        """Let pods that hold parts of cards share them, by UUID."""
        cards = {d.dev: d.model for d in devices if d.instance is None}
        leases = []
        for part in parts:
            found = self._parts.take(cards, part, record.start, record.end)
            if found is None:
                who = f"{record.workload} (a part of a GPU)"
                self.findings.append(
                    Finding("conflicting_owner", 1, "fits on no free device", who, record.start, record.end)
                )
                continue
            dev, share = found
            cut(self._free[dev], record.start, record.end)
            leases.append(
                lease_of(record, self._fleet.devices[dev], record.start, record.end, share=share, guessed=True)
            )
        return leases

    def _piecewise(self, devices: list[Device], record: Record, gpus: Fraction, *, guessed: bool) -> list[Lease]:
        edges = {record.start, record.end}
        for device in devices:
            edges.update(x for i in self._free[device.dev] for x in i if record.start < x < record.end)
        ordered = sorted(edges)
        leases: list[Lease] = []
        missing = Fraction(0)
        for a, b in pairwise(ordered):
            left = gpus
            for device in devices:
                if left <= 0:
                    break
                if covers_all(self._free[device.dev], a, b):
                    share = left if left < 1 else None
                    leases.append(self._take(record, device, a, b, share, guessed=guessed))
                    left -= share or 1
            missing += left * (b - a)
        if missing:
            subject = f"{record.workload} ({float(missing) / 3_600_000:.6g} GPU-hours)"
            self.findings.append(
                Finding("conflicting_owner", 1, "fits on no free device", subject, record.start, record.end)
            )
        return leases

    def _take(
        self, record: Record, device: Device, start: int, end: int, share: Fraction | None, *, guessed: bool
    ) -> Lease:
        cut(self._free[device.dev], start, end)
        self._parts.close(device.dev, start, end)
        if share is None and self._fleet.slots_at(device.card, start):
            share = Fraction(1)  # what a scheduler gives unseen is the GPU, not one of its time slices
        return lease_of(record, device, start, end, share=share, guessed=guessed)

    def _on_own_capacity(self, node: str | None, record: Record, gpus: Fraction) -> list[Lease]:
        """A node that nothing else knows adds the GPUs that its jobs held: as many as were held at once."""
        parts = parts_of(record, gpus)
        if parts is not None:
            return self._parts_of_own(node, record, parts)
        own = self._own.setdefault((record.cluster, node), [])
        free = [n for n, times in enumerate(own) if not overlaps(times, record.start, record.end)]
        leases = []
        # Whole GPUs are counted as whole numbers: fractions cost ten times as much.
        left = gpus.numerator if gpus.denominator == 1 else gpus
        while left > 0:
            if not free:
                own.append([])
                free.append(len(own) - 1)
            number = free.pop(0)
            insert(own[number], record.start, record.end)
            device = self._own_device(node, number, record)
            insert(device.exists, record.start, record.end)
            share = Fraction(left) if left < 1 else None
            leases.append(lease_of(record, device, record.start, record.end, share=share))
            left -= share or 1
        return leases

    def _parts_of_own(self, node: str | None, record: Record, parts: list[Fraction | str]) -> list[Lease]:
        """Let parts share the cards that a node must have to hold them; whole cards stand apart."""
        places = self._own_parts.setdefault((record.cluster, node), Parts())
        leases = []
        for part in parts:
            found = places.take({}, part, record.start, record.end, may_grow=True)
            if found is None:
                continue
            number, share = found
            key = (record.cluster, node, number, "part")
            if key not in self._own_devices:
                name = f"{node or 'unplaced'}#part{number + 1}"
                self._own_devices[key] = self._fleet.add(cluster=record.cluster, device=name, model=None, node=node)
            device = self._own_devices[key]
            insert(device.exists, record.start, record.end)
            leases.append(lease_of(record, device, record.start, record.end, share=share))
        return leases

    def _own_device(self, node: str | None, number: int, record: Record) -> Device:
        """Return the device of a place on a node; which model stood there is known only while a job holds it."""
        key = (record.cluster, node, number, record.model)
        if key not in self._own_devices:
            name = f"{node or 'unplaced'}#{number + 1}"
            self._own_devices[key] = self._fleet.add(cluster=record.cluster, device=name, model=record.model, node=node)
        return self._own_devices[key]
