"""Source `allocations`: a CSV file of who holds what, kept by people or another scheduler → records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from exporter.errors import UsageError
from pipelines.periods import parse_time
from pipelines.sources.bounds import EARLIEST, GPU_STEP, LATEST, MAX_GPUS
from pipelines.sources.csv_rows import BadRowError, csv_rows
from pipelines.sources.identity import split_uuid
from pipelines.sources.tally import Tally
from pipelines.tables import RECORD, Batch

CLASSES: Final = ("reserved", "on_demand", "overflow", "spot", "down", "repair")


UNNAMED: Final = "unknown"  # the workload of a row that names neither a workload nor a tenant


def read_allocations(path: Path, *, cluster: str | None, zone: ZoneInfo, name: str | None = None) -> Batch:
    """One record per row ``start,end,gpus,device,model,tenant,workload,class``; blank is unknown.

    A row with a device and no count is of one GPU. An end that is blank or after 2099 is of an allocation that still
    runs. A column ``cluster`` goes before the source's. Bad rows are counted and left out.

    Args:
        cluster: of rows that don't say; None: any.
        zone: of times without an offset.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, or has no columns start and end.
    """
    tally = Tally(name or path.name)
    records = []
    for number, row in csv_rows(path, tally, required=("start", "end")):
        try:
            record = _record(row, cluster, zone)
        except BadRowError as error:
            tally.add(str(error), number)
            continue
        if record["start"] != record["end"]:
            records.append(record)
    table = pl.DataFrame(records, schema=RECORD) if records else pl.DataFrame(schema=RECORD)
    return Batch(records=table, findings=tally.findings())


def _record(row: Mapping[str, str], cluster: str | None, zone: ZoneInfo) -> dict[str, object]:
    start, end = _span(row["start"], row["end"], zone)
    card, instance = split_uuid(row.get("device"))
    device = f"{card}/{instance}" if card and instance else card
    class_ = row.get("class", "").lower()
    if class_ and class_ not in CLASSES:
        raise BadRowError(f"row whose class is none of {', '.join(CLASSES)}")
    workload = row.get("workload") or row.get("tenant") or UNNAMED
    return {
        "kind": "allocations",
        "cluster": row.get("cluster") or cluster,
        "workload": workload,
        "labelled_as": workload,
        "user": row.get("user") or None,
        "tenant": row.get("tenant") or None,
        "class": class_ or None,
        "start": start,
        "end": end,
        "ended": end is not None,
        "gpus": _gpus(row.get("gpus", ""), device),
        "device": device,
        "model": row.get("model") or None,
        "nodes": [row["node"]] if row.get("node") else [],
        "slurm_account": None,
        "slurm_partition": None,
        "slurm_qos": None,
        "slurm_user": None,
    }


def _span(start: str, end: str, zone: ZoneInfo) -> tuple[datetime, datetime | None]:
    try:
        begins = parse_time(start, zone)
        ends = parse_time(end, zone) if end else None
    except UsageError:
        raise BadRowError("row whose start or end is no ISO 8601 time") from None
    if ends is not None and ends >= LATEST:
        ends = None
    if not EARLIEST <= begins < LATEST:
        raise BadRowError("row whose start is before 2000 or after 2099")
    if ends is not None and ends < begins:
        # In an hour that the clock repeats, an end before the start is the second of its name.
        ends = _second_of_its_name(end, zone)
        if ends < begins:
            raise BadRowError("row that ends before it starts")
    return begins, ends


def _second_of_its_name(text: str, zone: ZoneInfo) -> datetime:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=zone, fold=1)).astimezone(UTC)


def _gpus(text: str, device: str | None) -> str:
    """The count as an exact decimal."""
    if not text:
        if device is None:
            raise BadRowError("row without a device and without a count of gpus")
        return "1"
    try:
        count = Decimal(text)
    except InvalidOperation:
        count = Decimal(0)
    if not count.is_finite() or count <= 0 or "_" in text:
        raise BadRowError("row whose gpus is no positive decimal")
    if count > MAX_GPUS:
        raise BadRowError(f"row of more than {MAX_GPUS} gpus")
    count = count.quantize(GPU_STEP, ROUND_FLOOR)
    if not count:
        raise BadRowError("row of less than a billionth of a GPU")
    if device is not None and count > 1:
        raise BadRowError("row of more than one GPU on one named device")
    return format(count.normalize(), "f")
