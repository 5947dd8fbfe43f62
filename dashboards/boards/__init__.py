"""Every board, in the order in which people need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dashboards.board import Board, Context
from dashboards.boards.capacity import capacity
from dashboards.boards.cost import cost
from dashboards.boards.energy import energy
from dashboards.boards.fleet import fleet
from dashboards.boards.health import health
from dashboards.boards.idle import idle
from dashboards.boards.node import node
from dashboards.boards.stack import stack
from dashboards.boards.tenant import tenant
from dashboards.boards.workload import workload

__all__ = ["BOARDS"]

BOARDS: Final[tuple[Callable[[Context], Board], ...]] = (
    fleet, node, health, energy, capacity, stack, tenant, workload, idle, cost,
)  # fmt: skip
