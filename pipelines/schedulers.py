"""Scheduler records → leases on devices.

Slurm's accounting and an allocations file are the truth for the workloads that they name. Where they don't say which
devices a workload held, its labels do; what is left takes free devices, which is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import polars as pl

from pipelines.fleet import Device, Fleet
from pipelines.intervals import Interval, covers_all, intersect, overlaps, subtract, union
from pipelines.leases import Lease
from pipelines.owners import NamedRun
from pipelines.tables import Finding

_ALNUM: Final = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Record:
    """One run of a scheduled workload on one GPU model. Times in ms."""

    kind: str
    cluster: str | None
    workload: str
    labelled_as: str
    start: int
    end: int
    gpus: Fraction
    user: str | None = None
    tenant: str | None = None
    given_class: str | None = None
    device: str | None = None
    model: str | None = None
    nodes: tuple[str, ...] = ()
    slurm: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Demand:
    """GPUs of a record whose devices nobody names."""

    record: Record
    gpus: Fraction
    held: list[int]


def records_from(table: pl.DataFrame, horizon: int) -> list[Record]:
    """Return the records of a RECORD table (times in ms), runs without an end held to `horizon`."""
    records = []
    for row in table.iter_rows(named=True):
        end = row["end"] if row["end"] is not None else max(horizon, row["start"])
        if end <= row["start"]:
            continue
        records.append(
            Record(
                kind=row["kind"],
                cluster=row["cluster"],
                workload=row["workload"],
                labelled_as=row["labelled_as"],
                start=row["start"],
                end=end,
                gpus=Fraction(row["gpus"] or "1"),
                user=row["user"],
                tenant=row["tenant"],
                given_class=row["class"],
                device=row["device"],
                model=row["model"],
                nodes=tuple(row["nodes"] or ()),
                slurm={k: row[k] for k in ("slurm_account", "slurm_partition", "slurm_qos", "slurm_user")},
            )
        )
    return sorted(records, key=lambda r: (r.start, r.workload, r.model or "", r.end))


def model_matches(wanted: str | None, model: str | None) -> bool:
    """Return whether a scheduler's name for a GPU ("h100") means `model` ("NVIDIA H100 80GB HBM3")."""
    if wanted is None or model is None:
        return True
    want, have = _ALNUM.findall(wanted.lower()), _ALNUM.findall(model.lower())
    return "".join(want) in "".join(have) or all(word in have for word in want)


