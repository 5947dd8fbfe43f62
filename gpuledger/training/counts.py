"""What a rank has counted so far: thread-safe, and a few hundred nanoseconds each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

MFU_SPACING_S: Final = 10.0
MFU_MARKS: Final = 31
"""Marks of FLOPs over time, so that MFU is of the last five minutes at most."""


class Counts:
    """Totals by key of `exporter.training_metrics`; a key that nothing was added to is unknown, not 0.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Begin anew, with a lock that nobody holds: a fork may have copied a held one."""
        self._lock = threading.Lock()
        self._totals: dict[str, float] = {}
        self._in_flight = 0
        self._since = 0.0
        self._marks: deque[tuple[float, float]] = deque([(self._clock(), 0.0)], maxlen=MFU_MARKS)

    def add(self, **amounts: float) -> None:
        """Add to several totals at once."""
        with self._lock:
            totals = self._totals
            for key, amount in amounts.items():
                totals[key] = totals.get(key, 0.0) + amount
            if "floating_point_operations" in amounts:
                self._mark()

    def begin(self) -> None:
        """Note that a collective took off."""
        with self._lock:
            if not self._in_flight:
                self._since = self._clock()
            self._in_flight += 1

    def end(self) -> None:
        """Note that a collective came back; time with several in flight counts once."""
        with self._lock:
            if self._in_flight:
                self._in_flight -= 1
                if not self._in_flight:
                    self._add("communication_seconds", self._clock() - self._since)

    def total(self, key: str) -> float:
        """Return one total; 0 where it is unknown."""
        return self._totals.get(key, 0.0)

    def totals(self) -> dict[str, float]:
        """Return all that is known, a collective in flight among it."""
        with self._lock:
            found = dict(self._totals)
            if self._in_flight:
                flying = self._clock() - self._since
                found["communication_seconds"] = found.get("communication_seconds", 0.0) + flying
        return found

    def flops_per_second(self) -> float | None:
        """Return the model FLOP/s of the last minutes; None: nothing says."""
        with self._lock:
            began, before = self._marks[0]
            seconds = self._clock() - began
            done = self._totals.get("floating_point_operations")
        return (done - before) / seconds if done is not None and seconds > 0 else None

    def _add(self, key: str, amount: float) -> None:
        self._totals[key] = self._totals.get(key, 0.0) + amount

    def _mark(self) -> None:
        now = self._clock()
        if now - self._marks[-1][0] >= MFU_SPACING_S:
            self._marks.append((now, self._totals["floating_point_operations"]))
