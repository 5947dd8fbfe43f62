"""Reads a card's 32-bit PCIe byte counters between passes, often enough that no wrap is missed."""

from __future__ import annotations

import threading
from typing import Final

import pynvml

from exporter.devices import DeviceLost
from exporter.nvml_fields import FieldReader

_PATIENCE_SECONDS: Final = 5.0


class PcieFollower:
    """A thread that follows one card until it is stopped or the card is lost."""

    def __init__(self, uuid: str, fields: FieldReader) -> None:
        self._fields = fields
        self._stopped = threading.Event()
        # Held during a call: the library must not be shut down under it.
        self._calling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"pcie-{uuid[:12]}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it still follows."""
        return self._thread.is_alive()

    def stop(self) -> bool:
        """End it; False if a call of its hangs."""
        self._stopped.set()
        if not self._calling.acquire(timeout=_PATIENCE_SECONDS):
            return False
        self._calling.release()
        return True

    def _run(self) -> None:
        while not self._stopped.wait(self._fields.follow_seconds):
            with self._calling:
                if self._stopped.is_set():
                    return
                try:
                    self._fields.follow()
                except (pynvml.NVMLError, DeviceLost):
                    return  # the next good reading of the card starts another
