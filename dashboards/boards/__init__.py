"""Every board, in the order in which people need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dashboards.board import Board, Context
from dashboards.boards.fleet import fleet

__all__ = ["BOARDS"]

BOARDS: Final[tuple[Callable[[Context], Board], ...]] = (fleet,)
