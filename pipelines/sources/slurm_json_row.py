"""One job of Slurm's JSON → the row that `sacct -P` prints for it.

Two shapes are read. Accounting (`sacct --json`, slurmrestd's `/slurmdb/…/jobs`) has its times under ``time`` and
its resources under ``tres``; the controller (`squeue --json`, `scontrol show job --json`, slurmrestd's
`/slurm/…/jobs`) has ``start_time`` and ``tres_alloc_str``. Between versions numbers were written as they are, as
``{"set", "infinite", "number"}``, as null or as one of Slurm's marks for "no value", and states as one text or as a
list; all of them are read everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pipelines.sources.slurm_values import members_of, moment, number_of, states_of, text_of
from pipelines.sources.tres import gpus_by_type

Row = dict[str, str | None]

_WAITING: Final = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
# COMPLETING and STAGE_OUT stand alone in old versions: the job is over, its nodes are cleaned up.
_OVER: Final = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        *("OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "COMPLETING", "STAGE_OUT"),
    }
)


def row_of(job: Mapping[str, Any]) -> Row:
    """The row of one job; what it doesn't say is missing or None. Times are seconds since the epoch.

    Its steps are left out: they hold nothing beyond the job.

    Raises:
        ValueError: it has no times in either shape.
    """
    time = job.get("time")
    if isinstance(time, dict) and "start" in time:
        row = _of_accounting(job, time)
    elif "start_time" in job:
        row = _of_controller(job)
    else:
        raise ValueError("job without its times")
    return {column: text if text is None or text.isascii() else _unicode(text) for column, text in row.items()}


def _of_accounting(job: Mapping[str, Any], time: Mapping[str, Any]) -> Row:
    array, het, association, tres = (members_of(job.get(key)) for key in ("array", "het", "association", "tres"))
    states = states_of(members_of(job.get("state")).get("current", job.get("state")))
    raw = number_of(job.get("job_id"))
    return {
        "JobID": _shown(raw, array.get("job_id"), array.get("task_id"), het.get("job_id"), het.get("job_offset")),
        "JobIDRaw": raw,
        "Cluster": text_of(job.get("cluster")) or text_of(association.get("cluster")),
        "Account": text_of(job.get("account")) or text_of(association.get("account")),
        "User": text_of(job.get("user")) or text_of(association.get("user")),
        "Partition": text_of(job.get("partition")),
        "QOS": text_of(job.get("qos")),
        "State": "PENDING" if "PENDING" in states else " ".join(states) or None,
        "Start": moment(time["start"]),
        "End": moment(time.get("end")),
        "ElapsedRaw": number_of(time.get("elapsed")),
        "NodeList": text_of(job.get("nodes")),
        "AllocTRES": _tres(tres.get("allocated")),
        "ReqTRES": _tres(tres.get("requested")),
        "AdminComment": text_of(members_of(job.get("comment")).get("administrator")),
        "JobName": text_of(job.get("name")),
    }


def _of_controller(job: Mapping[str, Any]) -> Row:
    states = states_of(job.get("job_state"))
    raw = number_of(job.get("job_id"))
    return {
        "JobID": _shown(
            raw,
            *(job.get(key) for key in ("array_job_id", "array_task_id", "het_job_id", "het_job_offset")),
        ),
        "JobIDRaw": raw,
        "Cluster": text_of(job.get("cluster")),
        "Account": text_of(job.get("account")),
        "User": text_of(job.get("user_name")),
        "Partition": text_of(job.get("partition")),
        "QOS": text_of(job.get("qos")),
        "State": "PENDING" if _WAITING.intersection(states) else " ".join(states) or None,
        "Start": moment(job["start_time"]),
        # Until a job is over this is when its time limit ends.
        "End": moment(job.get("end_time")) if _OVER.intersection(states) else None,
        "NodeList": text_of(job.get("nodes")),
        "AllocTRES": _with_gres(text_of(job.get("tres_alloc_str")), job.get("gres_detail")),
        "ReqTRES": text_of(job.get("tres_req_str")),
        "AdminComment": text_of(job.get("admin_comment")),
        "JobName": text_of(job.get("name")),
    }


def _unicode(text: str) -> str:
    r"""JSON can escape half a character (``"\ud800"``), which no table holds."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _shown(raw: str | None, array: Any, task: Any, het: Any, offset: Any) -> str | None:
    """The id that people see: ``12_3`` of an array, ``12+1`` of a heterogeneous job, else the raw one."""
    array, task, het, offset = (number_of(each) for each in (array, task, het, offset))
    if raw is not None and array not in {None, "0"} and task is not None:
        return f"{array}_{task}"
    if raw is not None and het not in {None, "0"} and offset is not None:
        return f"{het}+{offset}"
    return raw


def _tres(value: Any) -> str | None:
    """``[{"type": "gres", "name": "gpu:a100", "count": 2}]`` → ``gres/gpu:a100=2``."""
    if not isinstance(value, list):
        return text_of(value)
    # Energy is measured afterwards and held by nobody.
    entries = [entry for entry in value if isinstance(entry, dict) and entry.get("type") != "energy"]
    return ",".join(f"{_tres_name(entry)}={number_of(entry.get('count'))}" for entry in entries) or None


def _tres_name(entry: Mapping[str, Any]) -> str:
    kind, name = entry.get("type"), entry.get("name")
    return f"{kind}/{name}" if name else f"{kind}"


def _with_gres(tres: str | None, detail: Any) -> str | None:
    """The controller knows each node's GPUs even where AccountingStorageTRES leaves them out."""
    nodes = [text for text in detail if isinstance(text, str)] if isinstance(detail, list) else []
    if not nodes or (tres is not None and "gres/gpu" in tres):
        return tres
    gpus: Counter[str | None] = Counter()
    try:
        for node in nodes:
            gpus.update(gpus_by_type(node))
    except ValueError:
        return ",".join(nodes)  # for later steps to refuse
    if not gpus:
        return tres
    typed = [f"gres/gpu:{kind}={count}" for kind, count in gpus.items() if kind]
    return ",".join([*([tres] if tres else []), f"gres/gpu={gpus.total()}", *typed])
