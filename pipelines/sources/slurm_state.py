"""Source `slurm_state`: what Slurm's controller says of nodes, reservations, partitions, limits and running jobs.

One file holds the answers of `scontrol show job -d|node|reservation|partition|config`, `sacctmgr -P show qos|assoc`
and `sinfo`/`squeue` with a header, one after another; or the JSON of the same (`--json`, slurmrestd).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from zoneinfo import ZoneInfo

import polars as pl

from exporter import hostlist
from pipelines.facts import joined, rows_of
from pipelines.sources import scontrol_text
from pipelines.sources.device_table import DeviceTable, read_device_table
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.json_members import BrokenJson, read_members
from pipelines.sources.sacct import batch_of
from pipelines.sources.sacct_text import COLUMNS
from pipelines.sources.slurm_json_row import row_of
from pipelines.sources.slurm_limits import (
    association_rows,
    associations_of_json,
    booking_rows,
    partition_rows,
    qos_of_json,
    qos_rows,
)
from pipelines.sources.slurm_nodes import node_facts
from pipelines.sources.slurm_tables import SlurmTable, is_header
from pipelines.sources.slurm_values import errors_in, members_of, moment
from pipelines.sources.tally import Tally
from pipelines.sources.tres import minors
from pipelines.tables import Batch

_KINDS: Final = ("jobs", "nodes", "reservations", "partitions", "qos", "associations")
_READ: Final[Mapping[str, Callable[[str, ZoneInfo], dict[str, Any]]]] = {
    "jobs": scontrol_text.job,
    "nodes": scontrol_text.node,
    "reservations": scontrol_text.reservation,
    "partitions": scontrol_text.partition,
}
_NO_RESERVATIONS: Final = "No reservations in the system"
_EMPTY: Final = ("No jobs in the system", "slurm_load_", "No partitions", "No nodes")


def read_slurm_state(
    path: Path,
    *,
    cluster: str,
    zone: ZoneInfo,
    at: datetime | None = None,
    devices: Path | None = None,
    fields: Sequence[str] | None = None,
    shards_per_gpu: int | None = None,
    name: str | None = None,
) -> Batch:
    """Running jobs as records, and the tables of `pipelines.facts` that Slurm speaks of.

    Args:
        cluster: name of the cluster.
        zone: of local times.
        at: when the answers were given, where the file doesn't say.
        devices: says which card a node's minor number is; without it running jobs hold GPUs of their node.
        fields: the columns of a table without a header line.
        shards_per_gpu: how many shards a GPU has.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read. What it holds of other answers is counted and passed over.
    """
    tally = Tally(name or path.name)
    answers = _Answers(at)
    with open_source(path) as stream:
        if _is_json(stream):
            _read_json(answers, stream, tally)
        else:
            _read_text(answers, line_blocks(stream, tally), zone, fields, tally)
    cards = DeviceTable() if devices is None else read_device_table(devices, tally)
    return answers.batch(cluster, cards, shards_per_gpu, tally)


class _Answers:
    """What one file says, as the objects of Slurm's JSON."""

    def __init__(self, at: datetime | None) -> None:
        self.at = at
        self.of: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _KINDS}
        self.lines: list[int] = []
        self.without_reservations = False  # said so, rather than not asked

    def is_empty(self, line: str) -> bool:
        """Whether a line is a comment or an answer that names nothing."""
        self.without_reservations |= line.startswith(_NO_RESERVATIONS)
        return line.startswith(("#", _NO_RESERVATIONS, *_EMPTY))

    def batch(self, cluster: str, cards: DeviceTable, shards_per_gpu: int | None, tally: Tally) -> Batch:
        """The tidy tables of it."""
        observed = self.at
        listings, conditions = node_facts(
            self.of["nodes"], cluster=cluster, observed=observed, cards=cards, tally=tally
        )
        accounts, limits = association_rows(
            [*associations_of_json(self.of["associations"])], cluster=cluster, observed=observed
        )
        limits += qos_rows(qos_of_json(self.of["qos"]), cluster=cluster, observed=observed)
        bookings = booking_rows(self.of["reservations"], cluster=cluster, observed=observed, tally=tally)
        if self.without_reservations and not self.of["reservations"] and observed is not None:
            bookings = [{"cluster": cluster, "observed": observed}]
        partitions = partition_rows(self.of["partitions"], cluster=cluster, observed=observed, tally=tally)
        if observed is None and (listings or limits or accounts or partitions):
            tally.add("answers without a time: add `at`, or a line such as `# 2026-10-05T12:00:00Z` before them")
        facts = joined(
            [
                rows_of("scheduler_node", listings),
                rows_of("condition", conditions),
                rows_of("booking", bookings),
                rows_of("slurm_partition", partitions),
                rows_of("slurm_account", accounts),
                rows_of("quota_limit", limits),
                rows_of("holding", self._holdings(cluster, cards, tally)),
            ]
        )
        jobs = self._jobs(cluster, shards_per_gpu, tally)
        return Batch(records=jobs.records, accounting=jobs.accounting, findings=tally.findings(), facts=facts)

    def _jobs(self, cluster: str, shards_per_gpu: int | None, tally: Tally) -> Batch:
        rows = []
        for line, job in zip(self.lines, self.of["jobs"], strict=True):
            try:
                row = row_of(job)
            except ValueError:
                tally.add("job without its times", line)
                continue
            asked = job.get("asked") or (None if self.at is None else int(self.at.timestamp()))
            if row.get("End") is None and row.get("Start") is not None and asked is not None:
                row["ElapsedRaw"] = row.get("ElapsedRaw") or str(asked - int(str(row["Start"])))
            rows.append((line, *(row.get(column) for column in COLUMNS)))
        schema = {"line": pl.UInt32, **dict.fromkeys(COLUMNS, pl.String)}
        table = pl.DataFrame(rows, schema=schema, orient="row")
        batch = batch_of(table, cluster=cluster, zone=ZoneInfo("UTC"), shards_per_gpu=shards_per_gpu, tally=tally)
        # A list of what runs now says nothing of nodes on which nothing runs.
        return Batch(records=batch.records)

    def _holdings(self, cluster: str, cards: DeviceTable, tally: Tally) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        unknown = 0
        for job in self.of["jobs"]:
            start = moment(job.get("start_time"))
            if start is None or not start.isdecimal():
                continue
            for node, gres in _details(job):
                for minor in minors(gres):
                    device = cards.card(node, minor)
                    if device is None:
                        unknown += 1
                        continue
                    rows.append(
                        {
                            "cluster": cluster,
                            "labelled_as": str(job["job_id"]),
                            "start": datetime.fromtimestamp(int(start), UTC),
                            "node": node,
                            "device": device,
                            "observed": self.at,
                        }
                    )
        if unknown and rows:
            tally.add("GPUs of running jobs that `devices` doesn't name", count=unknown, code="unresolved_owner")
        return rows


