"""Source `calendar`: a CSV file of maintenance and repairs, kept by people → conditions of nodes and devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from exporter.errors import UsageError
from pipelines.facts import rows_of
from pipelines.periods import parse_time
from pipelines.sources.csv_rows import BadRowError, csv_rows
from pipelines.sources.identity import split_uuid
from pipelines.sources.tally import Tally
from pipelines.tables import Batch

STATES: Final = ("degraded", "down", "repair")


def read_calendar(path: Path, *, cluster: str | None, zone: ZoneInfo, name: str | None = None) -> Batch:
    """One condition per row ``node,device,state,reason,from,to``.

    A blank device is the whole node, a blank state is repair. A blank ``to`` is of what still goes on. A column
    ``cluster`` goes before the source's. Bad rows are counted and left out.

    Args:
        cluster: of rows that don't say; None: any.
        zone: of times without an offset.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, or has no columns node and from.
    """
    tally = Tally(name or path.name)
    rows = []
    for number, row in csv_rows(path, tally, required=("node", "from")):
        try:
            rows.append(_condition(row, cluster, zone))
        except BadRowError as error:
            tally.add(str(error), number)
    return Batch(facts=rows_of("condition", rows), findings=tally.findings())


def _condition(row: Mapping[str, str], cluster: str | None, zone: ZoneInfo) -> dict[str, object]:
    device, _ = split_uuid(row.get("device"))
    state = row.get("state", "").lower() or "repair"
    if state not in STATES:
        raise BadRowError(f"row whose state is none of {', '.join(STATES)}")
    if not row["node"] and device is None:
        raise BadRowError("row without a node and without a device")
    try:
        begins = parse_time(row["from"], zone)
        ends = parse_time(row["to"], zone) if row.get("to") else None
    except UsageError:
        raise BadRowError("row whose from or to is no ISO 8601 time") from None
    if ends is not None and ends <= begins:
        raise BadRowError("row whose to is not after its from")
    return {
        "cluster": row.get("cluster") or cluster,
        "node": row["node"] or None,
        "device": device,
        "state": state,
        "reason": row.get("reason") or "maintenance",
        "source": "calendar",
        "from": begins,
        "to": ends,
        "observed": None,
    }
