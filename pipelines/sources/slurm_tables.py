"""Tables of `sacctmgr -P`, `sinfo` and `squeue` → the objects that Slurm's JSON has for the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from pipelines.sources import scontrol_text

_DELIMITERS: Final = ("|#", "|")
_LENGTH: Final = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d\d)")

# Column of squeue (as -o and -O head it) → member of the controller's object.
_JOB: Final = {
    "JOBID": "shown",
    "JOBARRAYID": "shown",
    "JOBIDRAW": "job_id",
    "ACCOUNT": "account",
    "USER": "user_name",
    "PARTITION": "partition",
    "QOS": "qos",
    "STATE": "job_state",
    "ST": "job_state",
    "START_TIME": "start_time",
    "STARTTIME": "start_time",
    "TIME_USED": "took",
    "TIMEUSED": "took",
    "TIME": "took",
    "NODELIST": "nodes",
    "TRES_ALLOC": "tres_alloc_str",
    "TRES-ALLOC": "tres_alloc_str",
    "TRESALLOC": "tres_alloc_str",
}
_NODE: Final = {"HOSTNAMES": "name", "NODELIST": "name", "GRES": "gres", "GRES_USED": "gres_used", "STATE": "state",
                "REASON": "reason"}  # fmt: skip
_SHORT: Final = {"R": "RUNNING", "PD": "PENDING", "CG": "COMPLETING", "S": "SUSPENDED", "CD": "COMPLETED"}


def is_header(line: str) -> bool:
    """Return whether a line heads a table that is read."""
    return _kind(_split(line)) is not None


class SlurmTable:
    """Rows below one header."""

    def __init__(self, names: list[str]) -> None:
        self._names = [name.strip() for name in names]
        self._kind = _kind(self._names)

    @classmethod
    def of_header(cls, header: str) -> SlurmTable:
        """The table that a header line begins."""
        return cls(_split(header))

    def add(
        self, line: str, number: int, into: Mapping[str, list[Mapping[str, Any]]], lines: list[int], zone: ZoneInfo
    ) -> bool:
        """Take in a row; return whether it is one."""
        values = [value.strip() for value in _split(line)]
        if len(values) not in (len(self._names), len(self._names) + 1) or self._kind is None:
            return False
        row = dict(zip(self._names, values, strict=False))
        if self._kind == "qos":
            into["qos"].append(_with_limits(row))
        elif self._kind == "associations":
            into["associations"].append(_association(row))
        elif self._kind == "nodes":
            into["nodes"].append(_node(row))
        elif self._kind == "jobs":
            job = _job(row, zone)
            if job is None:
                return False
            into["jobs"].append(job)
            lines.append(number)
        return True


def _split(line: str) -> list[str]:
    delimiter = next((d for d in _DELIMITERS if d in line), "|")
    return [part.strip() for part in line.split(delimiter)]


def _kind(names: list[str]) -> str | None:
    upper = {name.upper() for name in names}
    if {"Name", "GrpTRES"} <= set(names):
        return "qos"
    if "Account" in names and ({"ParentName", "Par Name"} & set(names) or {"User", "GrpTRES"} <= set(names)):
        return "associations"
    if {"User", "DefaultAccount", "Account"} <= set(names):
        return "users"  # which accounts a user may choose: no limit and no tree
    if upper & {"TRES_ALLOC", "TRES-ALLOC", "TRESALLOC"} and upper & {"STATE", "ST"}:
        return "jobs"
    if "STATE" in upper and upper & {"HOSTNAMES", "NODELIST"} and "JOBID" not in upper:
        return "nodes"
    return None


def _with_limits(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": row["Name"],
        "limits": {
            "max": {
                "tres": {
                    "total": _tres(row.get("GrpTRES", "")),
                    "per": {"account": _tres(row.get("MaxTRESPA", "")), "user": _tres(row.get("MaxTRESPU", ""))},
                }
            }
        },
    }


def _association(row: Mapping[str, str]) -> dict[str, Any]:
    # sacctmgr leaves the parent out unless it is asked for: then nobody says what stands above what.
    parent = next((row[name] for name in ("ParentName", "Par Name") if name in row), None)
    return {
        "cluster": row.get("Cluster", ""),
        "account": row.get("Account", ""),
        "user": row.get("User", ""),
        **({} if parent is None else {"parent_account": parent}),
        "max": {"tres": {"total": _tres(row.get("GrpTRES", ""))}},
    }


def _tres(text: str) -> list[dict[str, str]]:
    entries = []
    for entry in filter(None, text.split(",")):
        resource, _, count = entry.partition("=")
        kind, _, name = resource.partition("/")
        entries.append({"type": kind, "name": name, "count": count})
    return entries


def _node(row: Mapping[str, str]) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for column, value in row.items():
        member = _NODE.get(column.upper())
        if member is not None and value not in ("", "N/A", "none", "(null)"):
            node.setdefault(member, value)
    state = str(node.get("state", ""))
    node["state"] = [part.upper() for part in re.split(r"[+*~#!%$@^-]+", state) if part]
    if "*" in state:
        node["state"].append("NOT_RESPONDING")
    return node


def _job(row: Mapping[str, str], zone: ZoneInfo) -> dict[str, Any] | None:
    job: dict[str, Any] = {}
    for column, value in row.items():
        member = _JOB.get(column.upper())
        if member is not None and value not in ("", "N/A", "(null)"):
            job.setdefault(member, value)
    shown = str(job.pop("shown", job.get("job_id", "")))
    if not shown[:1].isdigit():
        return None
    array, _, task = shown.partition("_")
    job.setdefault("job_id", shown if not task else array)
    if task.isdecimal():
        job |= {"array_job_id": array, "array_task_id": task}
    job["job_state"] = _SHORT.get(str(job.get("job_state")), job.get("job_state"))
    start = scontrol_text.epoch(job.get("start_time"), zone)
    took = _LENGTH.fullmatch(str(job.pop("took", "")))
    job["start_time"] = start
    if start is not None and took is not None:
        days, hours, minutes, seconds = (int(each or 0) for each in took.groups())
        job["asked"] = start + days * 86400 + hours * 3600 + minutes * 60 + seconds
    return job
