"""Counters that wrap, made into counters that don't."""

from __future__ import annotations

from typing import Final

_NARROW: Final = 1 << 32


class Unwrapper:
    """Follows one raw counter of the driver and returns a total that only falls when the driver restarts.

    A 32-bit byte counter can wrap several times between two readings. How often it did is known where its rate is
    known from elsewhere, or where it can't have been fast enough for a second wrap. Else the total is unknown.

    Args:
        may_be_narrow: the driver documents that the counter wraps, so one that falls below 2**32 is a 32-bit counter,
            whatever type it is handed out in; of other 64-bit counters it is a reset.
    """

    def __init__(self, *, may_be_narrow: bool = False) -> None:
        self._may_be_narrow, self._seen_wide = may_be_narrow, False
        self.narrow = False
        self._last: int | None = None
        self._last_at = 0.0
        self._total = 0

    @property
    def begun(self) -> bool:
        """Whether there was a reading."""
        return self._last is not None

    def feed(
        self, raw: int, now: float, *, bits: int, rate: float | None = None, fastest: float | None = None
    ) -> int | None:
        """The total after a reading of ``raw`` at ``now`` (monotonic seconds); None if it may have wrapped unseen.

        Args:
            rate: mean increase a second since the reading before, where it is known.
            fastest: increase a second that it can't exceed.
        """
        if self._last is None:
            self.narrow = bits < 64
            self._total = raw
        else:
            increase = self._increase(raw, now - self._last_at, bits=bits, rate=rate, fastest=fastest)
            if increase is None:
                return None
            self._total = raw if increase < 0 else self._total + increase
        self._last, self._last_at = raw, now
        self._seen_wide = self._seen_wide or raw >= _NARROW
        return self._total

    def resume(self, raw: int, now: float) -> None:
        """Go on from here; what was counted since the last reading is left out."""
        self._last, self._last_at = raw, now

    def _increase(
        self, raw: int, elapsed: float, *, bits: int, rate: float | None, fastest: float | None
    ) -> int | None:
        """By how much the counter grew; -1: it was reset; None: unknown."""
        last = self._last or 0
        short = raw < last or (rate is not None and rate * elapsed - (raw - last) > _NARROW / 2)
        if bits < 64 or (short and self._may_be_narrow and not self._seen_wide):
            self.narrow = True
        if not self.narrow:
            # 64 bits never wrap in practice: a smaller value means that the driver was loaded again.
            return raw - last if raw >= last else -1
        increase = (raw - last) % _NARROW
        if rate is not None:
            missed = (rate * elapsed - increase) / _NARROW
            return increase + max(0, round(missed)) * _NARROW
        return increase if fastest is not None and fastest * elapsed < _NARROW else None
