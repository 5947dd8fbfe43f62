"""The pages, in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.views import allocations, cost, coverage, health, idle, overview

PAGES: Final[tuple[tuple[str, str, str, Callable[[], None]], ...]] = (
    ("Overview", ":material/dashboard:", "overview", overview.show),
    ("Cost", ":material/payments:", "cost", cost.show),
    ("Idle and reclaimable", ":material/bedtime:", "idle", idle.show),
    ("Allocations", ":material/view_timeline:", "allocations", allocations.show),
    ("Health", ":material/ecg_heart:", "health", health.show),
    ("Data", ":material/fact_check:", "data", coverage.show),
)
"""Title, icon, path and what draws it."""