def named_leases(
    records: Iterable[Record], runs: Sequence[NamedRun], fleet: Fleet, findings: list[Finding]
) -> tuple[list[Lease], list[Demand]]:
    """Return leases on the devices that records or labels name, and what is left to place."""
    by_workload: dict[str, list[NamedRun]] = {}
    for run in runs:
        by_workload.setdefault(run.labelled_as, []).append(run)
    by_key: dict[str, list[Device]] = {}
    for device in fleet.devices:
        by_key.setdefault(device.key, []).append(device)
    leases: list[Lease] = []
    demands: list[Demand] = []
    labelled_by: dict[tuple[str | None, str, int], set[int]] = {}
    surplus = 0
    for record in records:
        if record.given_class == "down":
            continue
        if record.device is not None:
            device = _named_device(record, by_key, fleet)
            share = record.gpus if record.gpus < 1 else None
            leases.append(lease_of(record, device, record.start, record.end, share=share))
            continue
        used = labelled_by.setdefault((record.cluster, record.workload, record.start), set())
        labelled = {
            run.dev
            for run in by_workload.get(record.labelled_as, ())
            if run.first < record.end
            and run.last >= record.start
            and record.cluster in (None, fleet.devices[run.dev].cluster)
            and run.dev not in used
        }
        fitting = sorted(
            (fleet.devices[dev] for dev in labelled if _means(record, fleet.devices[dev])),
            key=lambda d: (d.device, d.instance or ""),
        )
        mine = fitting[: -(-record.gpus.numerator // record.gpus.denominator)]
        surplus += len(fitting) - len(mine) if record.model is None else 0
        used.update(d.dev for d in mine)
        left = record.gpus
        for device in mine:
            share = left if left < 1 else None
            leases.append(lease_of(record, device, record.start, record.end, share=share))
            left -= share or 1
        if left > 0:
            demands.append(Demand(record, left, [d.dev for d in mine]))
    if surplus:
        findings.append(
            Finding("conflicting_owner", surplus, f"{surplus} devices labelled with a job beyond the GPUs that it was given")
        )
    return leases, demands


def _named_device(record: Record, by_key: dict[str, list[Device]], fleet: Fleet) -> Device:
    name = str(record.device)
    known = [d for d in by_key.get(name, []) if record.cluster in (None, d.cluster)]
    if known:
        # One instance id may have had several profiles: the one that was there.
        return next((d for d in known if overlaps(d.presence, record.start, record.end)), known[-1])
    device = fleet.add(
        cluster=record.cluster, device=name, model=record.model, node=record.nodes[0] if record.nodes else None
    )
    by_key.setdefault(name, []).append(device)
    return device


def lease_of(
    record: Record, device: Device, start: int, end: int, *, share: Fraction | None = None, guessed: bool = False
) -> Lease:
    """Return the record's hold on one device over [start, end)."""
    namespace, _, pod = record.workload.rpartition("/")
    is_pod = record.kind != "slurm" and bool(namespace)
    return Lease(
        dev=device.dev,
        start=start,
        end=end,
        kind=record.kind,
        cluster=record.cluster or device.cluster or "default",
        workload=record.workload,
        node=device.node,
        namespace=namespace if is_pod else None,
        pod=pod if is_pod else None,
        user=record.user,
        tenant=record.tenant,
        given_class=record.given_class,
        share=share,
        guessed=guessed,
        whole_start=record.start,
        **record.slurm,
    )


def pushed_out(
    labelled: Iterable[Lease], named: Iterable[Lease], shared: set[int], findings: list[Finding]
) -> list[Lease]:
    """Return the labelled leases without the time in which a scheduler gives their device to somebody.

    Where a device was seen with two owners they share it instead.
    """
    given: dict[int, list[Interval]] = {}
    for lease in named:
        if lease.share is None and lease.dev not in shared:
            given.setdefault(lease.dev, []).append((lease.start, lease.end))
    kept: list[Lease] = []
    conflicts = 0
    for lease in labelled:
        left = subtract([(lease.start, lease.end)], union(given.get(lease.dev, [])))
        if left == [(lease.start, lease.end)]:
            kept.append(lease)
            continue
        conflicts += 1
        kept += [replace(lease, start=start, end=end, whole_start=lease.start) for start, end in left]
    if conflicts:
        findings.append(
            Finding("conflicting_owner", conflicts, "labels name somebody while a scheduler gives the device to another")
        )
    return kept


def fitted(named: Iterable[Lease], fleet: Fleet, findings: list[Finding]) -> list[Lease]:
    """Return leases on named devices as far as those exist."""
    kept: list[Lease] = []
    beyond = []
    for lease in named:
        device = fleet.devices[lease.dev]
        exists = fleet.devices[device.card].exists if device.instance is None else device.exists
        inside = intersect(exists, [(lease.start, lease.end)])
        if inside != [(lease.start, lease.end)]:
            beyond.append(lease.workload)
        kept += [replace(lease, start=start, end=end) for start, end in inside]
    if beyond:
        names = ", ".join(sorted(set(beyond))[:3])
        findings.append(Finding("conflicting_owner", len(beyond), f"held beyond the time in which its device exists: {names}"))
    return kept


def _means(record: Record, device: Device) -> bool:
    """Return whether the GPU type of a record is a labelled device's: its model, or its MIG profile."""
    return model_matches(record.model, device.model) or _asks_for_profile(record, device)


def _fits(record: Record, device: Device) -> bool:
    """Return whether a record may take a device unseen: an instance only where its profile is asked for."""
    if device.instance is None:
        return model_matches(record.model, device.model)
    return _asks_for_profile(record, device)


def _asks_for_profile(record: Record, device: Device) -> bool:
    asked = "".join(_ALNUM.findall((record.model or "").lower()))
    return bool(device.profile) and "".join(_ALNUM.findall((device.profile or "").lower())) in asked


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
        self._by_node: dict[str | None, list[Device]] = {}
        self._own: dict[tuple[str | None, str | None], list[list[Interval]]] = {}
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
            self._by_node.setdefault(device.node, []).append(device)
        self.unplaced = 0
        self.unplaced_details: list[str] = []

    def place(self, demand: Demand) -> list[Lease]:
        """Return the leases of a demand; what doesn't fit is counted in `unplaced`."""
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
        held = [{dev for dev in demand.held if self._fleet.devices[dev].node == node} for node in nodes]
        total = demand.gpus + len(demand.held)
        if total.denominator == 1:
            each, more = divmod(total.numerator, len(nodes))
            shares = [Fraction(each + (i < more)) for i in range(len(nodes))]
        else:
            shares = [total / len(nodes)] * len(nodes)
        wanted = [max(share - len(mine), Fraction(0)) for share, mine in zip(shares, held, strict=True)]
        left = demand.gpus
        result = []
        for node, want, mine in zip(nodes, wanted, held, strict=True):
            take = min(want, left)
            left -= take
            result.append([node, take, mine])
        if left:  # devices labelled on nodes that the accounting doesn't name
            result[-1][1] += left
        return [(node, gpus, mine) for node, gpus, mine in result if gpus > 0]  # type: ignore[misc]

    def _candidates(self, node: str | None, record: Record) -> list[Device]:
        return [
            d
            for d in self._by_node.get(node, ())
            if record.cluster is None or d.cluster is None or d.cluster == record.cluster
        ]

    def _suited(self, candidates: list[Device], record: Record) -> list[Device]:
        """Return the devices of the record's model; where the node has none of that name, its cards."""
        return [d for d in candidates if _fits(record, d)] or [d for d in candidates if d.instance is None]

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
            if lease.share is None:
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
            if _fits(record, d)
        ]
        if not suited:
            return self._on_own_capacity(None, record, gpus)
        return self._on(sorted(suited, key=lambda d: (d.device, d.instance or "", d.dev)), record, gpus, guessed=True)

    def _on(self, devices: list[Device], record: Record, gpus: Fraction, *, guessed: bool) -> list[Lease]:
        """Take devices that are free throughout first, then what is free for a while."""
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

    def _piecewise(self, devices: list[Device], record: Record, gpus: Fraction, *, guessed: bool) -> list[Lease]:
        edges = {record.start, record.end}
        for device in devices:
            edges.update(x for i in self._free[device.dev] for x in i if record.start < x < record.end)
        ordered = sorted(edges)
        leases: list[Lease] = []
        missing = Fraction(0)
        for a, b in zip(ordered, ordered[1:], strict=False):
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
            self.unplaced += 1
            self.unplaced_details.append(
                f"{record.workload}: {float(missing) / 3_600_000:.6g} GPU-hours fit on no free device"
            )
        return leases

    def _take(
        self, record: Record, device: Device, start: int, end: int, share: Fraction | None, *, guessed: bool
    ) -> Lease:
        self._free[device.dev] = subtract(self._free[device.dev], [(start, end)])
        return lease_of(record, device, start, end, share=share, guessed=guessed)

    def _on_own_capacity(self, node: str | None, record: Record, gpus: Fraction) -> list[Lease]:
        """A node that nothing else knows adds the GPUs that its jobs held: as many as were held at once."""
        own = self._own.setdefault((record.cluster, node), [])
        free = [n for n, times in enumerate(own) if not overlaps(times, record.start, record.end)]
        leases = []
        left = gpus
        while left > 0:
            if not free:
                own.append([])
                free.append(len(own) - 1)
            number = free.pop(0)
            own[number] = union([*own[number], (record.start, record.end)])
            device = self._own_device(node, number, record)
            device.exists = union([*device.exists, (record.start, record.end)])
            share = left if left < 1 else None
            leases.append(lease_of(record, device, record.start, record.end, share=share))
            left -= share or 1
        return leases

    def _own_device(self, node: str | None, number: int, record: Record) -> Device:
        """Return the device of a place on a node; which model stood there is known only while a job holds it."""
        key = (record.cluster, node, number, record.model)
        if key not in self._own_devices:
            name = f"{node or 'unplaced'}#{number + 1}"
            self._own_devices[key] = self._fleet.add(
                cluster=record.cluster, device=name, model=record.model, node=node
            )
        return self._own_devices[key]
