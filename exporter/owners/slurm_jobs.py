"""The running jobs of this node as ``squeue --json`` (or ``scontrol``) tells them."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from exporter import hostlist
from exporter.refreshed import Refreshed

_LOG = logging.getLogger(__name__)
_REFRESH_SECONDS: Final = 60.0
_HOLDING: Final = {"RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "CONFIGURING"}


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Who a job runs for."""

    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of this node.

    Args:
        facts: by job id.
        minors: minor numbers of the GPUs that Slurm says it gave the job here.
        known: whether squeue answered; if not, every job id that is found elsewhere is believed.
        read_at: monotonic time at which it was asked.
    """

    facts: dict[str, JobFacts] = field(default_factory=dict)
    minors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: bool = False
    read_at: float = math.inf


class SlurmJobs:
    """Asks ``squeue --json`` now and then, then ``scontrol show jobs --json``; both need no privilege."""

    def __init__(
        self,
        node: str,
        *,
        run: Callable[[Sequence[str]], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._run, self._clock = node, run or _run, clock
        self._jobs = Refreshed("slurm-jobs", self._read, Jobs(), seconds=_REFRESH_SECONDS, clock=clock)

    def __call__(self) -> Jobs:
        """The jobs, at most a minute old; without an answer, none are known."""
        return self._jobs()

    def _read(self) -> Jobs:
        for command in (["squeue", "--json", f"--nodelist={self._node}"], ["scontrol", "show", "jobs", "--json"]):
            asked_at = self._clock()
            try:
                return replace(parse_jobs(json.loads(self._run(command)), self._node), read_at=asked_at)
            except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
                _LOG.info("%s: %s", command[0], error)
        return Jobs()


def _run(command: Sequence[str]) -> str:
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]} is not installed")
    done = subprocess.run(  # noqa: S603  a fixed command line
        [program, *command[1:]], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout


def parse_jobs(document: dict[str, Any], node: str) -> Jobs:
    """The jobs on ``node`` in an answer of Slurm's JSON (any data_parser from 21.08 on)."""
    facts: dict[str, JobFacts] = {}
    minors: dict[str, tuple[str, ...]] = {}
    names = {node, node.partition(".")[0]}
    for job in document["jobs"]:
        state = job.get("job_state") or []
        states = {state} if isinstance(state, str) else set(state)
        nodes = _nodes(job)
        if not states & _HOLDING or (nodes and not names & set(nodes)):
            continue
        for number in _ids(job):
            facts[number] = JobFacts(
                str(job.get("user_name") or job.get("user_id") or ""),
                str(job.get("account") or ""),
                str(job.get("partition") or ""),
                str(job.get("qos") or ""),
            )
        detail = job.get("gres_detail") or []
        position = next(
            (place for place, name in enumerate(nodes) if name in {node, node.split(".", maxsplit=1)[0]}), None
        )
        if position is not None and position < len(detail):
            minors[str(job["job_id"])] = tuple(gpu_minors(detail[position]))
    return Jobs(facts, minors, known=True)


def _ids(job: dict[str, Any]) -> Iterator[str]:
    """The names of one job: its id, the SLUID of Slurm 26.05, and the form array_task."""
    yield str(job["job_id"])
    if job.get("sluid"):
        yield str(job["sluid"])
    array, task = (_number(job.get(key)) for key in ("array_job_id", "array_task_id"))
    if array and task is not None:
        yield f"{array}_{task}"


def _number(value: Any) -> int | None:
    """Slurm's JSON has plain numbers in old versions and {set, infinite, number} in new ones."""
    if isinstance(value, dict):
        return value.get("number") if value.get("set") else None
    return value if isinstance(value, int) else None


def _nodes(job: dict[str, Any]) -> list[str]:
    resources = job.get("job_resources") or {}
    nodes = resources.get("nodes")
    if isinstance(nodes, dict):
        allocation = nodes.get("allocation") or []
        return [str(entry.get("name")) for entry in allocation] or _hosts(str(nodes.get("list") or ""))
    return _hosts(str(nodes or job.get("nodes") or ""))


def _hosts(text: str) -> list[str]:
    """Host names of a host list; none where it is malformed, and then the job's own words decide."""
    try:
        return hostlist.expand(text)
    except ValueError:
        return []


def gpu_minors(detail: str) -> list[str]:
    """The minor numbers in a gres detail: "gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:5)" → 0, 3, 5."""
    minors = []
    for kind, indices in re.findall(r"(?:^|,)(\w+)[^,()]*(?:\([^)]*?IDX:([^)]*)\))", detail):
        if kind == "gpu" and indices:
            minors.extend(_hosts(f"[{indices}]"))
    return minors
