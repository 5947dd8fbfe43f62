"""Threads that may hang: a call into a driver, a kubelet or a network file system.

Whoever waits for a watched thread waits for a given time only. A thread that hangs keeps its own work from being
done and nothing else; when the call comes back, so does the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Watched(Generic[T]):
    """One thread that does one job at a time on request.

    ``value`` and ``error`` are those of the last job that ended (one of them is None), ``finished_at`` is when it did.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._clock = name, clock
        self.value: T | None = None
        self.error: Exception | None = None
        self.finished_at: float | None = None
        self.busy_since: float | None = None
        self._changed = threading.Condition()
        self._job: Callable[[], T] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, job: Callable[[], T]) -> bool:
        """Begin a job; False if the one before still runs."""
        with self._changed:
            if self.busy_since is not None or self._closed:
                return False
            self.busy_since, self._job = self._clock(), job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def wait(self, timeout_seconds: float) -> bool:
        """Whether the job ended within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.busy_since is None, max(0.0, timeout_seconds))

    def close(self) -> None:
        """Let the thread end when its job has."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._job is not None or self._closed)
                if self._job is None:
                    return
                job, self._job = self._job, None
            value: T | None = None
            error: Exception | None = None
            try:
                value = job()
            except Exception as caught:  # noqa: BLE001  whatever a driver or an adapter raises is the caller's to judge
                error = caught
            with self._changed:
                self.value, self.error = value, error
                self.finished_at, self.busy_since = self._clock(), None
                self._changed.notify_all()
