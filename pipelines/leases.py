"""Leases: who holds which device over [start, end)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(slots=True)
class Lease:
    """A workload's hold on one device.

    Attributes:
        dev: number of the device (a card or a MIG instance).
        start, end: ms since the epoch, UTC.
        kind: "pod" or "job" (from labels), "slurm" or "allocations" (from a scheduler).
        slices: (from, count) steps: how many time slices it holds.
        share: a share of the device that its source states; None: by slices or owners.
        guessed: the device is a guess, which says nothing about utilisation.
        ended: its scheduler says that it is over; else it may run on where the data end.
    """

    dev: int
    start: int
    end: int
    kind: str
    cluster: str
    workload: str
    node: str | None = None
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    user: str | None = None
    tenant: str | None = None
    given_class: str | None = None
    slurm_account: str | None = None
    slurm_partition: str | None = None
    slurm_qos: str | None = None
    slurm_user: str | None = None
    slices: list[tuple[int, int]] = field(default_factory=lambda: [(0, 1)])
    share: Fraction | None = None
    guessed: bool = False
    ended: bool = False
    whole_start: int | None = None
    """Start of the whole lease where this is a part of it (a guess that moved between devices)."""

    def slices_at(self, t: int) -> int:
        """Return how many slices it holds at `t`."""
        count = self.slices[0][1]
        for since, held in self.slices:
            if since > t:
                break
            count = held
        return count

    def identity(self, device_key: str) -> str:
        """Return a short stable id: of one hold on one device, whatever cut it, the same in every import."""
        start = self.start if self.whole_start is None else self.whole_start
        parts = (self.cluster, device_key, self.workload, self.pod_uid or "", str(start))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def workload_name(namespace: str | None, pod: str | None, job: str | None) -> str:
    """Return the report's name of a labelled owner: ``namespace/pod``, or the Slurm job id."""
    if job is not None:
        return job
    return f"{namespace}/{pod}" if namespace else str(pod)
