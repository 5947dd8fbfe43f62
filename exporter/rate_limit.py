"""A limit on requests: one per interval, and a burst of some."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """A bucket of ``burst`` tokens that gets one more every ``interval_seconds``; a request takes one."""

    def __init__(self, interval_seconds: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._burst, self._clock = interval_seconds, burst, clock
        self._tokens, self._at = float(burst), clock()

    def allows(self) -> bool:
        """Whether a request may be answered now."""
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) / self._interval)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
