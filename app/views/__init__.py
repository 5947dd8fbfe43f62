"""The pages, in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.views import allocations, bottlenecks, cost, coverage, health, idle, overview, statements


@dataclass(frozen=True)
class Page:
    """An entry of the menu.

    Attributes:
        show: draws the page.
        of_fleet: only for those who see the whole fleet.
        also: other paths, which dashboards link to.
    """

    title: str
    icon: str
    path: str
    show: Callable[[], None]
    of_fleet: bool = False
    also: tuple[str, ...] = ()


PAGES: Final = (
    Page("Overview", ":material/dashboard:", "overview", overview.show, also=("tenant", "energy")),
    Page("Cost", ":material/payments:", "cost", cost.show, also=("job",)),
    Page("Idle and reclaimable", ":material/bedtime:", "idle", idle.show, also=("waste",)),
    Page("Bottlenecks", ":material/speed:", "bottlenecks", bottlenecks.show, also=("efficiency",)),
    Page("Allocations", ":material/view_timeline:", "allocations", allocations.show, also=("capacity",)),
    Page("Statements", ":material/receipt_long:", "statements", statements.show),
    Page("Health", ":material/ecg_heart:", "health", health.show, of_fleet=True),
    Page("Data", ":material/fact_check:", "data", coverage.show, also=("quality",)),
)
