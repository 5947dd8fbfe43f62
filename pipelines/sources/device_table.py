"""Which card a node's minor number is: by the exporter's own table, or a CSV of it.

Slurm's IDX is the number of /dev/nvidiaN, which is neither NVML's index nor the order in nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pipelines.sources.csv_rows import csv_rows
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.identity import split_uuid
from pipelines.sources.labels import BadSeriesError, parse_series
from pipelines.sources.tally import Tally

_SERIES: Final = b"gpuledger_device_info{"


class DeviceTable:
    """UUIDs of cards by node and minor number. A node is known by its host name, with or without its domain."""

    def __init__(self, rows: Iterable[tuple[str, int, str]] = ()) -> None:
        self._cards: dict[str, dict[int, str]] = {}
        for node, minor, device in rows:
            self._cards.setdefault(node, {})[minor] = device
            self._cards.setdefault(node.partition(".")[0], {}).setdefault(minor, device)

    def card(self, node: str, minor: int) -> str | None:
        """The UUID of a card; None: not known."""
        return self.of(node).get(minor)

    def of(self, node: str) -> Mapping[int, str]:
        """The node's cards by minor number."""
        return self._cards.get(node) or self._cards.get(node.partition(".")[0]) or {}


def read_device_table(path: Path, tally: Tally) -> DeviceTable:
    """Read a CSV ``node,minor,device``, or exposition text with the exporter's ``gpuledger_device_info``.

    Raises:
        SourceError: the file can't be read, or is neither.
    """
    with open_source(path) as stream:
        lines = [line for _, block in line_blocks(stream, Tally(path.name)) for line in block]
    if any(line.startswith(_SERIES) for line in lines):
        return DeviceTable(_of_series(lines, tally))
    rows = []
    for number, row in csv_rows(path, tally, required=("node", "minor", "device")):
        device, _ = split_uuid(row["device"])
        if device is None or not row["minor"].isdecimal() or len(row["minor"]) > 4 or not row["node"]:
            tally.add("device table: row without node, minor number and UUID", number)
            continue
        rows.append((row["node"], int(row["minor"]), device))
    return DeviceTable(rows)


def _of_series(lines: Iterable[bytes], tally: Tally) -> Iterable[tuple[str, int, str]]:
    for number, line in enumerate(lines, 1):
        if not line.startswith(_SERIES):
            continue
        try:
            _, labels, _ = parse_series(line)
        except BadSeriesError as error:
            tally.add(f"device table: {error}", number)
            continue
        minor, node, uuid = labels.get("minor", ""), labels.get("node", ""), labels.get("uuid", "")
        if minor.isdecimal() and node and uuid:
            yield node, int(minor), uuid
