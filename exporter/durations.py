"""Times as people write them: 15s, 500ms, 1m."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def parse_seconds(text: str) -> float:
    """Seconds in a text like 15s, 500ms, 1m or 15. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text.strip())
    if not match:
        raise ValueError(f"{text!r} is no time; write 15s, 500ms or 1m")
    return float(match[1]) * _UNITS[match[2]]
