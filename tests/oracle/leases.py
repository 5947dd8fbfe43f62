"""Who holds what: leases from labels, and the runs that schedulers name with the devices they have or still need.

Readings
  L1. `hpc_job` comes before a pod on the same sample. A pod is one owner whatever its containers; with a UID it is
      another owner than the same name without (in one scrape they are one).
  L2. A scrape is all samples of a device at one very time; its owners are all that any of them names, its reach the
      longest of them.
  L3. Between two samples of one owner every hole counts by itself (from the reach before it to the next sample) and
      every unbroken run of unlabelled samples by itself (from its first sample to its last one's reach); all of them
      must be within their limits. Rejected: the whole stretch against one limit.
  L4. Another owner's sample between two samples of one owner always parts its lease, on shared devices too; only the
      cutting of a reach is for devices never seen with two owners. Rejected: on shared devices others' samples count
      as unlabelled, or as a hole.
  L5. "Never seen with two owners" looks at all the data, after labels that name nobody are taken out.
  L6. A label outside every run of the job that it names leaves its sample unlabelled. A job or workload that no
      scheduler's record names makes leases from labels like a pod, however long bridged if it is a job.
  L7. A labelled device is its run's from the run's start to its end, as far as the device exists; it counts against
      what the run needs on that node and of that model, else anywhere; more of them than GPUs all stay.
  L8. A row that names its device takes no others by label.
  L9. GPUs are split over the NodeList in whole ones, the first nodes getting one more.
  L10. On a device never seen with two owners a scheduler's lease pushes out what labels say there meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.oracle.fleet import Fleet, model_fits
from tests.oracle.mig import Device
from tests.oracle.reading import Run
from tests.oracle.samples import Claim, Observations, Scrape
from tests.oracle.settings import FOREVER, Settings


@dataclass(eq=False)
class Lease:
    """A workload holding `device` over [start, end); `start` is the whole lease's. `slices` says how many, when."""

    workload: str
    cluster: str
    start: int
    end: int
    device: Device
    labels: dict[str, str]
    run: Run | None = None
    slices: list[tuple[int, int]] = field(default_factory=list)

    def slices_at(self, when: int) -> int:
        before = [count for at, count in self.slices if at <= when]
        return before[-1] if before else self.slices[0][1] if self.slices else 1


@dataclass(eq=False)
class Need:
    """GPUs that a run holds without saying which: on a node (or anywhere: None), of a model, in whole ones."""

    run: Run
    node: str | None
    model: str
    count: int


@dataclass
class Holdings:
    leases: dict[Device, list[Lease]]
    needs: list[Need]
    unknown_devices: list[Run]
    shared: set[Device]


def hold(fleet: Fleet, seen: Observations, runs: list[Run], settings: Settings) -> Holdings:
    """Every lease on a known device, and what is still to be placed. Runs must have their ends."""
    by_name = _by_name(runs)
    found: dict[Device, list[Lease]] = defaultdict(list)
    labelled: dict[Run, list[tuple[Device, str, str, list[tuple[int, int]]]]] = defaultdict(list)
    shared: set[Device] = set()
    for card in fleet.cards:
        for device in card.all_devices:
            scrapes = card.layouts.scrapes(device, seen) if card.layouts else []
            resolved = [_resolve(scrape, by_name) for scrape in scrapes]
            if any(len(r.owners) + len(r.runs) > 1 for r in resolved):
                shared.add(device)
            for run in {run: None for r in resolved for run in r.runs}:
                slices = [(r.at, r.runs[run]) for r in resolved if run in r.runs]
                labelled[run].append((device, card.node, card.model, slices))
            found[device] += _label_leases(device, resolved, device not in shared, settings)
    needs: list[Need] = []
    unknown: list[Run] = []
    by_id: dict[str, list[Device]] = defaultdict(list)
    for card in fleet.cards:
        for device in card.all_devices:
            by_id[device.id].append(device)
    for run in runs:
        if run.device:
            if run.device not in by_id:
                unknown.append(run)
            for device in by_id.get(run.device, []):
                found[device].append(run_lease(run, device, []))
            continue
        own = labelled.get(run, [])
        for device, _, _, slices in own:
            found[device].append(run_lease(run, device, slices))
        places = {device.unit: (_node_of(fleet, device), model) for device, _, model, _ in own}
        needs += _needs(run, list(places.values()))
    return Holdings(found, needs, unknown, shared)


