"""Slurm's control groups on a node: the jobs that run here and, in version 1, the cards that each may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exporter.identity import Identities, Target

# A folder of slurmd's per version and controller; a name of the node is in it where one host runs several slurmds.
_FOLDERS: Final = ("system.slice/*slurmstepd.scope", *(f"{name}/slurm*" for name in ("devices", "freezer", "memory")))
_JOB: Final = re.compile(r"job_(\w+)")
_NVIDIA_MAJOR: Final = "195"


def folders(root: Path) -> list[Path]:
    """The folders in which slurmd keeps its jobs' groups; none on a node that doesn't use them."""
    return [found for pattern in _FOLDERS for found in root.glob(pattern)]


def running(root: Path) -> frozenset[str] | None:
    """The ids of the jobs that have a control group; None where slurmd keeps none."""
    found = folders(root)
    if not found:
        return None
    groups = [group.name for folder in found for pattern in ("job_*", "uid_*/job_*") for group in folder.glob(pattern)]
    return frozenset(match[1] for name in groups if (match := _JOB.fullmatch(name)))


def allowed(root: Path, identities: Identities) -> Iterator[tuple[Target, str]]:
    """Jobs whose devices group (v1) allows a card. v2 keeps this in a BPF program that can't be read."""
    for list_file in root.glob("devices/slurm*/uid_*/job_*/devices.list"):
        try:
            entries = list_file.read_text(encoding="utf-8").splitlines()
        except OSError:  # the job ended meanwhile
            continue
        for entry in entries:
            match = re.fullmatch(rf"c {_NVIDIA_MAJOR}:(\d+) \w+", entry.strip())
            target = identities.by_minor(match[1]) if match else None
            if target is not None:
                yield target, list_file.parent.name.removeprefix("job_")
