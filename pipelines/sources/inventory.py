"""Source `inventory`: a CSV file of what exists, seen or not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl

from exporter.errors import UsageError
from pipelines.periods import parse_time
from pipelines.sources.bounds import MAX_GPUS
from pipelines.sources.csv_rows import BadRowError, csv_rows
from pipelines.sources.identity import split_uuid
from pipelines.sources.tally import Tally
from pipelines.tables import INVENTORY, Batch


def read_inventory(path: Path, *, cluster: str | None, zone: ZoneInfo, name: str | None = None) -> Batch:
    """One inventory row per row ``node,device,model,gpus,slots,owner,from,to``; blank is unknown.

    A row with a device is of one GPU; one without says how many cards the node has. A column ``cluster`` goes
    before the source's. Bad rows are counted and left out.

    Args:
        cluster: of rows that don't say; None: any.
        zone: of times without an offset.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, or has no column node.
    """
    tally = Tally(name or path.name)
    rows = []
    for number, row in csv_rows(path, tally, required=("node",)):
        try:
            entry = _entry(row, cluster, zone)
        except BadRowError as error:
            tally.add(str(error), number)
            continue
        if entry["gpus"]:
            rows.append(entry)
    table = pl.DataFrame(rows, schema=INVENTORY) if rows else pl.DataFrame(schema=INVENTORY)
    return Batch(inventory=table, findings=tally.findings())


def _entry(row: Mapping[str, str], cluster: str | None, zone: ZoneInfo) -> dict[str, object]:
    device, _ = split_uuid(row.get("device"))
    gpus = _count(row.get("gpus", ""), "gpus")
    slots = _count(row.get("slots", ""), "slots")
    if device is None and gpus is None:
        raise BadRowError("row without a device and without a count of gpus")
    if device is None and not row["node"]:
        raise BadRowError("row without a device and without a node")
    if device is not None and gpus not in (None, 1):
        raise BadRowError("row of other than one GPU for one named device")
    if slots == 0:
        raise BadRowError("row of 0 slots")
    begins, ends = _time(row.get("from", ""), zone), _time(row.get("to", ""), zone)
    if begins is not None and ends is not None and ends <= begins:
        raise BadRowError("row whose to is not after its from")
    return {
        "cluster": row.get("cluster") or cluster,
        "node": row["node"] or None,
        "device": device,
        "model": row.get("model") or None,
        "gpus": 1 if gpus is None else gpus,
        "slots": slots,
        "owner": row.get("owner") or None,
        "from": begins,
        "to": ends,
    }


def _count(text: str, column: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRowError(f"row whose {column} is no whole number")
    count = int(text)
    if count > MAX_GPUS:
        raise BadRowError(f"row whose {column} is over {MAX_GPUS}")
    return count


def _time(text: str, zone: ZoneInfo) -> datetime | None:
    if not text:
        return None
    try:
        return parse_time(text, zone)
    except UsageError:
        raise BadRowError("row whose from or to is no ISO 8601 time") from None
