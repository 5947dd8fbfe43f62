"""Scheduler records → leases on devices.

Slurm's accounting and an allocations file are the truth for the workloads that they name. Where they don't say which
devices a workload held, its labels do; what is left takes free devices, which is a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import polars as pl

from pipelines.fleet import Device, Fleet
from pipelines.intervals import Interval, intersect, overlaps, subtract, union
from pipelines.leases import Lease
from pipelines.models import letters, model_matches
from pipelines.owners import NamedRun
from pipelines.tables import Finding


@dataclass(frozen=True, slots=True)
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
    ended: bool = False
    nodes: tuple[str, ...] = ()
    slurm: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class Demand:
    """GPUs of a record whose devices nobody names."""

    record: Record
    gpus: Fraction
    held: list[int]


def records_from(table: pl.DataFrame, horizon: int) -> list[Record]:
    """Return the records of a RECORD table (times in ms), runs without an end held to `horizon`."""
    records = []
    gpus = {text: Fraction(text or "1") for text in table["gpus"].unique()}
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
                gpus=gpus[row["gpus"]],
                user=row["user"],
                tenant=row["tenant"],
                given_class=row["class"],
                device=row["device"],
                model=row["model"],
                ended=bool(row["ended"]),
                nodes=tuple(row["nodes"] or ()),
                slurm={k: row[k] for k in ("slurm_account", "slurm_partition", "slurm_qos", "slurm_user")},
            )
        )
    return sorted(records, key=lambda r: (r.start, r.workload, r.model or "", r.end))


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
    for record in records:
        if record.given_class in {"down", "repair"}:
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
        if len(fitting) > len(mine) and record.model is None:
            surplus = len(fitting) - len(mine)
            detail = "devices labelled with a job beyond the GPUs that it was given"
            findings.append(Finding("conflicting_owner", surplus, detail, record.workload, record.start, record.end))
        used.update(d.dev for d in mine)
        left = record.gpus
        for device in mine:
            share = left if left < 1 else None
            leases.append(lease_of(record, device, record.start, record.end, share=share))
            left -= share or 1
        if left > 0:
            demands.append(Demand(record, left, [d.dev for d in mine]))
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
        ended=record.ended,
        whole_start=record.start,
        slurm_account=record.slurm.get("slurm_account"),
        slurm_partition=record.slurm.get("slurm_partition"),
        slurm_qos=record.slurm.get("slurm_qos"),
        slurm_user=record.slurm.get("slurm_user"),
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
    for lease in labelled:
        left = subtract([(lease.start, lease.end)], union(given.get(lease.dev, [])))
        if left == [(lease.start, lease.end)]:
            kept.append(lease)
            continue
        detail = "labels name somebody else than the scheduler gives the device to"
        findings.append(Finding("conflicting_owner", 1, detail, lease.workload, lease.start, lease.end))
        kept += [replace(lease, start=start, end=end, whole_start=lease.start) for start, end in left]
    return kept


def fitted(named: Iterable[Lease], fleet: Fleet, findings: list[Finding]) -> list[Lease]:
    """Return leases on named devices as far as those exist."""
    kept: list[Lease] = []
    for lease in named:
        device = fleet.devices[lease.dev]
        exists = fleet.devices[device.card].exists if device.instance is None else device.exists
        inside = intersect(exists, [(lease.start, lease.end)])
        if inside != [(lease.start, lease.end)]:
            detail = "held while its device does not exist"
            findings.append(Finding("conflicting_owner", 1, detail, lease.workload, lease.start, lease.end))
        kept += [replace(lease, start=start, end=end) for start, end in inside]
    return kept


def _means(record: Record, device: Device) -> bool:
    """Return whether the GPU type of a record is a labelled device's: its model, or its MIG profile."""
    return model_matches(record.model, device.model) or _asks_for_profile(record, device)


def fits(record: Record, device: Device) -> bool:
    """Return whether a record may take a device unseen: an instance only where its profile is asked for."""
    if device.instance is None:
        return model_matches(record.model, device.model)
    return _asks_for_profile(record, device)


def _asks_for_profile(record: Record, device: Device) -> bool:
    return bool(device.profile) and letters(device.profile) in letters(record.model)
