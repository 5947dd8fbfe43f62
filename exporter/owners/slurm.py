"""Slurm: which job was given which device, from what prologs and slurmd leave on the node.

Four places, of which a site has one or two: ``/run/gpustat/<uuid|minor|MIG-uuid>`` holding "jobid uid" (jobstats),
dcgm-exporter's job-map folder with files ``<uuid|index|index.instance>`` holding one job id a line, the devices
control group (v1) of each job, and ``squeue --json``. Slurm's own index (IDX) is the /dev minor number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from exporter.devices import Reading
from exporter.identity import Identities, Target
from exporter.owners import slurm_cgroups
from exporter.owners.claims import Claim, Claims, Owner
from exporter.owners.slurm_jobs import Jobs

GPUSTAT: Final = Path("/run/gpustat")
CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
_JOB_ID: Final = re.compile(r"\d+(?:_\d+)?|s[0-9A-Za-z]{4,}")  # 8812, 8812_3, or an SLUID of Slurm 26.05


# The jobs of this node, given the ids that are found here and, where something tells, those that surely run.
AskJobs = Callable[[AbstractSet[str], AbstractSet[str] | None], Jobs]


class SlurmAdapter:
    """Claims of Slurm jobs.

    Args:
        jobs: the running jobs by id, with account, user, partition and QOS, where squeue answers.
    """

    name = "slurm"
    evidence = False

    def __init__(
        self,
        *,
        gpustat: Path = GPUSTAT,
        job_map: Path | None = None,
        cgroup_root: Path = CGROUP_ROOT,
        jobs: AskJobs = lambda _found, _alive: Jobs(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpustat, self._job_map, self._cgroups, self._jobs = gpustat, job_map, cgroup_root, jobs
        self._clock = clock
        self._listed: set[str] = set()
        self._first_seen: dict[str, float] = {}

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """One claim per device and job that holds it, whether or not the job runs a process."""
        del readings
        now = self._clock()
        unresolved: list[str] = []
        places = list(self._local_places(identities, unresolved))
        running = slurm_cgroups.running(self._cgroups)
        ids = {job for place in places for _, job in place} | (running or frozenset())
        jobs = self._jobs(ids, ids if running is None and self._has_folder() else running)
        self._listed |= jobs.facts.keys()
        held: dict[Target, set[str]] = {}
        seen: dict[str, float] = {}
        for place in [*places, _given_by_squeue(jobs, identities)]:
            # A place that knows a device is believed for it; the next fills in what it doesn't know.
            known = set(held)
            for target, job in place:
                seen[job] = self._first_seen.get(job, now)
                if target not in known and self._may_run(job, seen[job], jobs):
                    held.setdefault(target, set()).add(job)
        self._first_seen, self._listed = seen, self._listed & (seen.keys() | jobs.facts.keys())
        claims = [Claim(target, _owner(job, jobs)) for target in sorted(held) for job in sorted(held[target])]
        return Claims(tuple(claims), tuple(unresolved))

    def _has_folder(self) -> bool:
        """Whether prologs and epilogs tell when jobs begin and end."""
        return any(folder is not None and folder.is_dir() for folder in (self._gpustat, self._job_map))

    def _may_run(self, job: str, first_seen: float, jobs: Jobs) -> bool:
        """Whether a job id found on the node can be of a running job: files of ended jobs linger.

        A job younger than the list of jobs isn't on it yet, and holds its devices all the same.
        """
        if not jobs.known or job in jobs.facts:
            return True
        return job not in jobs.ended and job not in self._listed and jobs.read_at < first_seen

    def _local_places(self, identities: Identities, unresolved: list[str]) -> Iterator[list[tuple[Target, str]]]:
        if self._job_map is not None:
            yield _numbered_files(self._job_map, identities, identities.by_index, _lines, unresolved)
        yield _numbered_files(self._gpustat, identities, identities.by_minor, _first_word, unresolved)
        yield list(slurm_cgroups.allowed(self._cgroups, identities))


def _given_by_squeue(jobs: Jobs, identities: Identities) -> list[tuple[Target, str]]:
    return [
        (target, job)
        for job, minors in jobs.minors.items()
        for minor in minors
        if (target := identities.by_minor(minor)) is not None
    ]


def _owner(job: str, jobs: Jobs) -> Owner:
    facts = jobs.facts.get(job)
    if facts is None:
        return Owner(job=job)
    return Owner(job=job, user=facts.user, account=facts.account, partition=facts.partition, qos=facts.qos)


def _numbered_files(
    folder: Path,
    identities: Identities,
    by_number: Callable[[str], Target | None],
    read_jobs: Callable[[str], list[str]],
    unresolved: list[str],
) -> list[tuple[Target, str]]:
    """Claims of a folder with one file per device, named by UUID or by number.

    Prologs that write both forms of one job are read by UUID only: numbers change meaning between nodes.
    """
    named: list[tuple[Target, str]] = []
    numbered: list[tuple[Target, str]] = []
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return []
    for file in files:
        try:
            jobs = read_jobs(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:  # an epilog removed it meanwhile
            continue
        by_name = identities.resolve(file.name)
        target = by_name or by_number(file.name)
        if target is None:
            if jobs:
                unresolved.append(file.name)
            continue
        (named if by_name else numbered).extend((target, job) for job in jobs)
    jobs_by_name = {job for _, job in named}
    devices_by_name = {target for target, _ in named}
    return named + [
        (target, job) for target, job in numbered if job not in jobs_by_name and target not in devices_by_name
    ]


def _first_word(text: str) -> list[str]:
    """The job in a gpustat file: "jobid uid"."""
    words = text.split()
    return [words[0]] if words and _JOB_ID.fullmatch(words[0]) else []


def _lines(text: str) -> list[str]:
    """The jobs in a job-map file, one a line."""
    return [line.strip() for line in text.splitlines() if _JOB_ID.fullmatch(line.strip())]
