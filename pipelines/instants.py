"""Times inside the stages are whole ms since the epoch, UTC; this is the one way in and out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def to_ms(t: datetime) -> int:
    """Return an aware time as ms since the epoch."""
    return (t - EPOCH) // timedelta(milliseconds=1)


def from_ms(t: int) -> datetime:
    """Return ms since the epoch as a UTC time."""
    return EPOCH + timedelta(milliseconds=t)
