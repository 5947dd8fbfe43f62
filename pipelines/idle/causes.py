"""Why a GPU-hour was not used, and what would free it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class IdleCause:
    """One cause.

    Attributes:
        id: what JSON holds.
        title: for people.
        state: where the report counts its hours; "allocated" where somebody holds it.
        remedy: what would free it.
    """

    id: str
    title: str
    state: str
    remedy: str


IDLE_CAUSES: Final[tuple[IdleCause, ...]] = (
    IdleCause(
        "held_idle",
        "Held and idle",
        "allocated",
        "end the job or notebook, or let it end itself when idle; ask for as many GPUs as the program uses",
    ),
    IdleCause(
        "held_barely_used",
        "Held and barely used",
        "allocated",
        "look at the job's bottleneck (`gpuledger job ID`); a MIG instance or a smaller card, or several on one card",
    ),
    IdleCause(
        "reserved_unused",
        "Reserved and not used",
        "idle",
        "lower or end the reservation, or lend its GPUs out while they are free",
    ),
    IdleCause(
        "fragmented",
        "Stranded by fragmentation",
        "idle",
        "pack small jobs onto fewer nodes (the scheduler's packing or least-loaded-last policy), or move the holders",
    ),
    IdleCause(
        "unallocated",
        "Unallocated",
        "idle",
        "offer it (spot, backfill, a longer queue limit), switch nodes off, or buy less",
    ),
    IdleCause(
        "stranded",
        "Stranded by MIG layout",
        "stranded",
        "cut the card so that its instances fill it (4g + 3g, 7 × 1g), or turn MIG off where nobody asks for it",
    ),
    IdleCause(
        "down",
        "Down",
        "down",
        "repair or replace it; restart its node where nothing else is wrong",
    ),
)
"""In the order in which summaries list them."""

BY_ID: Final = {cause.id: cause for cause in IDLE_CAUSES}
HELD: Final = frozenset(cause.id for cause in IDLE_CAUSES if cause.state == "allocated")