def _details(job: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each node's GRES of a running job."""
    told = job.get("gres_nodes")
    if told is not None:
        return list(told)
    detail = job.get("gres_detail")
    texts = [text for text in detail if isinstance(text, str)] if isinstance(detail, list) else []
    try:
        nodes = hostlist.expand(str(job.get("nodes") or ""))
    except ValueError:
        return []
    return list(zip(nodes, texts, strict=False)) if len(texts) == len(nodes) else []


def _is_json(stream: BinaryIO) -> bool:
    start = cast("io.BufferedReader", stream).peek(64)[:64]  # plain and gzip files both can
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def _read_json(answers: _Answers, stream: BinaryIO, tally: Tally) -> None:
    known = False
    empty: set[int] = set()  # documents whose list of reservations is
    failed: set[int] = set()
    try:
        for member in read_members(stream, "jobs"):
            if member.key == "last_update":
                moment_text = moment(member.value)
                if moment_text is not None and moment_text.isdecimal():
                    answers.at = datetime.fromtimestamp(int(moment_text), UTC)
            elif member.entry and isinstance(member.value, dict):
                answers.of["jobs"].append(member.value)
                answers.lines.append(member.line)
            elif member.key in _KINDS:
                known = True
                if not member.entry and isinstance(member.value, list) and member.key != "jobs":
                    if member.key == "reservations" and not member.value:
                        empty.add(member.document)
                    answers.of[member.key] += [members_of(entry) for entry in member.value]
            elif member.key == "errors" and (count := errors_in(member.value)):
                tally.add("Slurm answered with an error", member.line, count=count)
                failed.add(member.document)
    except BrokenJson as error:
        tally.add(error.what, error.line)
        return
    answers.without_reservations = bool(empty - failed)  # an error comes with empty lists
    if not known:
        tally.add("answer about something else than jobs, nodes, reservations, partitions, QOS or associations")


def _read_text(
    answers: _Answers,
    blocks: Iterator[tuple[int, list[bytes]]],
    zone: ZoneInfo,
    fields: Sequence[str] | None,
    tally: Tally,
) -> None:
    record: list[tuple[int, str]] = []
    table: SlurmTable | None = SlurmTable(list(fields)) if fields else None
    in_config = False

    def finish() -> None:
        for each in scontrol_text.records(iter(record)):
            answers.of[each.kind].append(_READ[each.kind](each.text, zone))
            if each.kind == "jobs":
                answers.lines.append(each.line)
        record.clear()

    for number, line in _lines(blocks):
        if scontrol_text.is_head(line):
            in_config, table = False, None
            record.append((number, line))
        elif record and line[:1] in (" ", "\t"):
            record.append((number, line))
        elif (told := scontrol_text.time_of(line, zone)) is not None:
            finish()
            answers.at, in_config = told, line.startswith("Configuration")
        elif in_config and " = " in line:
            _config(line, tally, number)
        elif is_header(line):
            finish()
            table, in_config = SlurmTable.of_header(line), False
        elif table is not None and table.add(line, number, answers.of, answers.lines, zone):
            continue
        elif not answers.is_empty(line) and not in_config:
            tally.add("line of no answer that is known", number)
    finish()


def _lines(blocks: Iterator[tuple[int, list[bytes]]]) -> Iterator[tuple[int, str]]:
    for first, lines in blocks:
        for number, raw in enumerate(lines, first):
            line = raw.decode("utf-8", errors="replace").rstrip("\r")
            if line.strip():
                yield number, line


def _config(line: str, tally: Tally, number: int) -> None:
    key, _, value = line.partition(" = ")
    if key.strip() == "AccountingStorageTRES" and "gres/gpu" not in {v.strip() for v in value.split(",")}:
        tally.add(
            "AccountingStorageTRES has no gres/gpu: add it in slurm.conf, or jobs are accounted without their GPUs",
            number,
            code="gpus_not_tracked",
        )
