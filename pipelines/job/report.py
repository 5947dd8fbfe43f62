"""What a job's report holds, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pipelines.money import plain
from pipelines.training import Progress


@dataclass(frozen=True)
class JobGpu:
    """A GPU, or an instance of one, that the job held.

    Attributes:
        share: of the card, at most.
        busy, sm, tensor, dram: means over what was observed; None: not measured.
        coverage: share of its time with a valid busy sample.
        memory_mean, memory_peak, memory_total: bytes.
        line: how busy it was in each column of the time line; None: not known, or not held.
    """

    node: str | None
    device: str | None
    instance: str | None
    model: str | None
    start: datetime
    end: datetime
    gpu_hours: float
    share: float
    busy: float | None
    sm: float | None
    tensor: float | None
    dram: float | None
    coverage: float | None
    memory_mean: float | None
    memory_peak: float | None
    memory_total: float | None
    energy_kwh: float | None
    line: tuple[float | None, ...]


@dataclass(frozen=True)
class JobCause:
    """Why the job's GPUs weren't used better, for a share of its time.

    Attributes:
        evidence: the numbers that decided: ``feature``, ``value``, ``is``, ``limit``.
    """

    cause: str
    title: str
    share_of_time: float
    gpu_hours: float
    waste: Decimal | None
    confidence: float | None
    evidence: tuple[Mapping[str, Any], ...]
    remedy: str


@dataclass(frozen=True)
class JobReport:
    """All of it.

    Attributes:
        tenants: who pays, in turn; empty: nobody.
        state: running | ended | last_seen_running: held its devices when its cluster was last seen, which is long ago.
        cost: as reports bill it; None: nobody pays.
        waste: its part of its tenant's waste.
        causes: the largest share of time first.
        costs: what a step, a million tokens, a thousand samples and an epoch cost.
        step_s: seconds of a column of the time line.
        unguessed: whether all of its GPUs are known; what a guess shows says nothing about the job.
    """

    workload: str
    cluster: str
    kind: str
    user: str | None
    tenants: tuple[str, ...]
    account: str | None
    partition: str | None
    qos: str | None
    nodes: tuple[str, ...]
    state: str
    start: datetime
    end: datetime
    as_of: datetime
    currency: str
    gpu_hours: float
    utilization: float | None
    coverage: float | None
    energy_kwh: float | None
    cost: Decimal | None
    waste: Decimal | None
    causes: tuple[JobCause, ...]
    gpus: tuple[JobGpu, ...]
    step_s: float
    training: Progress | None
    costs: Mapping[str, Decimal | None]
    unguessed: bool

    def json(self) -> dict[str, Any]:
        """Return it as JSON holds it: times in UTC, money as text, unknown null."""
        plain_fields = (
            "workload", "cluster", "kind", "user", "account", "partition", "qos", "state", "currency", "gpu_hours",
            "utilization", "coverage", "energy_kwh",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in plain_fields},
            "tenants": list(self.tenants),
            "nodes": list(self.nodes),
            "start": utc(self.start),
            "end": utc(self.end),
            "as_of": utc(self.as_of),
            "devices_known": self.unguessed,
            "cost": _money(self.cost),
            "waste": _money(self.waste),
            "bottleneck": self.causes[0].cause if self.causes else None,
            "causes": [_cause(cause) for cause in self.causes],
            "gpus": [_gpu(gpu) for gpu in self.gpus],
            "timeline": {"start": utc(self.start), "step_seconds": self.step_s},
            "training": None if self.training is None else _training(self.training, self.costs),
        }


def _cause(cause: JobCause) -> dict[str, Any]:
    return {**vars(cause), "waste": _money(cause.waste), "evidence": [dict(e) for e in cause.evidence]}


def _gpu(gpu: JobGpu) -> dict[str, Any]:
    fields = {name: value for name, value in vars(gpu).items() if name not in ("line", "start", "end")}
    memory = {f"{name}_bytes" if name.startswith("memory") else name: value for name, value in fields.items()}
    return {**memory, "start": utc(gpu.start), "end": utc(gpu.end), "timeline": list(gpu.line)}


def _training(progress: Progress, costs: Mapping[str, Decimal | None]) -> dict[str, Any]:
    per = {f"cost_per_{unit}": None if cost is None else format(cost, "f") for unit, cost in costs.items()}
    return {**vars(progress), "runs": list(progress.runs), **per}


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else plain(amount)


def utc(t: datetime) -> str:
    """Return a time as JSON holds it."""
    return f"{t:%Y-%m-%dT%H:%M:%SZ}"
