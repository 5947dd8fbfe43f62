"""NVIDIA's XID catalogue: what each code asks for, and the counters of what happened.

Source: NVIDIA, "XID Errors" (GPU deployment and management documentation), column "immediate action".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.devices import XidEvent

_CLASSES: Final[dict[str, tuple[int, ...]]] = {
    "restart_node": (79,),
    "reset_gpu": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "workflow": (45, 48, 74, 144, 145, 146, 147, 148, 149, 150),
    "application": (13, 31, 32, 68, 69, 94),
    "informational": (43, 63, 92, 121, 154),
}
_CLASS_OF: Final = {code: name for name, codes in _CLASSES.items() for code in codes}


def xid_class(code: int) -> str:
    """What an XID asks for: "restart_node", "reset_gpu", "workflow", "application", "informational" or "other"."""
    return _CLASS_OF.get(code, "other")


@dataclass(slots=True)
class XidTally:
    """How often one code came on one device or instance, and when last (Unix seconds)."""

    count: int = 0
    last_time: float = 0.0


class XidCounters:
    """Counts XIDs per device, instance and code since the exporter started."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str | None, int], XidTally] = {}
        self.last_code: dict[str, int] = {}

    def record(self, events: Iterable[XidEvent], now: float) -> None:
        """Count events that arrived at ``now`` (Unix seconds)."""
        for event in events:
            tally = self.tallies.setdefault((event.uuid, event.instance, event.code), XidTally())
            tally.count += 1
            tally.last_time = now
            self.last_code[event.uuid] = event.code
