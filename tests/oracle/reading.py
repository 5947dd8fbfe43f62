"""Exposition text, `sacct -P`, allocations and inventory files, read without judgement into plain records.

Readings
  R1. An array job is known by JobIDRaw to labels and by JobID in the report. Rejected: one of them for both.
  R2. A typed gres is part of the plain one; what the plain count has beyond the typed ones has no model.
  R3. One run is (cluster, JobIDRaw, Start); of two records of it the ended one wins, then the longer.
  R4. A running job without ElapsedRaw ends with the window; with it at Start + ElapsedRaw. Rejected: the later of both.
  R5. Where a local time exists twice, the pair of readings is taken whose difference is nearest to ElapsedRaw, the
      earlier on a tie; where neither Start nor End exists twice, ElapsedRaw changes nothing.
  R6. A blank `gpus` is 1. A row's blank `workload` is its tenant's name, else `unknown`.
  R7. What Slurm's accounting covers are the nodes that any of its records names (also those of jobs without GPUs),
      from the first Start to the last End of the cluster's records. Rejected: every node of the cluster; the span of
      the node's own jobs.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.oracle.settings import FOREVER, Settings, moment


@dataclass(frozen=True)
class Line:
    """One line of exposition text. `value` is None where the text holds NaN or an infinity."""

    cluster: str
    metric: str
    labels: dict[str, str]
    value: Fraction | None
    at: int


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a workload that a scheduler names. `end` is None where it lasts until the window's end."""

    kind: str
    cluster: str
    workload: str
    job: str
    start: int
    end: int | None
    needs: tuple[tuple[str, Fraction], ...]
    nodes: tuple[str, ...]
    device: str
    labels: dict[str, str]
    tenant: str | None
    user: str | None
    given_class: str | None


@dataclass(frozen=True)
class Outage:
    """An allocations row of class `down`."""

    start: int
    end: int
    gpus: Fraction
    device: str
    model: str
    tenant: str | None


@dataclass(frozen=True)
class Stock:
    """One inventory row: a named device, or `gpus` of a node's without names."""

    row: int
    node: str
    device: str
    model: str
    gpus: int
    slots: int | None
    owner: str | None
    start: int
    end: int


@dataclass
class Inputs:
    lines: list[Line] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    stock: list[Stock] = field(default_factory=list)
    covered: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    bad_lines: int = 0
    untracked_jobs: int = 0


def read(settings: Settings) -> Inputs:
    """Everything that the configuration's `sources` name."""
    inputs = Inputs()
    for source in settings.sources:
        cluster = source.get("cluster", "")
        zone = ZoneInfo(source["timezone"]) if "timezone" in source else settings.zone
        if "metrics" in source:
            at = moment(source["at"], zone) if "at" in source else None
            _exposition(settings.directory / source["metrics"], cluster, at, inputs)
        elif "sacct" in source:
            _sacct(settings.directory / source["sacct"], cluster, zone, inputs)
        elif "allocations" in source:
            _allocations(settings.directory / source["allocations"], cluster, zone, inputs)
        elif "inventory" in source:
            _inventory(settings.directory / source["inventory"], zone, inputs)
        else:
            raise NotImplementedError(f"the oracle reads no source {dict(source)}")
    return inputs


def _exposition(path: Path, cluster: str, default_at: int | None, inputs: Inputs) -> None:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    in_seconds = path.name.removesuffix(".gz").endswith(".om")
    for raw in text.splitlines():
        if not (row := raw.strip()) or row.startswith("#"):
            continue
        try:
            name, labels, rest = _series(row)
            fields = rest.partition(" # ")[0].split()
            value = _number(fields[0])
            at = default_at if len(fields) == 1 else round(Decimal(fields[1]) * (1000 if in_seconds else 1))
        except (ValueError, IndexError, InvalidOperation):
            inputs.bad_lines += 1
            continue
        if at is None or len(fields) > 2:
            inputs.bad_lines += 1
            continue
        inputs.lines.append(Line(cluster, name, labels, value, at))


def _series(row: str) -> tuple[str, dict[str, str], str]:
    match = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", row)
    if not match:
        raise ValueError(row)
    name, at, labels = match[0], match.end(), {}
    if row[at : at + 1] == "{":
        at += 1
        while row[at] != "}":
            pair = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*').match(row, at)
            if not pair:
                raise ValueError(row)
            labels[pair[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), pair[2])
            at = pair.end()
        at += 1
    return name, labels, row[at:]


def _number(text: str) -> Fraction | None:
    number = Decimal(text)
    return Fraction(number) if number.is_finite() else None


