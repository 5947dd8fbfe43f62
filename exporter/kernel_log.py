"""XIDs from the kernel's log, for cards whose XIDs the driver tells nobody as events.

The driver writes ``NVRM: Xid (PCI:0000:9b:00): 79, pid=…``, with ``GPU-I:05`` behind the address where a MIG instance
is meant, and ``NVRM: GPU at PCI:0000:9b:00: GPU-5096…`` before a card's first.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from exporter.devices import XidEvent
from exporter.identity import Identities, pci_name
from exporter.xid import HIGHEST_CODE

UNLISTED_CARD: Final = "pci:"
"""Begins the UUID of an event of a card that the driver is bound to and that is known by its PCI address alone."""

# An event that the driver told as such is on the log too, and is read there up to some passes later.
_HEARD_SECONDS: Final = 120.0
_BEGINS: Final = "NVRM: Xid ("
_ADDRESS: Final = r"(?:PCI:)?(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
# The driver writes a comma behind every code: a code without one was cut.
_XID: Final = re.compile(
    rf"NVRM: Xid \({_ADDRESS}(?: GPU-I:(?P<instance>\d{{1,2}}))?(?: GPU-CI:\d{{1,2}})?\): (?P<code>\d{{1,4}}),"
)
_NAME: Final = re.compile(
    rf"NVRM: GPU at {_ADDRESS}: (?P<uuid>GPU-[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}})(?![\w-])"
)


@dataclass(frozen=True, slots=True)
class LoggedXid:
    """An XID as a line has it; ``address`` is the card's PCI address with its function."""

    address: str
    code: int
    instance: str | None = None


def parse_xid(line: str) -> LoggedXid | None:
    """The XID that a line of the kernel's log tells; None: none, or a damaged one."""
    match = _XID.search(line)
    if match is None or not 1 <= int(match["code"]) <= HIGHEST_CODE:
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
    """Turns new lines into events of the cards whose XIDs the backend doesn't hear.

    Args:
        lines: the log's.
        bound: PCI addresses of the cards that the kernel driver has, those that the driver library lost included.
    """

    def __init__(
        self,
        lines: Lines,
        *,
        bound: Callable[[], Iterable[str]] = frozenset,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines, self._bound, self._clock = lines, bound, clock
        self._rejected: Counter[str] = Counter()
        self._uuids: dict[str, str] = {}
        self._heard_at: dict[str, float] = {}

    def read(self, identities: Identities, heard: Iterable[str]) -> Iterator[XidEvent]:
        """Events since the last call, without those of cards in ``heard`` (UUIDs). Raises SourceError at their end."""
        now = self._clock()
        self._heard_at.update(dict.fromkeys(heard, now))
        for line in self._lines.read():
            if match := _NAME.search(line):
                self._uuids[_address(match["address"])] = match["uuid"].lower().replace("gpu-", "GPU-", 1)
                continue
            event = self._event(line, identities) if _BEGINS in line else None
            if event is not None and now - self._heard_at.get(event.uuid, float("-inf")) > _HEARD_SECONDS:
                yield event

    def rejected(self) -> dict[str, int]:
        """How many lines told no XID of a card of this node, by reason."""
        return dict(self._rejected)

    def _event(self, line: str, identities: Identities) -> XidEvent | None:
        """What a line tells; a damaged one makes neither a card nor a code that there isn't."""
        xid = parse_xid(line)
        if xid is None:
            self._rejected["damaged_line"] += 1
            return None
        uuid = self._uuid(xid.address, identities)
        if uuid is None:
            self._rejected["unknown_card"] += 1
            return None
        return XidEvent(uuid, xid.code, xid.instance)

    def _uuid(self, address: str, identities: Identities) -> str | None:
        target = identities.resolve(address)
        if target is not None:
            return target.uuid
        if pci_name(address) not in map(pci_name, self._bound()):
            return None
        return self._uuids.get(address, UNLISTED_CARD + address)

    def close(self) -> None:
        """Release the log."""
        self._lines.close()


def _address(text: str) -> str:
    """The driver leaves the function out, which is 0 on every GPU."""
    return text.lower() if "." in text else f"{text.lower()}.0"
