"""Text of `scontrol show job|node|reservation|partition|config` → the objects that `--json` has for the same.

Records are lines of ``Key=Value``, over several lines or on one (``-o``). Values such as names of jobs and reasons
are free text and may look like further keys, so each key is looked for where Slurm writes it and no value decides
where another begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from exporter import hostlist
from exporter.errors import UsageError
from pipelines.periods import parse_time

HEADS: Final = {
    "JobId": "jobs",
    "NodeName": "nodes",
    "ReservationName": "reservations",
    "PartitionName": "partitions",
}
_HEAD: Final = re.compile(rf"({'|'.join(HEADS)})=")
_NO_VALUE: Final = frozenset({"", "N/A", "(null)", "None", "Unknown", "UNLIMITED", "n/a"})
_LENGTH: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")
_JOB_NAME: Final = re.compile(r" JobName=.* (?=UserId=\S)|\sJobName=[^\n]*")
_DETAIL: Final = re.compile(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(\S*)")
_REASON: Final = re.compile(
    r"\sReason=(?:([^\n]*?) \[\S+?@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\]|([^\n]*?)(?= (?:Comment|Extra)=|\n|$))"
)


@dataclass(frozen=True)
class Record:
    """One record: of which list of the JSON answer it is, the line it begins in, and its text."""

    kind: str
    line: int
    text: str


def is_head(line: str) -> bool:
    """Return whether a record begins here."""
    return _HEAD.match(line) is not None


def records(numbered: Iterator[tuple[int, str]]) -> Iterator[Record]:
    """Yield records from lines that are part of one: a head and what is indented below it."""
    begun: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in numbered:
        head = _HEAD.match(line)
        if head is not None:
            if begun is not None:
                yield Record(begun[1], begun[0], "\n".join(lines))
            begun, lines = (number, HEADS[head[1]]), [line]
        else:
            lines.append(line)
    if begun is not None:
        yield Record(begun[1], begun[0], "\n".join(lines))


def job(text: str, zone: ZoneInfo) -> dict[str, Any]:
    """The controller's object of a job, and ``asked``: until when it is known to have run (epoch seconds)."""
    plain = _JOB_NAME.sub(" ", text, count=1)
    start = _moment(plain, "StartTime", zone)
    took = _LENGTH.fullmatch(_value(plain, "RunTime") or "")
    details = [
        gres for nodes, gres in _DETAIL.findall(plain) for _ in range(len(_expanded(nodes)) if "gpu" in gres else 1)
    ]
    return {
        "job_id": _value(plain, "JobId"),
        "array_job_id": _value(plain, "ArrayJobId"),
        "array_task_id": _value(plain, "ArrayTaskId"),
        "het_job_id": _value(plain, "HetJobId"),
        "het_job_offset": _value(plain, "HetJobOffset"),
        "job_state": _value(plain, "JobState"),
        "user_name": (_value(plain, "UserId") or "").partition("(")[0],
        "account": _value(plain, "Account"),
        "partition": _value(plain, "Partition"),
        "qos": _value(plain, "QOS"),
        "start_time": start,
        "end_time": _moment(plain, "EndTime", zone),
        "nodes": _value(plain, "NodeList"),
        "tres_alloc_str": _value(plain, "AllocTRES") or _value(plain, "TRES"),
        "gres_detail": [gres for gres in details if gres],
        "gres_nodes": [
            (node, gres) for nodes, gres in _DETAIL.findall(plain) for node in _expanded(nodes) if "gpu" in gres
        ],
        "asked": None if start is None or took is None else start + int(_seconds(took)),
    }


def node(text: str, zone: ZoneInfo) -> dict[str, Any]:
    """The object of a node."""
    reason = _REASON.search(text)
    return {
        "name": _value(text, "NodeName"),
        "gres": _value(text, "Gres"),
        "gres_used": _value(text, "GresUsed"),
        "state": [state for state in re.split(r"[+*~#!%$@^-]+", _value(text, "State") or "") if state]
        + (["NOT_RESPONDING"] if "*" in (_value(text, "State") or "") else []),
        "reason": (reason[1] or reason[3] or "").strip() or None if reason else None,
        "reason_changed_at": epoch(reason[2], zone) if reason else None,
        "last_busy": _moment(text, "LastBusyTime", zone),
        "tres": _value(text, "CfgTRES"),
        "tres_used": _value(text, "AllocTRES"),
        "partitions": (_value(text, "Partitions") or "").split(","),
    }


def reservation(text: str, zone: ZoneInfo) -> dict[str, Any]:
    """The object of a reservation."""
    return {
        "name": _value(text, "ReservationName"),
        "start_time": _moment(text, "StartTime", zone),
        "end_time": _moment(text, "EndTime", zone),
        "node_list": _value(text, "Nodes"),
        "partition": _value(text, "PartitionName"),
        "flags": (_value(text, "Flags") or "").split(","),
        "tres": _value(text, "TRES"),
        "accounts": _value(text, "Accounts"),
        "users": _value(text, "Users"),
    }


def partition(text: str, zone: ZoneInfo) -> dict[str, Any]:  # noqa: ARG001  read like the others
    """The object of a partition, as old versions write it."""
    return {
        "name": _value(text, "PartitionName"),
        "nodes": _value(text, "Nodes"),
        "tres": _value(text, "TRES"),
        "billing_weights": _value(text, "TRESBillingWeights"),
        "qos": _value(text, "QoS"),
    }


def _value(text: str, key: str) -> str | None:
    found = re.search(rf"(?:^|\s){key}=(\S*)", text)
    return None if found is None or found[1] in _NO_VALUE else found[1]


def _moment(text: str, key: str, zone: ZoneInfo) -> int | None:
    return epoch(_value(text, key), zone)


def epoch(text: str | None, zone: ZoneInfo) -> int | None:
    """A local time, or seconds since the epoch, as seconds since the epoch; None where it is neither."""
    if text is None:
        return None
    try:
        return round(parse_time(text, zone).timestamp())
    except UsageError:
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None


def _seconds(length: re.Match[str]) -> float:
    days, hours, minutes, seconds = (int(each or 0) for each in length.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _expanded(nodes: str) -> list[str]:
    try:
        return hostlist.expand(nodes)
    except ValueError:
        return [nodes]


def time_of(line: str, zone: ZoneInfo) -> datetime | None:
    """The time that a line says the answers below it were given at: ``# 2026-10-05T12:00:00Z``, or scontrol's own."""
    found = re.match(r"(?:#\s*|Configuration data as of )(\d{4}-\d\d-\d\dT\S+)\s*$", line)
    if found is None:
        return None
    try:
        return parse_time(found[1], zone)
    except UsageError:
        return None
