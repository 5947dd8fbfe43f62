"""Facts from slow neighbours (an API server, slurmctld), read in the background and served from memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from exporter.watched import Watched

T = TypeVar("T")
_PATIENCE_SECONDS: Final = 1.0


class Refreshed(Generic[T]):
    """The value of ``read()``, read again once it is older than ``seconds``.

    Whoever asks waits a second at most: a neighbour that is slow or down costs nobody their pass. What was read last
    stays in use; ``empty`` stands until something was read.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        empty: T,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._read, self._value, self._seconds = read, empty, seconds
        self._clock, self._patience = clock, patience_seconds
        self._worker: Watched[T] = Watched(name, clock)
        self._begun_at = float("-inf")

    @property
    def error(self) -> Exception | None:
        """Why the last reading failed; None if it didn't."""
        return self._worker.error

    def __call__(self) -> T:
        """The newest value."""
        now = self._clock()
        if now - self._begun_at >= self._seconds and self._worker.start(self._read):
            self._begun_at = now
            self._worker.wait(self._patience)
        if self._worker.value is not None:
            self._value = self._worker.value
        return self._value
