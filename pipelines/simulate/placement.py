"""Requests become leases: a small scheduler that keeps reservations free and drains nodes for large jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.demand import SERVICES, WARM_UP, Demand, Names, Request, Service
from pipelines.simulate.fleet import A100_MIG, H100_K8S, H100_SLURM, T4_SLICED, Fleet, Node
from pipelines.simulate.scenario import DAY, Incident, Job, Lease, Window, local
from pipelines.simulate.terms import Terms

Ints = NDArray[np.int64]

_FOR_GOOD: Final = 1 << 60
_SLACK: Final = 1  # H100s that stay idle beyond unused reservations, since one may break
_UNLABELLED_EVERY: Final = 23  # Slurm job whose node has no job map


@dataclass(frozen=True, slots=True)
class Closure:
    """A unit takes no work over [start, end); what runs when it closes ends then."""

    start: int
    end: int


class Pool:
    """The units of one kind of node, in groups whose units can serve one pod together."""

    def __init__(self, groups: tuple[tuple[int, ...], ...]) -> None:
        self.groups = groups
        self.units: Ints = np.array([unit for group in groups for unit in group], dtype=np.int64)
        self.sizes: Ints = np.array([len(group) for group in groups], dtype=np.int64)
        self.starts: Ints = np.cumsum(self.sizes) - self.sizes


@dataclass(slots=True)
class Placement:
    """The scheduler's state while it goes through the requests in order of time.

    Args:
        closures: by unit.
        outages: of exporters, by node. No lease begins or ends in one: nobody could have seen it.
    """

    fleet: Fleet
    window: Window
    terms: Terms
    rng: np.random.Generator
    names: Names
    closures: list[list[Closure]]
    outages: dict[int, Incident]
    leases: list[Lease] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    notable: list[Incident] = field(default_factory=list)
    _free_at: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _holder: list[str | None] = field(default_factory=list)
    _pools: dict[str, Pool] = field(default_factory=dict)
    _h100s: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _runs: int = 0
    _unlabelled_until: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """At first nothing is held."""
        self._free_at = np.full(len(self.fleet.units), -_FOR_GOOD, dtype=np.int64)
        self._holder = [None] * len(self.fleet.units)
        by_kind: dict[str, dict[int, list[int]]] = {}
        for place, unit in enumerate(self.fleet.units):
            by_kind.setdefault(self._node(place).kind, {}).setdefault(unit.group, []).append(place)
        self._pools = {kind: Pool(tuple(map(tuple, groups.values()))) for kind, groups in by_kind.items()}
        h100s = [pool.units for kind, pool in self._pools.items() if kind in (H100_K8S, H100_SLURM)]
        self._h100s = np.concatenate(h100s) if h100s else self._h100s

    def start_services(self) -> None:
        """Give the services units of their own for good, and roll them out every few days."""
        for service in SERVICES:
            count = service.count * self.fleet.count(service.kind)
            pods = -int(-count // 1) if service.kind in (A100_MIG, T4_SLICED) else round(count)
            for _ in range(pods):
                units = self._units_for_good(service)
                if units:
                    self._roll_out(service, units)

    def doom(self, repair: Incident, demand: Demand, start: int, end: int) -> None:
        """Let a workload hold the device that is about to fail, which is kept free for it.

        Slurm ends the job when the device fails; a pod is still there, and labelled, until ``end``.
        """
        unit = next(place for place, unit in enumerate(self.fleet.units) if unit.device == repair.device)
        if self._node(unit).slurm:
            request = Request(start, end - start, 1, 1, "training", demand, demand.users[0], special="node_fail")
            self._run_job(request, [unit], start, repair.start)
        else:
            self._run_pod(demand, [unit], start, end, "training", cut=repair.start)

    def place(self, request: Request) -> None:
        """Place one request, or turn it away. Requests come in order of time."""
        start, units = self._drain(request) if request.waits else (request.time, self._find(request))
        if not units or start > self.window.last - 2 * 3600:
            return
        end = self._end(units, start, start + request.seconds)
        if end - start < 10 * self.window.grid:
            return
        for unit in units:
            self._free_at[unit], self._holder[unit] = end, request.demand.tenant
        if end <= self.window.first:
            return
        if self._node(units[0]).slurm:
            self._run_job(request, units, start, end)
        else:
            self._run_pod(request.demand, units, start, end, request.behaviour)
        if request.special:
            self.notable.append(Incident(request.special, start, end, workload=self.leases[-1].workload))

    def _node(self, unit: int) -> Node:
        return self.fleet.nodes[self.fleet.devices[self.fleet.units[unit].device].node]

    def _groups(self, kind: str) -> tuple[tuple[int, ...], ...]:
        pool = self._pools.get(kind)
        return pool.groups if pool else ()

    def _outage(self, unit: int) -> Incident | None:
        return self.outages.get(self.fleet.devices[self.fleet.units[unit].device].node)

    def _is_open(self, unit: int, time: int) -> bool:
        found, outage = self.fleet.units[unit], self._outage(unit)
        exists = (found.start is None or found.start <= time) and (found.end is None or time < found.end)
        seen = outage is None or not outage.start <= time < outage.end
        return exists and seen and not any(c.start <= time < c.end for c in self.closures[unit])

    def _end(self, units: list[int], start: int, end: int) -> int:
        """When a run on these units ends that would like to go on to ``end``."""
        for unit in units:
            outage = self._outage(unit)
            if outage and start < outage.start < end <= outage.end:
                end = outage.end + 10 * self.window.grid
        for unit in units:
            gone = self.fleet.units[unit].end
            end = min(end, gone if gone is not None else end)
            for closure in self.closures[unit]:
                if start < closure.start < end:
                    end = closure.start
        return end

    def _find(self, request: Request) -> list[int]:
        """Units that are free when they're asked for: of the fullest group that has enough."""
        pool = self._pools.get(request.demand.kind)
        if pool is None:
            return []
        wanted = np.minimum(request.units, pool.sizes)
        free = np.add.reduceat(self._free_at[pool.units] <= request.time, pool.starts, dtype=np.int64)
        enough = np.nonzero(free >= wanted)[0]
        for place in enough[np.argsort(free[enough], kind="stable")]:
            group = pool.groups[place]
            units = [u for u in group if self._free_at[u] <= request.time and self._is_open(u, request.time)]
            if len(units) >= wanted[place]:
                return units[: wanted[place]] if self._admits(request, int(wanted[place])) else []
        return []

    def _admits(self, request: Request, count: int) -> bool:
        """Whether reservations of H100s stay free for those who pay for them."""
        if request.demand.kind not in (H100_K8S, H100_SLURM):
            return True
        held = [self._holder[unit] for unit in self._h100s[self._free_at[self._h100s] > request.time]]
        unused = 0
        for reservation in self.terms.reservations:
            mine = held.count(reservation.tenant) + count * (reservation.tenant == request.demand.tenant)
            unused += max(0, reservation.gpus - mine)
        return len(self._h100s) - len(held) - count >= unused + _SLACK

    def _drain(self, request: Request) -> tuple[int, list[int]]:
        """Wait for the nodes that are free first; until then they take nothing else."""
        candidates = []
        for place, group in enumerate(self._groups(request.demand.kind)):
            units = sorted(sorted(group, key=lambda unit: int(self._free_at[unit]))[: request.units])
            ready = max(int(self._free_at[unit]) for unit in units)
            candidates.append((ready, place, units))
        chosen = sorted(candidates)[: request.nodes]
        if not chosen:
            return 0, []
        units = [unit for _, _, group in chosen for unit in group]
        start = max(request.time, *(ready for ready, _, _ in chosen))
        while not all(self._is_open(unit, start) for unit in units) and start < self.window.last:
            start += self.window.grid
        return start, units

    def _units_for_good(self, service: Service) -> list[int]:
        for group in self._groups(service.kind):
            units = [
                unit
                for unit in group
                if self._free_at[unit] < 0
                and not self.closures[unit]
                and self.fleet.units[unit].start is None
                and self.fleet.units[unit].end is None
            ]
            if len(units) >= service.slices:
                return list(units[: service.slices])
        return []

    def _roll_out(self, service: Service, units: list[int]) -> None:
        demand = Demand(service.tenant, service.kind, service.stem, 0.0, {}, 0.0, {}, namespace=service.namespace)
        start = self.window.snap(self.window.first - WARM_UP)
        while start < self.window.last:
            days = service.rollout_days * (0.5 + self.rng.random())
            end = self._end(units, start, max(self.window.snap(start + days * DAY), start + 60 * self.window.grid))
            if end > self.window.first:
                self._run_pod(demand, units, start, end, service.behaviour)
            start = end
        for unit in units:
            self._free_at[unit], self._holder[unit] = _FOR_GOOD, service.tenant

    def _character(self) -> tuple[float, float, float, float]:
        a, b, c, d = self.rng.random(4).tolist()
        return a, b, c, d

    def _run_pod(
        self, demand: Demand, units: list[int], start: int, end: int, behaviour: str, cut: int | None = None
    ) -> None:
        self._runs += 1
        pod = self.names.pod(demand.stem)
        uid = self.names.uid() if demand.named_by_uid else None
        character = self._character()
        for rank, unit in enumerate(units):
            self.leases.append(
                Lease(
                    unit=unit,
                    start=start,
                    end=end,
                    workload=f"{demand.namespace}/{pod}",
                    tenant=demand.tenant,
                    run=self._runs,
                    rank=rank,
                    ranks=len(units),
                    behaviour=behaviour,
                    character=character,
                    label_start=start,
                    label_end=end,
                    cut=cut,
                    spot=demand.spot,
                    namespace=demand.namespace,
                    pod=pod,
                    pod_uid=uid,
                )
            )

    def _run_job(self, request: Request, units: list[int], start: int, end: int) -> None:
        job_id = self.names.job_id()
        grid = self.window.grid
        if _reads_twice(start) and _reads_twice(end):  # accounting couldn't tell which hour it ran in
            return
        if request.special == "requeue" and end - start > 40 * grid:
            half = self.window.snap(start + (end - start) / 2)
            spans = [(start, half, "REQUEUED"), (half + 4 * grid, end, "COMPLETED")]
        else:
            spans = [(start, end, "NODE_FAIL" if request.special == "node_fail" else self._state())]
        labelled = self._is_labelled(request, units, start, end)
        submit = start - int(self.rng.integers(0, 30)) * 60
        character = self._character()
        for begin, finish, state in spans:
            self._runs += 1
            late = int(self.rng.integers(1, 5)) * grid
            linger = 0 if len(spans) > 1 or state == "NODE_FAIL" else int(self.rng.integers(0, 4)) * grid
            for rank, unit in enumerate(units):
                self.leases.append(
                    Lease(
                        unit=unit,
                        start=begin,
                        end=finish,
                        workload=str(job_id),
                        tenant=request.demand.tenant,
                        run=self._runs,
                        rank=rank,
                        ranks=len(units),
                        behaviour=request.behaviour,
                        character=character,
                        label_start=begin + late if labelled else begin,
                        label_end=finish + linger if labelled else begin,
                        spot=request.demand.spot,
                        straggler=len(units) // 3 if request.behaviour == "straggler" and len(units) > 1 else None,
                    )
                )
            self.jobs.append(
                Job(
                    id=job_id,
                    name=request.special or request.demand.stem,
                    account=request.demand.account,
                    user=request.user,
                    partition=request.demand.partition,
                    qos=request.demand.qos,
                    state=state,
                    submit=submit,
                    start=begin,
                    end=finish,
                    nodes=tuple(sorted({self.fleet.devices[self.fleet.units[unit].device].node for unit in units})),
                    gpus=len(units),
                    gres=self.fleet.devices[self.fleet.units[units[0]].device].card.gres,
                )
            )

    def _state(self) -> str:
        return ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1021")[
            int(self.rng.integers(6))
        ]

    def _is_labelled(self, request: Request, units: list[int], start: int, end: int) -> bool:
        """Most jobs show in the samples. Of those that don't, a node runs one at a time.

        Which of a node's free devices such a job had is then the only guess that accounting leaves open.
        """
        node = self.fleet.devices[self.fleet.units[units[0]].device].node
        if request.special == "without_labels":
            wanted = True
        else:
            wanted = not request.special and len(self.jobs) % _UNLABELLED_EVERY == _UNLABELLED_EVERY - 1
        if not wanted or self._unlabelled_until.get(node, start) > start:
            return True
        self._unlabelled_until[node] = end
        return False


def _reads_twice(time: int) -> bool:
    """Whether the wall clock shows this time twice, since it was set back."""
    moment = local(time)
    return moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset()
