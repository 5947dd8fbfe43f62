"""The story of a simulated month: what is bought, breaks, is drained, flickers and fades."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np

from pipelines.simulate.demand import Names, doomed_demand, requests
from pipelines.simulate.fleet import A100_K8S, A100_SLURM, H100_K8S, H100_SLURM, Fleet, build_fleet
from pipelines.simulate.placement import Closure, Placement
from pipelines.simulate.scenario import ZONE, Incident, Lease, Scenario, Window, make_window
from pipelines.simulate.terms import demo_terms

_AGES_AGO = -(1 << 60)
_GRACE = 600  # seconds that a failed card's pod is still there


def build_scenario(*, gpus: int, days: int, seed: int, start: date, interval: int) -> Scenario:
    """The same arguments give the same scenario.

    Raises:
        ValueError: fewer than one GPU or day, or an interval that doesn't divide the hour.
    """
    if gpus < 1:
        raise ValueError(f"gpus: {gpus} is not at least 1")
    window = make_window(start, days, interval)
    fleet_rng, demand_rng, placement_rng, accident_rng = (np.random.default_rng([seed, stream]) for stream in range(4))
    relayout = window.at(0.5) // 3600 * 3600
    joins = _local_midnight(window.start, days=5) if window.days >= 14 else None
    fleet = build_fleet(gpus, fleet_rng, relayout_at=relayout, late_node_at=joins)
    terms = demo_terms(
        gpus=gpus,
        h100s=fleet.count(H100_K8S, H100_SLURM),
        start=window.start,
        end=window.end,
        rate_change=_local_midnight(window.start, days=max(1, int(window.days) // 2)),
    )
    planned = _planned(fleet, window)
    placement = Placement(
        fleet=fleet,
        window=window,
        terms=terms,
        rng=placement_rng,
        names=Names(placement_rng),
        closures=_closures(fleet, window, planned),
        outages={i.node: i for i in planned if i.kind == "outage" and i.node is not None},
    )
    for repair in planned:
        if repair.kind == "repair":
            demand = doomed_demand(slurm=repair.tenant is not None)
            placement.doom(repair, demand, repair.start - _lead(window), repair.start + max(_GRACE, window.grid))
    placement.start_services()
    for request in requests(fleet, window, demand_rng):
        placement.place(request)
    leases = sorted(placement.leases, key=lambda lease: (lease.start, lease.run, lease.rank))
    flickers = _flickers(fleet, window, leases, planned, accident_rng)
    return Scenario(
        window=window,
        fleet=fleet,
        terms=terms,
        leases=tuple(leases),
        jobs=tuple(sorted(placement.jobs, key=lambda job: (job.start, job.id))),
        incidents=tuple(planned + placement.notable + flickers),
        seed=seed,
    )


def _local_midnight(start: int, *, days: int) -> int:
    day = datetime.fromtimestamp(start, ZONE).date() + timedelta(days=days)
    return int(datetime(day.year, day.month, day.day, tzinfo=ZONE).timestamp())


def _planned(fleet: Fleet, window: Window) -> list[Incident]:
    """What is known before the first request: at fractions of the period, so that short ones have it, too."""
    by_kind: dict[str, list[int]] = {}
    for place, node in enumerate(fleet.nodes):
        by_kind.setdefault(node.kind, []).append(place)
    planned = []

    def span(begin: float, seconds: float) -> tuple[int, int]:
        start = window.at(begin)
        return start, start + max(window.snap(seconds), window.grid)

    length = window.end - window.start
    for place in by_kind.get(A100_K8S, [])[:1]:
        devices = fleet.nodes[place].devices
        planned.append(Incident("outage", *span(0.40, 25 * 60), node=place))
        planned.append(Incident("repair", *span(0.20, 0.03 * length), node=place, device=devices[-1], code=48))
        planned.append(Incident("xid", *span(0.60, length), node=place, device=devices[0], code=31))
    for place in by_kind.get(H100_K8S, [])[-1:]:
        reload = window.at(0.55)
        planned.append(Incident("drain", reload - 2 * 3600, reload + 1800, node=place))
        planned.append(Incident("driver_reload", reload, reload + window.grid, node=place))
    for place in by_kind.get(H100_SLURM, [])[:1]:
        devices = fleet.nodes[place].devices
        device = devices[min(1, len(devices) - 1)]
        planned.append(Incident("repair", *span(0.83, 0.05 * length), node=place, device=device, tenant="nlp", code=79))
    for place in by_kind.get(H100_SLURM, [])[-1:]:
        device = fleet.nodes[place].devices[-1]
        planned.append(Incident("throttle", *span(0.30, 0.06 * length), node=place, device=device))
    for place in by_kind.get(A100_SLURM, [])[-1:]:
        joined = fleet.nodes[place].joined
        if joined is not None:
            planned.append(Incident("node_joined", joined, window.last, node=place))
    for unit in fleet.units:
        if unit.start is not None:
            planned.append(Incident("layout_change", unit.start, unit.start, device=unit.device))
            break
    return planned


def _closures(fleet: Fleet, window: Window, planned: list[Incident]) -> list[list[Closure]]:
    """When each unit takes no work."""
    closures: list[list[Closure]] = [[] for _ in fleet.units]
    for place, unit in enumerate(fleet.units):
        node = fleet.devices[unit.device].node
        joined = fleet.nodes[node].joined
        if joined is not None:
            closures[place].append(Closure(_AGES_AGO, joined))
        for incident in planned:
            if incident.kind == "drain" and incident.node == node:
                closures[place].append(Closure(incident.start, incident.end))
            if incident.kind == "repair" and incident.device == unit.device:
                closures[place].append(Closure(incident.start - _lead(window), incident.end))
    return closures


def _lead(window: Window) -> int:
    """How long the workload that will lose its device has held it."""
    return max(window.snap(min(6 * 3600, (window.end - window.start) / 20)), 10 * window.grid)


def _flickers(
    fleet: Fleet, window: Window, leases: list[Lease], planned: list[Incident], rng: np.random.Generator
) -> list[Incident]:
    """Runs of three minutes in which the labels of a pod are missing, about one in two days."""
    clear = 3600
    outages = [(i.start - clear, i.end + clear, i.node) for i in planned if i.kind == "outage"]
    candidates = [
        lease
        for lease in leases
        if lease.pod
        and fleet.units[lease.unit].share == 1
        and fleet.units[lease.unit].instance is None
        and lease.cut is None
        and min(lease.end, window.end) - max(lease.start, window.start) > 4 * clear
    ]
    if not candidates:
        return []
    seconds = max(180 // window.interval, 1) * window.interval
    flickers = []
    for place in rng.permutation(len(candidates))[: max(1, int(window.days) // 2)]:
        lease = candidates[int(place)]
        first, last = max(lease.start, window.start) + clear, min(lease.end, window.end) - clear
        start = window.snap(first + rng.random() * (last - first))
        device = fleet.units[lease.unit].device
        node = fleet.devices[device].node
        if not any(begin < start < end and node == where for begin, end, where in outages):
            flickers.append(
                Incident("flicker", start, start + seconds, node=node, device=device, workload=lease.workload)
            )
    return flickers
