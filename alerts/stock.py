"""What the inventory says of the fleet beyond what is measured: time slices, racks, power budgets, how many cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.errors import SourceError
from pipelines.config import Config
from pipelines.sources.csv_rows import csv_rows
from pipelines.sources.tally import Tally


@dataclass(frozen=True, slots=True)
class Stock:
    """Inventory facts by card UUID or node name; what the inventory leaves out is not there.

    Args:
        slots: time slices of a card, by UUID.
        racks: rack of a node (inventory column ``rack``).
        power_watts: power granted to the cards of a node (column ``power_watts``, of each row's GPUs).
        expected: cards of a node whose rows have no start and no end.
    """

    slots: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)
    power_watts: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)


def read_stock(config: Config) -> Stock:
    """The facts of every inventory source.

    Raises:
        SourceError: an inventory can't be read, or a number in it is none.
    """
    slots: dict[str, int] = {}
    racks: dict[str, str] = {}
    power: dict[str, int] = {}
    expected: dict[str, int] = {}
    for where, row in _rows(config):
        node, gpus = row["node"], _whole(row.get("gpus", ""), where) or 1
        if row.get("slots") and row.get("device"):
            slots[row["device"]] = _whole(row["slots"], where)
        if node and row.get("rack"):
            racks[node] = row["rack"]
        if node and row.get("power_watts"):
            power[node] = power.get(node, 0) + gpus * _whole(row["power_watts"], where)
        if node and not row.get("from") and not row.get("to"):
            expected[node] = expected.get(node, 0) + gpus
    return Stock(slots, racks, power, expected)


def _rows(config: Config) -> Iterator[tuple[str, dict[str, str]]]:
    for source in config.sources:
        if source.kind == "inventory":
            for number, row in csv_rows(source.path, Tally(source.written), required=("node",)):
                yield f"{source.written}:{number}", row


def _whole(text: str, where: str) -> int:
    if text and not (text.isascii() and text.isdecimal()):
        raise SourceError(where, f"{text!r} is no whole number", "write slots, gpus and power_watts as whole numbers")
    return int(text or 0)
