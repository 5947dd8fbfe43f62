"""What the sampler knows after a pass: the state of the node at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from exporter.devices import Device
from exporter.owners.shares import Conflict, Share
from exporter.xid import XidTally


@dataclass(frozen=True, slots=True)
class CardState:
    """One card that was ever seen.

    Args:
        state: "up", "lost" (doesn't answer), "missing" (not listed), "stalled" (a call hangs).
        sampled_at: monotonic time of its last good reading; None: never.
        values, instance_values: that reading, empty once it is older than three intervals.
    """

    device: Device
    state: str
    sampled_at: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    instance_values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    capabilities: Mapping[str, bool] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether the card answered in this pass."""
        return self.state == "up"


@dataclass(frozen=True, slots=True)
class AdapterState:
    """How an owner adapter did."""

    name: str
    up: bool
    unresolved: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The node after one pass; ``at`` is when it ended, in Unix seconds; no kernel log is read if its state is None."""

    node: str
    backend: str
    backend_up: bool
    driver_version: str
    cards: Sequence[CardState]
    expected: int
    shares: Sequence[Share] = ()
    conflicts: Sequence[Conflict] = ()
    adapters: Sequence[AdapterState] = ()
    xids: Mapping[tuple[str, str | None, int], XidTally] = field(default_factory=dict)
    rejected: Mapping[tuple[str, str], int] = field(default_factory=dict)
    passes: int = 0
    failed_passes: int = 0
    stalled: int = 0
    pass_seconds: float = 0.0
    good: bool = False
    restart_needed: bool = False
    at: float = 0.0
    kernel_log_up: bool | None = None

    @property
    def present(self) -> int:
        """How many cards the driver lists."""
        return sum(card.state != "missing" for card in self.cards)
