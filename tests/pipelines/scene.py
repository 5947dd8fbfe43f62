"""A replay directory from a few lines of Python: what was scraped, what schedulers wrote, what is configured.

Times are minutes after the scene's start, so that a test reads as what happened when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import yaml

START: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
H100: Final = "NVIDIA H100 80GB HBM3"
A100: Final = "NVIDIA A100-SXM4-40GB"
A30: Final = "NVIDIA A30"

METRICS: Final = {
    "util": "DCGM_FI_DEV_GPU_UTIL",
    "engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "power": "DCGM_FI_DEV_POWER_USAGE",
    "energy": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",  # mJ
    "temperature": "DCGM_FI_DEV_GPU_TEMP",
    "memory": "DCGM_FI_DEV_FB_USED",  # MiB
}
CONFIG: Final[Mapping[str, Any]] = {
    "currency": "USD",
    "timezone": "UTC",
    "tenants": [
        {"id": "astro", "match": [{"namespace": "astro*"}, {"slurm_account": "astro"}]},
        {"id": "bio", "match": [{"namespace": "bio*"}, {"slurm_account": "bio"}]},
    ],
    "rates": [{"model": "*", "on_demand": "3.00"}],
}
SACCT: Final = (
    "JobID|JobIDRaw|JobName|Account|User|Partition|QOS|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES"
)

Minutes = tuple[float, float]
Value = float | str | Sequence[float | str] | Callable[[float], float]


def at(minutes: float, start: datetime = START) -> str:
    """The time so many minutes after the start, as ISO 8601."""
    return (start + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Series:
    """One label set of one device: a sample of each metric every so many minutes, from the first to before the last.

    A value is one for all samples, one after the other (the last goes on), or a function of the minute.
    """

    device: str
    minutes: Minutes
    labels: Mapping[str, str]
    values: Mapping[str, Value]
    every: float

    def lines(self, start: datetime) -> Iterator[str]:
        labels = ",".join(f'{k}="{v}"' for k, v in self.labels.items() if v)
        base = round(start.timestamp() * 1000)
        first, end = self.minutes
        for nth in range(ceil(round((end - first) / self.every, 6))):
            minute = first + nth * self.every
            for metric, value in self.values.items():
                reading = _nth(value, nth, minute)
                yield f"{METRICS.get(metric, metric)}{{{labels}}} {reading} {base + round(minute * 60_000)}"


def _nth(value: Value, nth: int, minute: float) -> float | str:
    if callable(value):
        return value(minute)
    if isinstance(value, (str, int, float)):
        return value
    return value[min(nth, len(value) - 1)]


def seen(
    device: str,
    minutes: Minutes,
    owner: str = "",
    *,
    every: float = 1,
    node: str = "rack1",
    model: str = H100,
    uid: str = "",
    job: str = "",
    instance: str = "",
    profile: str = "",
    labels: Mapping[str, str] | None = None,
    **values: Value | None,
) -> Series:
    """A device as dcgm-exporter shows it, its owner ``namespace/pod`` or none; GPU_UTIL 50 where nothing else."""
    namespace, _, pod = owner.partition("/")
    named = {
        "UUID": device,
        "modelName": model,
        "Hostname": node,
        "GPU_I_ID": instance,
        "GPU_I_PROFILE": profile,
        "namespace": namespace,
        "pod": pod,
        "container": "main" if pod else "",
        "pod_uid": uid,
        "hpc_job": job,
    }
    shown = {metric: value for metric, value in values.items() if value is not None}
    return Series(device, minutes, named | dict(labels or {}), shown or {"util": 50}, every)


@dataclass(frozen=True)
class Job:
    """A row of Slurm's accounting; one whose state is RUNNING has come as far as its second minute."""

    id: str
    minutes: Minutes
    gres: str = "gres/gpu=1"
    account: str = "astro"
    nodes: str = "rack1"
    state: str = "COMPLETED"
    qos: str = "normal"
    raw: str = ""

    def row(self, start: datetime, zone: str) -> str:
        begin, end = (
            (start + timedelta(minutes=m)).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")
            for m in self.minutes
        )
        elapsed = round((self.minutes[1] - self.minutes[0]) * 60)
        shown = "Unknown" if self.state == "RUNNING" else end
        names = f"{self.id}|{self.raw or self.id}|train|{self.account}|u1|gpu|{self.qos}"
        return f"{names}|{self.state}|{begin}|{begin}|{shown}|{elapsed}|1|{self.nodes}|cpu=4,{self.gres}"


@dataclass(frozen=True)
class Allocation:
    """A row of an allocations file."""

    minutes: Minutes
    gpus: str = "1"
    device: str = ""
    model: str = H100
    tenant: str = ""
    workload: str = ""
    class_: str = ""

    def row(self, start: datetime) -> str:
        begin, end = (at(m, start) for m in self.minutes)
        return f"{begin},{end},{self.gpus},{self.device},{self.model},{self.tenant},{self.workload},{self.class_}"


@dataclass(frozen=True)
class Listed:
    """A row of an inventory."""

    node: str = "rack1"
    device: str = ""
    model: str = H100
    gpus: str = "1"
    slots: str = ""
    owner: str = ""
    minutes: Minutes | None = None

    def row(self, start: datetime) -> str:
        begin, end = ("", "") if self.minutes is None else (at(m, start) for m in self.minutes)
        return f"{self.node},{self.device},{self.model},{self.gpus},{self.slots},{self.owner},{begin},{end}"


@dataclass(frozen=True)
class Scene:
    """What a replay directory holds. `config` replaces keys of CONFIG; `raw` are lines as they are."""

    series: Sequence[Series] = ()
    jobs: Sequence[Job] = ()
    allocations: Sequence[Allocation] = ()
    inventory: Sequence[Listed] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    raw: Sequence[str] = ()
    start: datetime = START

    def write(self, directory: Path) -> Path:
        """Write gpuledger.yaml and its sources; return the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        zone = self.config.get("timezone", "UTC")
        files = {
            "metrics.prom": [*(line for s in self.series for line in s.lines(self.start)), *self.raw],
            "sacct.txt": [SACCT, *(job.row(self.start, zone) for job in self.jobs)],
            "allocations.csv": [
                "start,end,gpus,device,model,tenant,workload,class",
                *(row.row(self.start) for row in self.allocations),
            ],
            "inventory.csv": [
                "node,device,model,gpus,slots,owner,from,to",
                *(row.row(self.start) for row in self.inventory),
            ],
        }
        sources = []
        for (name, lines), present in zip(
            files.items(), (self.series or self.raw, self.jobs, self.allocations, self.inventory), strict=True
        ):
            if present:
                (directory / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
                cluster = {"cluster": "hall"} if name in ("metrics.prom", "sacct.txt") else {}
                sources.append({name.partition(".")[0]: name, **cluster})
        content = {**CONFIG, "sources": sources, **self.config}
        (directory / "gpuledger.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return directory
