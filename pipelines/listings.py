"""What schedulers list of their nodes, time after time → the inventory with its history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import polars as pl

from pipelines.tables import INVENTORY

_Entry = tuple[Any, ...]
_COLUMNS: Final = ("node", "model", "gpus", "devices", "slots")


def with_listings(inventory: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Add what schedulers list to an inventory that is kept by hand; of a node that stands in both the latter counts.

    Args:
        inventory: INVENTORY.
        nodes: ``facts.NODE``: the answers of every time that a scheduler was asked.

    Returns:
        INVENTORY. A node exists from the first answer that lists it to the first one that no longer does; before a
        cluster's first answer it is as in that, after its last as in the last.
    """
    if nodes.is_empty():
        return inventory
    kept = set(inventory["node"].drop_nulls().to_list())
    rows = [
        row
        for (cluster,), answers in sorted(nodes.group_by("cluster"), key=lambda group: str(group[0]))
        for row in _history(str(cluster), answers)
        if row[1] not in kept
    ]
    listed = pl.DataFrame(rows, schema=INVENTORY, orient="row")
    return pl.concat([inventory, listed])


def _history(cluster: str, answers: pl.DataFrame) -> Iterator[_Entry]:
    """Yield INVENTORY rows of one cluster."""
    dated = answers.filter(pl.col("observed").is_not_null())
    if dated.is_empty():
        dated = answers  # nobody says when: it is so throughout
    times: list[datetime | None] = dated["observed"].unique().sort().to_list()
    lists: dict[datetime | None, set[_Entry]] = {
        time: {_entry(row) for row in rows.select(_COLUMNS).iter_rows()} for (time,), rows in dated.group_by("observed")
    }
    bounds: list[datetime | None] = [None, *times[1:], None]
    standing: dict[_Entry, datetime | None] = {}
    for time, (begins, _) in zip(times, pairwise(bounds), strict=True):
        for entry in sorted(set(standing) - lists[time], key=str):
            yield from _rows(cluster, entry, standing.pop(entry), begins)
        for entry in lists[time] - set(standing):
            standing[entry] = begins
    for entry in sorted(standing, key=str):
        yield from _rows(cluster, entry, standing[entry], None)


def _entry(row: _Entry) -> _Entry:
    node, model, gpus, devices, slots = row
    return node, model, gpus, tuple(devices or ()), slots


def _rows(cluster: str, entry: _Entry, begins: datetime | None, ends: datetime | None) -> Iterator[_Entry]:
    node, model, gpus, devices, slots = entry
    for device in devices or (None,):
        yield cluster, node, device, model, 1 if device else gpus, slots, None, begins, ends
