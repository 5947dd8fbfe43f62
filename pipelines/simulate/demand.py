"""Who asks for GPUs, how many, when and for how long.

Run times are heavy-tailed and most jobs are small, as in the published traces (Philly, Helios, Acme):
medians of minutes to a few hours, means several times that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp
from typing import Final

import numpy as np

from pipelines.simulate.fleet import A100_K8S, A100_MIG, A100_SLURM, H100_K8S, H100_SLURM, T4_SLICED, Fleet
from pipelines.simulate.scenario import DAY, Window, local
from pipelines.simulate.terms import SLICES

WARM_UP: Final = 3 * DAY  # so that the fleet is busy from the first sample on


@dataclass(frozen=True, slots=True)
class Demand:
    """A stream of requests.

    Args:
        kind: of node that is asked for.
        load: mean units held, as a part of the kind's cards (instances, slices).
        sizes: units of one request, with their weights; on Slurm (nodes, units of each).
        median_hours, spread: of the run times (lognormal).
        behaviours: what the workloads do, with their weights.
        daytime: the part of requests that come in office hours and on working days.
    """

    tenant: str | None
    kind: str
    stem: str
    load: float
    sizes: dict[tuple[int, int], float]
    median_hours: float
    behaviours: dict[str, float]
    spread: float = 1.0
    longest_hours: float = 48.0
    daytime: float = 0.45
    namespace: str | None = None
    account: str = ""
    partition: str = "gpu"
    qos: str = "normal"
    users: tuple[str, ...] = ("ana", "ben", "chloe")
    named_by_uid: bool = True  # whether samples carry the pod's UID
    spot: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """Pods that are always there, replaced by a roll-out every few days."""

    tenant: str | None
    kind: str
    namespace: str
    stem: str
    count: float  # of the kind's cards
    behaviour: str
    slices: int = 1
    rollout_days: float = 6.0


@dataclass(frozen=True, slots=True)
class Request:
    """``nodes`` × ``units`` wanted from ``time`` on, for ``seconds``."""

    time: int
    seconds: int
    nodes: int
    units: int
    behaviour: str
    demand: Demand
    user: str
    waits: bool = False  # until enough nodes are free, which are drained for it
    special: str = ""


_ONE: Final = {(1, 1): 1.0}
_TRAINING: Final = {
    "training": 0.5,
    "no_tensor": 0.14,
    "memory_bound": 0.1,
    "data_starved": 0.13,
    "communication": 0.08,
    "idle_held": 0.05,
}

_VISION: Final = Demand(
    "vision", H100_K8S, "train", 0.95, {(1, 1): 4, (1, 2): 3, (1, 4): 3, (1, 8): 1}, 4.0, _TRAINING,
    namespace="vision-train",
)  # fmt: skip
_NLP: Final = Demand(
    "nlp", H100_SLURM, "pretrain", 0.42, {(1, 1): 4, (1, 2): 2, (1, 4): 2}, 5.0, _TRAINING, account="nlp",
    users=("dara", "eli"),
)  # fmt: skip
_FOLD: Final = Demand(
    "bio", A100_SLURM, "fold", 0.7, {(1, 1): 5, (1, 2): 2, (1, 4): 1}, 3.0,
    {"memory_bound": 4, "no_tensor": 2, "training": 2, "idle_held": 1}, account="bio-fold", partition="gpu-a100",
    users=("farid", "gwen", "kim"),
)  # fmt: skip

_ASR: Final = Demand(
    "speech", A100_K8S, "asr", 0.55, {(1, 1): 4, (1, 2): 2, (1, 4): 1}, 5.0,
    {"training": 4, "data_starved": 3, "idle_held": 1}, namespace="speech", named_by_uid=False,
)  # fmt: skip

DEMANDS: Final = (
    _VISION,
    _NLP,
    _FOLD,
    Demand("vision", A100_K8S, "lab", 0.08, _ONE, 1.5, {"notebook": 3, "memory_bound": 1}, daytime=0.9,
           namespace="vision-lab"),
    _ASR,
    Demand("speech", H100_K8S, "tts", 0.07, _ONE, 3.0, {"training": 1, "pcie_bound": 1}, namespace="speech"),
    Demand(None, A100_K8S, "report", 0.05, _ONE, 1.0, {"pcie_bound": 1}, namespace="legacy-tools"),
    Demand("sandbox", H100_K8S, "sweep", 0.06, _ONE, 1.5, {"training": 1, "no_tensor": 1}, namespace="spot-sweeps",
           daytime=0.2, spot=True),
    Demand("teaching", A100_MIG, "notebook", 0.25, _ONE, 5.0, {"notebook": 1}, spread=0.5, longest_hours=14.0,
           daytime=0.97, namespace="course-ml101"),
    Demand("vision", A100_MIG, "tune", 0.15, _ONE, 6.0, {"training": 2, "no_tensor": 1}, namespace="vision-lab"),
    Demand("teaching", T4_SLICED, "exercise", 0.2, _ONE, 2.5, {"notebook": 1}, spread=0.5, longest_hours=8.0,
           daytime=0.97, namespace="course-intro"),
    Demand("bio", H100_SLURM, "docking", 0.08, {(1, 1): 3, (1, 2): 1}, 3.0, {"no_tensor": 3, "pcie_bound": 1},
           account="bio-dock", users=("farid", "gwen")),
    Demand("sandbox", H100_SLURM, "scan", 0.10, {(1, 1): 3, (1, 2): 1}, 1.2, {"training": 1, "memory_bound": 1},
           account="open", qos="scavenger", users=("hugo", "ines", "jo"), daytime=0.2, spot=True),
    Demand("nlp", A100_SLURM, "eval", 0.08, _ONE, 0.5, {"memory_bound": 1}, account="nlp", partition="gpu-a100",
           users=("dara", "eli")),
)  # fmt: skip

SERVICES: Final = (
    Service("serving", H100_K8S, "serving-llm", "chat", 0.13, "serving"),
    Service("serving", A100_K8S, "serving-llm", "embed", 0.13, "serving"),
    Service("serving", A100_MIG, "serving-edge", "rank", 0.25, "serving"),
    Service("serving", T4_SLICED, "serving-edge", "ocr", 0.3, "serving", slices=2),
    Service("serving", T4_SLICED, "serving-edge", "asr", 0.3, "serving"),
    Service("speech", A100_K8S, "speech", "workbench", 0.13, "idle_held", rollout_days=14.0),
    Service(None, A100_MIG, "legacy-tools", "portal", 0.25, "idle_held", rollout_days=11.0),
)


def doomed_demand(*, slurm: bool) -> Demand:
    """Whose workload holds a card that fails."""
    return _NLP if slurm else _ASR


def specials(window: Window) -> list[Request]:
    """The jobs that the story needs, each drained for."""
    hours = max(1.0, min(18.0, window.days * 0.9)) * 3600
    length = max(window.snap(hours), 10 * window.grid)
    return [
        _special(_NLP, window.at(0.30), length, 2, 8, "training", "multi_node"),
        _special(_NLP, window.at(0.64), length, 1, 8, "straggler", "straggler"),
        _special(_NLP, window.at(0.45), length // 2, 1, 4, "training", "requeue"),
        _special(_VISION, window.at(0.50), length, 1, 4, "data_starved", "data_starved"),
        _special(_FOLD, window.at(0.80), length // 2, 1, 8, "training", "without_labels"),
    ]


def _special(demand: Demand, time: int, seconds: int, nodes: int, units: int, behaviour: str, name: str) -> Request:
    return Request(time, seconds, nodes, units, behaviour, demand, demand.users[0], waits=True, special=name)


def requests(fleet: Fleet, window: Window, rng: np.random.Generator) -> list[Request]:
    """Every request from before the first sample to the last, by time."""
    drawn = [request for demand in DEMANDS for request in _draw(demand, fleet, window, rng)]
    return sorted(specials(window) + drawn, key=lambda request: request.time)


def _draw(demand: Demand, fleet: Fleet, window: Window, rng: np.random.Generator) -> Iterator[Request]:
    cards = fleet.count(demand.kind) * {A100_MIG: 3, T4_SLICED: SLICES}.get(demand.kind, 1)
    sizes, size_weights = list(demand.sizes), np.array(list(demand.sizes.values()))
    size_weights = size_weights / size_weights.sum()
    behaviours, weights = list(demand.behaviours), np.array(list(demand.behaviours.values()))
    mean_units = float(sum(n * u * w for (n, u), w in zip(sizes, size_weights, strict=True)))
    # A run is never longer than a quarter of the period, so that short windows have their changes, too.
    longest = min(demand.longest_hours, window.days * 6) * 3600
    median = min(demand.median_hours * 3600, longest / 3)
    mean_seconds = min(median * exp(demand.spread**2 / 2), longest)
    per_hour = demand.load * cards / mean_units / mean_seconds * 3600

    for hour in range(window.first - WARM_UP, window.last, 3600):
        for _ in range(int(rng.poisson(per_hour * rhythm(hour, demand.daytime)))):
            seconds = min(float(rng.lognormal(np.log(median), demand.spread)), longest)
            nodes, units = sizes[int(rng.choice(len(sizes), p=size_weights))]
            yield Request(
                time=window.snap(hour + rng.random() * 3600),
                seconds=max(window.snap(seconds), 10 * window.grid),
                nodes=nodes,
                units=units,
                behaviour=behaviours[int(rng.choice(len(behaviours), p=weights / weights.sum()))],
                demand=demand,
                user=demand.users[int(rng.integers(len(demand.users)))],
            )


def rhythm(time: int, daytime: float) -> float:
    """How busy people are at a time, 1 on average: office hours, weekends, Thanksgiving."""
    moment = local(time)
    office = 9 <= moment.hour < 18 and moment.weekday() < 5
    # Nine of 24 hours on five of seven days are 0.268 of all hours.
    level = daytime / 0.268 if office else (1 - daytime) / 0.732
    thanksgiving = (
        moment.month == 11 and moment.weekday() in (3, 4, 5, 6) and 22 <= moment.day - moment.weekday() + 3 <= 28
    )
    return level * (0.35 if thanksgiving else 1.0)


@dataclass(slots=True)
class Names:
    """Pod names, UIDs and job ids, never used twice."""

    rng: np.random.Generator
    counts: dict[str, int] = field(default_factory=dict)
    job: int = 48_100

    def pod(self, stem: str) -> str:
        """The next pod of this stem."""
        self.counts[stem] = self.counts.get(stem, 0) + 1
        return f"{stem}-{self.counts[stem]:05d}"

    def uid(self) -> str:
        """A pod's UID."""
        digits = self.rng.bytes(16).hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def job_id(self) -> int:
        """The next Slurm job id."""
        self.job += int(self.rng.integers(1, 9))
        return self.job
