"""What was found idle: one item per cause and whatever has to move to free it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipelines.idle.causes import BY_ID


@dataclass(frozen=True)
class Item:
    """Idle capacity of one cause: a node's, a reservation's or a workload's.

    Attributes:
        subject: what has to move: the node, the reservation or the workload.
        owner: tenant who pays for it, or whom its node is dedicated to; None: nobody in particular.
        worth: at the on-demand price, before rounding; None: no price is known.
        first, last: of it within the period, in ms.
        since: start of what still goes on at the period's end; None: it is over.
        gpus: how many GPUs it is about now, else at most.
        evidence: what it was told by, by name.
    """

    cause: str
    subject: str
    cluster: str | None
    owner: str | None
    user: str | None
    node: str | None
    model: str | None
    gpu_hours: Fraction
    worth: Fraction | None
    first: int
    last: int
    since: int | None
    gpus: int
    evidence: dict[str, Any] = field(default_factory=dict)
    money: Decimal | None = None

    @property
    def remedy(self) -> str:
        """What would free it."""
        return BY_ID[self.cause].remedy