def _sacct(path: Path, cluster: str, zone: ZoneInfo, inputs: Inputs) -> None:
    rows = path.read_text().splitlines()
    header = rows[0].split("|")
    best: dict[tuple[str, int], tuple[bool, int, dict[str, str], int, int | None]] = {}
    for text in rows[1:]:
        if not text.strip():
            continue
        fields = text.split("|")
        if len(fields) != len(header):
            inputs.bad_lines += 1
            continue
        row = dict(zip(header, fields, strict=True))
        if "." in row["JobID"] or not (span := _job_span(row, zone)):
            continue
        start, end = span
        ended = not row.get("State", "").startswith(("RUNNING", "SUSPENDED", "COMPLETING"))
        length = (FOREVER if end is None else end) - start
        key = (row.get("JobIDRaw") or row["JobID"], start)
        if key not in best or (ended, length) > best[key][:2]:
            best[key] = (ended, length, row, start, end)
    for _, _, row, start, end in best.values():
        _add_job(row, start, end, cluster, inputs)
    if best and not any("gres/gpu" in row.get("AllocTRES", "") for _, _, row, _, _ in best.values()):
        inputs.untracked_jobs += len(best)
    if best:
        first = min(start for *_, start, _ in best.values())
        ends = [end for *_, end in best.values()]
        last = None if None in ends else max(e for e in ends if e is not None)
        for *_, row, _, _ in best.values():
            for node in expand_nodes(row.get("NodeList", "")):
                inputs.covered[node] = (first, last)


def _job_span(row: dict[str, str], zone: ZoneInfo) -> tuple[int, int | None] | None:
    unknown = ("", "Unknown", "None", "N/A")
    if row.get("Start", "") in unknown:
        return None
    elapsed = int(row["ElapsedRaw"]) * 1000 if row.get("ElapsedRaw", "").isdigit() else None
    starts = sorted({moment(row["Start"], zone, fold) for fold in (0, 1)})
    if row.get("End", "") in unknown:
        return starts[0], None if elapsed is None else starts[0] + elapsed
    ends = sorted({moment(row["End"], zone, fold) for fold in (0, 1)})
    pairs = [(s, e) for s in starts for e in ends if e >= s]
    if not pairs:
        return None
    return min(pairs, key=lambda pair: (abs(pair[1] - pair[0] - elapsed) if elapsed is not None else 0, pair))


def _add_job(row: dict[str, str], start: int, end: int | None, cluster: str, inputs: Inputs) -> None:
    gres = re.findall(r"(?:^|,)gres/gpu(?::([^=,]+))?=(\d+)", row.get("AllocTRES", ""))
    typed = [(name, Fraction(count)) for name, count in gres if name]
    plain = sum(Fraction(count) for name, count in gres if not name)
    beyond = plain - sum((count for _, count in typed), Fraction(0))
    needs = (*typed, *([("", beyond)] if beyond > 0 else []))
    if not needs or (end is not None and end <= start):
        return
    names = {"slurm_account": "Account", "slurm_partition": "Partition", "slurm_qos": "QOS", "slurm_user": "User"}
    labels = {key: row.get(column, "") for key, column in names.items()}
    job = row.get("JobIDRaw") or row["JobID"]
    nodes = tuple(expand_nodes(row.get("NodeList", "")))
    user = row.get("User") or None
    inputs.runs.append(Run("sacct", cluster, row["JobID"], job, start, end, needs, nodes, "", labels, None, user, None))


def expand_nodes(text: str) -> list[str]:
    """`a[1-2,07],b` as a1, a2, a07, b."""
    if text in ("", "None assigned", "Unknown"):
        return []
    nodes = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        nodes += list(_expand_one(part))
    return nodes


def _expand_one(part: str) -> Iterator[str]:
    match = re.match(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if not match:
        yield part
        return
    for item in match[2].split(","):
        low, _, high = item.partition("-")
        for number in range(int(low), int(high or low) + 1):
            for tail in _expand_one(match[3]) if match[3] else [""]:
                yield f"{match[1]}{number:0{len(low)}}{tail}"


def _allocations(path: Path, cluster: str, zone: ZoneInfo, inputs: Inputs) -> None:
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            start, end = moment(row["start"], zone), moment(row["end"], zone) if row["end"] else None
            gpus, tenant = Fraction(row["gpus"] or 1), row["tenant"] or None
            if row["class"] == "down":
                end = FOREVER if end is None else end
                inputs.outages.append(Outage(start, end, gpus, row["device"], row["model"], tenant))
                continue
            name = row["workload"] or tenant or "unknown"
            needs, given = ((row["model"], gpus),), row["class"] or None
            inputs.runs.append(
                Run("alloc", cluster, name, name, start, end, needs, (), row["device"], {}, tenant, None, given)
            )


def _inventory(path: Path, zone: ZoneInfo, inputs: Inputs) -> None:
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            inputs.stock.append(
                Stock(
                    row=number,
                    node=row["node"],
                    device=row["device"],
                    model=row["model"],
                    gpus=int(row["gpus"] or 1),
                    slots=int(row["slots"]) if row.get("slots") else None,
                    owner=row.get("owner") or None,
                    start=moment(row["from"], zone) if row.get("from") else -FOREVER,
                    end=moment(row["to"], zone) if row.get("to") else FOREVER,
                )
            )
