"""Processes: who runs something on a device, from the driver's process list and each process's control group.

This is evidence of use, not allocation: it never takes a device from an owner that a scheduler names.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from exporter.devices import Process, Reading
from exporter.errors import SourceError
from exporter.identity import Identities, Target
from exporter.owners.cgroups import Membership, classify, parse_proc_cgroup
from exporter.owners.claims import Claim, Claims, Owner

_HOST_PID_NAMESPACE: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux


class ProcessAdapter:
    """Claims from running processes; ``proc`` is the host's /proc (mounted elsewhere in a container)."""

    name = "processes"
    evidence = True

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """One claim per device and workload that runs there. Raises SourceError."""
        del identities
        if self._proc == Path("/proc") and str(Path("/proc/self/ns/pid").readlink()) != _HOST_PID_NAMESPACE:
            # The driver's PIDs are the host's: here they would name other processes.
            raise SourceError(
                "processes", "this is not the host's PID namespace", "set hostPID, or mount /proc and --proc"
            )
        claims: dict[Claim, None] = {}
        for uuid, reading in readings.items():
            for process in reading.processes:
                owner = self._owner(process)
                if owner is not None:
                    claim = Claim(Target(uuid, process.instance or ""), owner)
                    claims[claim] = None
        return Claims(tuple(claims))

    def _owner(self, process: Process) -> Owner | None:
        """Who a process works for; None where it is gone or can't be told."""
        folder = self._proc / str(process.pid)
        try:
            membership = classify(parse_proc_cgroup((folder / "cgroup").read_text(encoding="utf-8")))
            user = _user_name(folder.stat().st_uid)
        except (OSError, ValueError):
            return None
        return _from_membership(membership, user)


def _from_membership(membership: Membership, user: str) -> Owner | None:
    if membership.kind == "kubernetes":
        return Owner(pod_uid=membership.id)
    if membership.kind in {"slurm", "torque"}:
        return Owner(job=membership.id, user=user)
    if membership.kind == "container":
        return Owner(workload=f"{membership.runtime or 'container'}:{membership.id[:12]}", user=user)
    if membership.kind in {"lxc", "service"}:
        return Owner(workload=f"{membership.kind}:{membership.id}", user=user)
    return Owner(workload=f"user:{user}", user=user)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