@dataclass
class _Resolved:
    """A scrape with its labels judged: owners by label, and runs that schedulers name (with their slices)."""

    at: int
    end: int
    owners: dict[Claim, int]
    owner_end: dict[Claim, int]
    runs: dict[Run, int]

    @property
    def named(self) -> set[object]:
        return {*self.owners, *self.runs}


def _by_name(runs: list[Run]) -> dict[str, list[Run]]:
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for name in {run.job, run.workload}:
            by_name[name].append(run)
    return by_name


def _resolve(scrape: Scrape, by_name: dict[str, list[Run]]) -> _Resolved:
    resolved = _Resolved(scrape.at, scrape.end, {}, {}, {})
    for claim in sorted(scrape.owners, key=repr):
        named = [
            run
            for run in by_name.get(claim.workload, [])
            if (run.kind == "alloc" or claim.job) and (not run.cluster or run.cluster == claim.cluster)
        ]
        if not named:
            resolved.owners[claim] = len(scrape.owners[claim])
            resolved.owner_end[claim] = scrape.owner_end[claim]
        for run in named:
            if not run.device and run.start <= scrape.at < (run.end or FOREVER):
                resolved.runs[run] = len(scrape.owners[claim])
    return resolved


def _label_leases(device: Device, scrapes: list[_Resolved], exclusive: bool, settings: Settings) -> list[Lease]:
    leases = []
    for owner in sorted({o for s in scrapes for o in s.owners}, key=repr):
        mine = [index for index, scrape in enumerate(scrapes) if owner in scrape.owners]
        first = mine[0]
        for index, following in zip(mine, [*mine[1:], None], strict=True):
            if following is not None and _joined(owner, scrapes[index : following + 1], settings):
                continue
            end = min(scrapes[index].owner_end[owner], device.end)
            if exclusive:
                others = [s.at for s in scrapes[index + 1 :] if s.named - {owner}]
                end = min([end, *others[:1]])
            counts = [(s.at, s.owners[owner]) for s in scrapes[first : index + 1] if owner in s.owners]
            labels = {"cluster": owner.cluster}
            if owner.pod:
                labels |= {"namespace": owner.namespace, "pod": owner.pod}
            leases.append(Lease(owner.workload, owner.cluster, scrapes[first].at, end, device, labels, None, counts))
            if following is not None:
                first = following
    return leases


def _joined(owner: Claim, stretch: list[_Resolved], settings: Settings) -> bool:
    """Whether one lease spans from the first to the last scrape of a stretch, both of one owner."""
    between = stretch[1:-1]
    if any(scrape.named for scrape in between):
        return False
    hole_limit = FOREVER if owner.uid or owner.job else settings.bridge
    run_start: int | None = None
    reach = stretch[0].owner_end[owner]
    for scrape in [*between, stretch[-1]]:
        hole = scrape.at - reach
        if hole > hole_limit:
            return False
        if run_start is not None and (hole > 0 or scrape is stretch[-1]):
            if min(reach, scrape.at) - run_start > settings.flicker:
                return False
            run_start = None
        if run_start is None and scrape is not stretch[-1]:
            run_start = scrape.at
        reach = scrape.end
    return True


def run_lease(run: Run, device: Device, slices: list[tuple[int, int]]) -> Lease:
    assert run.end is not None
    return Lease(
        run.workload, run.cluster, run.start, run.end, device, {"cluster": run.cluster, **run.labels}, run, slices
    )


def _node_of(fleet: Fleet, device: Device) -> set[str]:
    return next(card.nodes for card in fleet.cards if device in card.all_devices)


def _needs(run: Run, own: Iterable[tuple[set[str], str]]) -> list[Need]:
    needs = []
    for model, count in run.needs:
        nodes: list[str | None] = [*run.nodes] or [None]
        whole, more = divmod(int(count), len(nodes))
        needs += [Need(run, node, model, whole + (index < more)) for index, node in enumerate(nodes)]
    for nodes_of, model in own:
        fitting = [n for n in needs if n.count and n.node in nodes_of and model_fits(n.model, model)]
        fitting += [n for n in needs if n.count and n.node in nodes_of] + [n for n in needs if n.count]
        if fitting:
            fitting[0].count -= 1
    return [need for need in needs if need.count > 0]
