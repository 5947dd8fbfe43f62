"""XIDs from the kernel's log, for cards whose XIDs the driver tells nobody as events.

The driver writes ``NVRM: Xid (PCI:0000:9b:00): 79, pid=…``, with ``GPU-I:05`` behind the address where a MIG instance
is meant, and ``NVRM: GPU at PCI:0000:9b:00: GPU-5096…`` before a card's first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from exporter.devices import XidEvent
from exporter.identity import Identities

UNKNOWN_CARD: Final = "pci:"
"""Begins the UUID of an event of a card that nobody knows but by its PCI address."""

# An event that the driver told as such is on the log too, and is read there up to some passes later.
_HEARD_SECONDS: Final = 120.0
_XID: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9A-Fa-f.:]+)(?: GPU-I:(?P<instance>\d+))?[^)]*\): (?P<code>\d+)"
)
_NAME: Final = re.compile(r"NVRM: GPU at (?:PCI:)?(?P<address>[0-9A-Fa-f.:]+): (?P<uuid>GPU-[0-9A-Fa-f-]{36})")


@dataclass(frozen=True, slots=True)
class LoggedXid:
    """An XID as a line has it; ``address`` is the card's PCI address with its function."""

    address: str
    code: int
    instance: str | None = None


def parse_xid(line: str) -> LoggedXid | None:
    """The XID that a line of the kernel's log tells, if any."""
    match = _XID.search(line)
    if match is None:
        return None
    instance = match["instance"]
    return LoggedXid(_address(match["address"]), int(match["code"]), None if instance is None else str(int(instance)))


class Lines(Protocol):
    """Where lines come from."""

    def read(self) -> Iterable[str]:
        """The lines that were written since the last call, or since the start; may block. Raises SourceError."""

    def close(self) -> None:
        """Release what is held."""


class KernelLog:
    """Turns new lines into events of the cards whose XIDs the backend doesn't hear."""

    def __init__(self, lines: Lines, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines, self._clock = lines, clock
        self._uuids: dict[str, str] = {}
        self._heard_at: dict[str, float] = {}

    def read(self, identities: Identities, heard: Iterable[str]) -> list[XidEvent]:
        """Events since the last call, without those of cards in ``heard`` (UUIDs). Raises SourceError."""
        now = self._clock()
        self._heard_at.update(dict.fromkeys(heard, now))
        events = []
        for line in self._lines.read():
            if match := _NAME.search(line):
                self._uuids[_address(match["address"])] = match["uuid"].lower().replace("gpu-", "GPU-", 1)
            elif (xid := parse_xid(line)) is not None:
                uuid = self._uuid(xid.address, identities)
                if now - self._heard_at.get(uuid, float("-inf")) > _HEARD_SECONDS:
                    events.append(XidEvent(uuid, xid.code, xid.instance))
        return events

    def _uuid(self, address: str, identities: Identities) -> str:
        target = identities.resolve(address)
        return target.uuid if target else self._uuids.get(address, UNKNOWN_CARD + address)

    def close(self) -> None:
        """Release the log."""
        self._lines.close()


def _address(text: str) -> str:
    """The driver leaves the function out, which is 0 on every GPU."""
    return text.lower() if "." in text else f"{text.lower()}.0"
