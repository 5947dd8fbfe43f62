"""What a source may say at most: beyond it stands a mistake, which would otherwise take all memory further on."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""Times are in [EARLIEST, LATEST). Seconds read as ms lie in 1970. An end from LATEST on (9999-12-31) is how databases
write "never"."""
EARLIEST_MS: Final = int(EARLIEST.timestamp()) * 1000
LATEST_MS: Final = int(LATEST.timestamp()) * 1000
MAX_GPUS: Final = 65536
"""Of one row: more than any job or node has."""
GPU_STEP: Final = Decimal("1e-9")
"""Finest part of a GPU. A count with more decimals (a seventh, written out) is cut to it: never rounded up, so that
seven sevenths are no more than a card."""
