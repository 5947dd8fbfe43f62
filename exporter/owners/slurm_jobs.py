"""The running jobs of this node as ``squeue --json`` (or ``scontrol``) tells them."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from exporter import hostlist
from exporter.watched import Watched

_LOG = logging.getLogger(__name__)
_HOLDING: Final = {"RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "CONFIGURING"}
_LIST_SECONDS: Final = 600.0
_ASK_SECONDS: Final = 60.0
_BELIEVED_SECONDS: Final = 3600.0
_SINGLES_AT_A_TIME: Final = 8
_PATIENCE_SECONDS: Final = 1.0
_UNKNOWN_JOB: Final = "Invalid job id"
_UNKNOWN_NODE: Final = "Invalid node name"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Who a job runs for; ``number`` is its id, where its name is array_task or an SLUID."""

    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of this node.

    Args:
        facts: by job id.
        minors: minor numbers of the GPUs that Slurm says it gave the job here.
        known: whether squeue answered; if not, every job id that is found elsewhere is believed.
        read_at: monotonic time at which it was asked for the whole list.
        ended: ids that squeue was asked about since and doesn't run here.
    """

    facts: dict[str, JobFacts] = field(default_factory=dict)
    minors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: bool = False
    read_at: float = math.inf
    ended: frozenset[str] = frozenset()


class SlurmJobs:
    """Asks slurmctld about jobs, and asks little: of all nodes wanting all jobs every minute it wouldn't recover.

    The whole list is read at the start and every ten minutes, by each node at its own time. A job that turns up on
    the node between, or whose control group has gone, is asked about alone, which costs slurmctld next to nothing.
    Where nothing on the node tells when jobs begin, the list is read every minute.
    """

    def __init__(
        self,
        node: str,
        *,
        run: Callable[[Sequence[str]], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._run, self._clock = node, run or _run, clock
        self._list_seconds = _LIST_SECONDS * (0.9 + 0.2 * zlib.crc32(node.encode()) / 2**32)
        self._worker: Watched[Jobs] = Watched("slurm-jobs", clock)
        self._jobs = Jobs()
        self._begun_at = -math.inf
        self._answered_at = -math.inf
        self._failing = False
        self._asked: dict[str, float] = {}

    def __call__(self, found: AbstractSet[str] = frozenset(), alive: AbstractSet[str] | None = None) -> Jobs:
        """The jobs; without an answer for an hour, none are known.

        Args:
            found: the ids that anything on the node names.
            alive: the ids that surely run, where something tells when jobs begin and end.
        """
        now = self._clock()
        self._take()
        read = self._due(found, alive, now)
        if read is not None and self._worker.start(read):
            self._worker.wait(_PATIENCE_SECONDS)
            self._take()
        if now - self._answered_at > _BELIEVED_SECONDS:
            self._jobs = Jobs()
        return self._jobs

    def _take(self) -> None:
        """Take over what the worker has read."""
        if self._worker.busy_since is not None:
            return
        if self._worker.value is not None:
            self._jobs, self._worker.value = self._worker.value, None
            self._answered_at, self._failing = self._worker.finished_at or self._clock(), False
        elif self._worker.error is not None:
            if not self._failing:
                level = logging.WARNING if self._jobs.known else logging.INFO
                _LOG.log(level, "jobs of Slurm: %s; what was read last is used for an hour", self._worker.error)
            self._worker.error, self._failing = None, True

    def _due(self, found: AbstractSet[str], alive: AbstractSet[str] | None, now: float) -> Callable[[], Jobs] | None:
        """What to ask now."""
        if self._worker.busy_since is not None:
            return None
        # An id that has left the node and turns up anew may run again.
        jobs = self._jobs = replace(self._jobs, ended=self._jobs.ended & found)
        since = now - self._begun_at
        new = found - jobs.facts.keys() - jobs.ended if jobs.known else frozenset()
        quiet = frozenset() if alive is None else _holding(jobs, found) - _numbers(jobs, alive)
        self._asked = {job: at for job, at in self._asked.items() if job in new | quiet}
        doubtful = {job for job in new if now - self._asked.get(job, -math.inf) >= _ASK_SECONDS}
        doubtful |= {job for job in quiet if now - self._asked.get(job, self._begun_at) >= _ASK_SECONDS}
        soon = self._failing or alive is None or len(doubtful) > _SINGLES_AT_A_TIME
        if since >= (_ASK_SECONDS if soon else self._list_seconds):
            self._begun_at = now
            return self._read_all
        asked = sorted(doubtful)[:_SINGLES_AT_A_TIME]
        self._asked.update(dict.fromkeys(asked, now))
        return (lambda: self._read_each(asked, jobs)) if asked else None

    def _read_all(self) -> Jobs:
        asked_at = self._clock()
        document = self._ask(["squeue", "--json", f"--nodelist={self._node}"], ["scontrol", "show", "jobs", "--json"])
        return replace(parse_jobs(document, self._node), read_at=asked_at)

    def _read_each(self, asked: Sequence[str], jobs: Jobs) -> Jobs:
        for job in asked:
            document = self._ask(["squeue", "--json", f"--jobs={job}"], ["scontrol", "show", "job", job, "--json"])
            answer = parse_jobs(document, self._node)
            if job in answer.facts:
                jobs = replace(jobs, facts=jobs.facts | answer.facts, minors=jobs.minors | answer.minors)
            else:
                jobs = _without(jobs, job)
        return jobs

    def _ask(self, *commands: Sequence[str]) -> dict[str, Any]:
        """The first answer. Raises OSError, ValueError or SubprocessError."""
        failure: Exception = ValueError("no command")
        for command in commands:
            try:
                answer = json.loads(self._run(command))
            except subprocess.CalledProcessError as error:
                said = f"{error.stdout or ''}\n{error.stderr or ''}".strip()
                if _UNKNOWN_JOB in said:
                    return {"jobs": []}
                failure = ValueError(f"{command[0]}: {said.splitlines()[-1] if said else error}")
                if _UNKNOWN_NODE in said:  # all jobs wouldn't tell which are here either
                    raise ValueError(f"{failure} (--node-name takes Slurm's NodeName)") from error
            except (OSError, ValueError) as error:  # no timeout: a slurmctld that is busy isn't asked once more
                failure = error
            else:
                if isinstance(answer, dict) and isinstance(answer.get("jobs"), list):
                    return answer
                failure = ValueError(f"{command[0]} answers no list of jobs")
        raise failure


def _holding(jobs: Jobs, found: AbstractSet[str]) -> AbstractSet[str]:
    """The ids of running jobs that may hold a card here."""
    return jobs.minors.keys() | _numbers(jobs, found & jobs.facts.keys())


def _numbers(jobs: Jobs, names: AbstractSet[str]) -> AbstractSet[str]:
    return {jobs.facts[name].number if name in jobs.facts else name for name in names}


def _without(jobs: Jobs, ended: str) -> Jobs:
    """The jobs without one, whatever name it goes by."""
    number = jobs.facts[ended].number if ended in jobs.facts else ended
    names = {name for name, facts in jobs.facts.items() if facts.number == number} | {ended, number}
    return replace(
        jobs,
        facts={name: facts for name, facts in jobs.facts.items() if name not in names},
        minors={name: minors for name, minors in jobs.minors.items() if name not in names},
        ended=jobs.ended | names,
    )


def _run(command: Sequence[str]) -> str:
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]} is not installed")
    done = subprocess.run(  # noqa: S603  a fixed command line, but for ids of jobs that a pattern has passed
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
                str(job["job_id"]),
            )
        detail = job.get("gres_detail") or []
        position = next((place for place, name in enumerate(nodes) if name in names), None)
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
