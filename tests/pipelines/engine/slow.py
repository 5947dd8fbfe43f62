"""Work that is still being done when its server is lost or its user has had enough; a server imports it from here."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.engine.connect import SparkEngine


@dataclass(frozen=True)
class Slow:
    """Says in a file that it has begun, and doesn't end for an hour."""

    begun: Path

    def __call__(self, task: bytes) -> Iterator[tuple[str, bytes]]:
        """Begin."""
        self.begun.write_bytes(task)
        time.sleep(3600)
        yield "late", task


def main() -> None:
    """Give slow work to the engine whose URL is the first argument; it says that it has begun where the second says."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the shell had it do
    with SparkEngine(sys.argv[1]) as engine:
        engine.connect()
        list(engine.run(Slow(Path(sys.argv[2])), [b""]))


if __name__ == "__main__":
    main()
