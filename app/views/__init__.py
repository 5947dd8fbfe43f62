"""The pages, in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.views import cost, overview

PAGES: Final[tuple[tuple[str, str, str, Callable[[], None]], ...]] = (
    ("Overview", ":material/dashboard:", "overview", overview.show),
    ("Cost", ":material/payments:", "cost", cost.show),
)
"""Title, icon, path and what draws it."""
