"""Counters that wrap, made into counters that don't."""

from __future__ import annotations


class Unwrapper:
    """Follows one raw counter of the driver and returns a total that only falls when the driver restarts.

    A 32-bit byte counter can wrap several times between two readings; where the rate is known from elsewhere
    (``expected``), the number of wraps is the one that comes nearest to it.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._total = 0

    def feed(self, raw: int, *, bits: int, expected: float | None = None) -> int:
        """The total after a reading of ``raw``; ``expected`` is the increase to be expected since the last one."""
        if self._last is None:
            self._total = raw
        elif bits >= 64:
            # 64 bits never wrap in practice: a smaller value means that the driver was loaded again.
            self._total = self._total + raw - self._last if raw >= self._last else raw
        else:
            size = 1 << bits
            increase = (raw - self._last) % size
            if expected is not None and expected > increase:
                increase += round((expected - increase) / size) * size
            self._total += increase
        self._last = raw
        return self._total
