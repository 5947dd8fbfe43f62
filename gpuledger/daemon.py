"""The pipeline as a daemon: a pass every few minutes, and how the passes went on its own ``/metrics``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from exporter.errors import UsageError, WorkError

Pass = Callable[[], object]


class Daemon:
    """Runs passes until stopped.

    A pass that fails (an unreachable source, a ledger that another process holds) is counted, said and tried again:
    the ledger is as the last good pass left it. A wrong configuration ends the daemon, since only a person mends that.

    Args:
        one_pass: does one pass and returns what is to be said of it.
        every_seconds: from the start of one pass to the start of the next; a longer pass is followed at once.
        say: takes one line per pass.
        registry: where the daemon's own metrics live.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        one_pass: Pass,
        *,
        every_seconds: float,
        say: Callable[[str], None],
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._one_pass, self._every_seconds, self._say, self._clock = one_pass, every_seconds, say, clock
        self._stopped = threading.Event()
        self._passes = Counter(
            "gpuledger_pipeline_passes", "Passes of the pipeline by how they ended.", ["result"], registry=registry
        )
        for result in ("done", "failed"):
            self._passes.labels(result)
        self._last_success = Gauge(
            "gpuledger_pipeline_last_success_timestamp_seconds",
            "When a pass last ended well, in Unix time; 0 before the first.",
            registry=registry,
        )
        self._duration = Gauge(
            "gpuledger_pipeline_last_pass_duration_seconds", "How long the last pass took.", registry=registry
        )

    def stop(self) -> None:
        """End after the pass that is running."""
        self._stopped.set()

    def run(self) -> None:
        """Run passes until `stop` is called."""
        while not self._stopped.is_set():
            began = self._clock()
            try:
                self._say(str(self._one_pass()))
            except WorkError as error:
                self._passes.labels("failed").inc()
                self._say(f"this pass failed, the next one tries again: {error}")
            else:
                self._passes.labels("done").inc()
                self._last_success.set_to_current_time()
            took = self._clock() - began
            self._duration.set(took)
            self._stopped.wait(max(self._every_seconds - took, 0))


def serve_metrics(listen: str, registry: CollectorRegistry) -> WSGIServer:
    """Serve ``/metrics`` at ``HOST:PORT`` from a thread of its own; returns the server.

    Raises:
        UsageError: the address is none, or can't be had.
    """
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {listen}: expected HOST:PORT; write it as 127.0.0.1:9837")
    try:
        server, _thread = start_http_server(int(port), addr=host.strip("[]") or "127.0.0.1", registry=registry)
    except OSError as error:
        raise UsageError(f"--listen {listen}: {error.strerror}; choose another with --listen HOST:PORT") from None
    return server
