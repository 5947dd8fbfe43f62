"""Claims of ownership, as the adapters report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Protocol

from exporter.devices import Reading
from exporter.identity import Identities, Target

# Label names: those of dcgm-exporter where it has one.
_LABELS: Final = {"job": "hpc_job"}


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Who holds a device. Fields that a source doesn't know are ""."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""
    job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    workload: str = ""
    pod_labels: tuple[tuple[str, str], ...] = ()

    def labels(self) -> dict[str, str]:
        """The labels that name this owner on a series; ``job`` is Prometheus's own, so a Slurm job is ``hpc_job``."""
        named = {
            _LABELS.get(each.name, each.name): getattr(self, each.name)
            for each in fields(self)
            if each.name != "pod_labels"
        }
        return {name: value for name, value in named.items() if value} | dict(self.pod_labels)

    def same_as(self, other: Owner) -> bool:
        """Whether both name one workload beyond doubt."""
        if self.pod_uid and other.pod_uid:
            return self.pod_uid == other.pod_uid
        if self.pod and other.pod:
            return (self.namespace, self.pod) == (other.namespace, other.pod)
        if self.job and other.job:
            return self.job == other.job
        return bool(self.workload) and self.workload == other.workload

    def may_be(self, other: Owner) -> bool:
        """Whether both can be one workload: two pods of which one is known by name and one by UID can't be told."""
        by_name_and_uid = (self.pod and other.pod_uid and not other.pod) or (
            other.pod and self.pod_uid and not self.pod
        )
        return self.same_as(other) or bool(by_name_and_uid and not (self.pod_uid and other.pod_uid))


@dataclass(frozen=True, slots=True)
class Claim:
    """One source says that an owner holds a device; ``slice`` tells time slices or MPS clients apart."""

    target: Target
    owner: Owner
    slice: str = ""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one adapter found.

    Args:
        unresolved: device names that fit no device of this node.
        slots: how many slices a shared device is cut into, where that is known.
    """

    claims: tuple[Claim, ...] = ()
    unresolved: tuple[str, ...] = ()
    slots: Mapping[Target, int] = field(default_factory=dict)


class Adapter(Protocol):
    """A source of claims. ``find`` may block and may raise; it is called from a watched thread of its own."""

    name: str
    evidence: bool
    """True if what it finds is use and not allocation: it never takes a device from an allocation."""

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """The claims now; ``readings`` are the last readings by UUID, for adapters that follow processes."""
