"""NVIDIA's XID catalogue: what each code asks for, and the counters of what happened.

Source: NVIDIA, "XID Errors" (GPU deployment and management documentation), column "immediate action".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from exporter.devices import XidEvent

_CLASSES: Final[dict[str, tuple[int, ...]]] = {
    "restart_node": (79,),
    "reset_gpu": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "workflow": (45, 48, 74, 144, 145, 146, 147, 148, 149, 150),
    "application": (13, 31, 32, 68, 69, 94),
    "informational": (43, 63, 92, 121, 154),
}
HIGHEST_CODE: Final = 999
"""NVIDIA's catalogue ends below 200; a code above this is a line or a record that was damaged."""

_MOST_RECENT: Final = 10_000
_CLASS_OF: Final = {code: name for name, codes in _CLASSES.items() for code in codes}


def xid_class(code: int) -> str:
    """What an XID asks for: "restart_node", "reset_gpu", "workflow", "application", "informational" or "other"."""
    return _CLASS_OF.get(code, "other")


@dataclass(slots=True)
class XidTally:
    """How often one code came on one device or instance, and when last (Unix seconds)."""

    count: int = 0
    last_time: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))

    def add(self, at: float) -> None:
        """Count one more."""
        self.count += 1
        self.last_time = at
        self.recent.append(at)

    def count_since(self, at: float) -> int:
        """How often it came after a time, of the last ten thousand times."""
        return sum(time > at for time in self.recent)


class XidCounters:
    """Counts XIDs per device, instance and code since the exporter started; events come from threads of their own."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str | None, int], XidTally] = {}
        self._last_code: dict[str, int] = {}
        self._rejected = 0
        self._lock = threading.Lock()

    def record(self, events: Iterable[XidEvent], now: float) -> None:
        """Count events that arrived at ``now`` (Unix seconds); codes that there can't be are rejected."""
        with self._lock:
            for event in events:
                if not 1 <= event.code <= HIGHEST_CODE:
                    self._rejected += 1
                    continue
                self._tallies.setdefault((event.uuid, event.instance, event.code), XidTally()).add(now)
                self._last_code[event.uuid] = event.code

    def tallies(self) -> dict[tuple[str, str | None, int], XidTally]:
        """The counts now, by UUID, instance and code; they don't change any more."""
        with self._lock:
            return {key: replace(tally, recent=tally.recent.copy()) for key, tally in self._tallies.items()}

    def rejected(self) -> int:
        """How many events had a code that there can't be."""
        return self._rejected

    def last_code(self, uuid: str) -> int:
        """The code that came last on a card; 0: none."""
        return self._last_code.get(uuid, 0)
