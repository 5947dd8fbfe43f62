"""What Kubernetes says of pods and nodes, however it was asked: kube-state-metrics' series or kubectl's objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from pipelines.sources.bounds import GPU_STEP, MAX_GPUS

Amounts = dict[str, Decimal]  # by resource, named as kube-state-metrics names it

_ODD: Final = re.compile(r"[^a-zA-Z0-9_]")
_MIG: Final = re.compile(r"nvidia_com_mig_((?:\d+c_)?\d+g)_(\d+gb)(_me)?(?:_shared)?")
GPU: Final = "nvidia_com_gpu"
SHARED: Final = "nvidia_com_gpu_shared"  # time slices, where the device plugin renames them
_CORES: Final = ("nvidia_com_gpucores", "volcano_sh_vgpu_cores")  # HAMi and Volcano: percent of each GPU
_VGPU: Final = "volcano_sh_vgpu_number"


def sanitised(name: str) -> str:
    """The name as kube-state-metrics writes it: ``nvidia.com/gpu`` is ``nvidia_com_gpu``."""
    return _ODD.sub("_", name)


def is_gpu_resource(resource: str) -> bool:
    """Whether a (sanitised) resource is one of GPUs, their slices or parts."""
    return resource in {GPU, SHARED, _VGPU, *_CORES} or _MIG.fullmatch(resource) is not None


@dataclass
class Pod:
    """One pod, from its admission on.

    Attributes:
        containers, inits: what each asks for; a sidecar (an init container that restarts always) is a container.
        running, over: when it was seen running, and in another phase, ms.
        start: when its node took it in; None: unknown.
        end: when it was over; None: unknown or it still runs.
        fraction: part of one GPU that an annotation gives it (``gpu-fraction``).
        devices: UUIDs that claims give it, each with how many pods share it.
    """

    namespace: str
    name: str
    uid: str | None
    node: str | None = None
    containers: dict[str, Amounts] = field(default_factory=dict)
    inits: dict[str, Amounts] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    start: int | None = None
    end: int | None = None
    fraction: Decimal | None = None
    devices: dict[str, int] = field(default_factory=dict)

    def amounts(self) -> Amounts:
        """What it holds of each resource: its containers together, or its largest init container if that is more."""
        total: Amounts = {}
        for amounts in self.containers.values():
            for resource, count in amounts.items():
                total[resource] = total.get(resource, Decimal(0)) + count
        for amounts in self.inits.values():
            for resource, count in amounts.items():
                total[resource] = max(total.get(resource, Decimal(0)), count)
        return total


@dataclass
class Node:
    """One node: what it has, and what its labels say of its GPUs."""

    name: str
    capacity: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)  # sanitised
    observed: datetime | None = None

    @property
    def model(self) -> str | None:
        """The product that GPU feature discovery names, without what time slicing adds to it."""
        product = self.labels.get("nvidia_com_gpu_product", "")
        product = re.sub(r"-MIG-.*\Z|-SHARED\Z", "", product)
        return product.replace("-", " ") or None

    @property
    def replicas(self) -> Decimal:
        """Time slices of each GPU; 1 where GPUs are given out whole."""
        told = self.labels.get("nvidia_com_gpu_replicas", "")
        if told.isdecimal() and int(told) > 1:
            return Decimal(told)
        count, slices = self._count(), self.capacity.get(SHARED) or self.capacity.get(GPU, Decimal(0))
        return slices / count if count and slices > count and slices % count == 0 else Decimal(1)

    @property
    def gpus(self) -> int | None:
        """Physical cards; None: nobody says."""
        count = self._count()
        if count is not None:
            return count
        if self.capacity.get(SHARED):
            return int(self.capacity[SHARED] / self.replicas) if self.replicas > 1 else None
        if any(resource.startswith("nvidia_com_mig_") and count for resource, count in self.capacity.items()):
            return None
        return int(self.capacity[GPU] / self.replicas) if GPU in self.capacity else None

    def _count(self) -> int | None:
        told = self.labels.get("nvidia_com_gpu_count", "")
        return int(told) if told.isdecimal() and len(told) < 6 else None


@dataclass(frozen=True)
class Held:
    """GPUs of a pod: of a model (or MIG profile) or, where claims say so, one device."""

    gpus: Decimal
    model: str | None
    device: str | None = None


class SlicesUnknownError(ValueError):
    """A pod holds time slices, and nobody says how many make a GPU."""


def held(pod: Pod, node: Node | None) -> list[Held]:
    """What a pod holds while it is admitted.

    Raises:
        SlicesUnknownError: it holds slices of unknown size.
        ValueError: it holds more GPUs than there are.
    """
    amounts, model = pod.amounts(), node.model if node else None
    found = [Held(_step(Decimal(1) / sharing), model, device) for device, sharing in sorted(pod.devices.items())]
    cores = next((amounts[name] for name in _CORES if 0 < amounts.get(name, Decimal(0)) < 100), Decimal(100))
    whole = amounts.get(GPU, Decimal(0)) + amounts.get(_VGPU, Decimal(0))
    if whole:
        gpus = whole * cores / 100 if cores < 100 else whole / (node.replicas if node else 1)
        found.append(Held(_step(gpus), model))
    elif pod.fraction is not None:
        found.append(Held(_step(pod.fraction), model))
    slices = amounts.get(SHARED, Decimal(0))
    if slices:
        if node is None or node.replicas == 1:
            raise SlicesUnknownError
        found.append(Held(_step(slices / node.replicas), model))
    for resource, count in sorted(amounts.items()):
        profile = _MIG.fullmatch(resource)
        if profile is not None and count:
            name = f"{profile[1].replace('_', '.')}.{profile[2]}" + (".me" if profile[3] else "")
            found.append(Held(_step(count), name))
    if any(each.gpus > MAX_GPUS for each in found):
        raise ValueError("pod that holds more GPUs than there are")
    return [each for each in found if each.gpus > 0]


def _step(gpus: Decimal) -> Decimal:
    return gpus.quantize(GPU_STEP, ROUND_FLOOR)


def labels_of(labels: Mapping[str, str], prefix: str = "label_") -> dict[str, str]:
    """The labels that kube-state-metrics shows of an object, without its prefix."""
    return {name.removeprefix(prefix): value for name, value in labels.items() if name.startswith(prefix) and value}
