"""The pages, in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.views import allocations, cost, coverage, health, idle, overview, statements


@dataclass(frozen=True)
class Page:
    """An entry of the menu.

    Attributes:
        show: draws the page.
        of_fleet: only for those who see the whole fleet.
    """

    title: str
    icon: str
    path: str
    show: Callable[[], None]
    of_fleet: bool = False


PAGES: Final = (
    Page("Overview", ":material/dashboard:", "overview", overview.show),
    Page("Cost", ":material/payments:", "cost", cost.show),
    Page("Idle and reclaimable", ":material/bedtime:", "idle", idle.show),
    Page("Allocations", ":material/view_timeline:", "allocations", allocations.show),
    Page("Statements", ":material/receipt_long:", "statements", statements.show),
    Page("Health", ":material/ecg_heart:", "health", health.show, of_fleet=True),
    Page("Data", ":material/fact_check:", "data", coverage.show),
)
