"""The pipeline as a daemon: a pass every few minutes, and how they went on its own ``/metrics`` and ``/readyz``."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

from exporter.errors import GpuLedgerError, UsageError, WorkError
from exporter.json_lines import log_line

if TYPE_CHECKING:
    from datetime import datetime
    from wsgiref.types import StartResponse, WSGIEnvironment

LATE_PASSES: Final = 3
"""Without a good pass for so many intervals the daemon isn't ready: what it publishes is old."""


class Counts(Protocol):
    """What a pass took in."""

    @property
    def samples(self) -> int:
        """Samples that are new."""

    @property
    def records(self) -> int:
        """Rows of schedulers and lists that are new."""

    @property
    def findings(self) -> Mapping[str, int]:
        """What was found wrong in them, by code."""


class Passed(Protocol):
    """What the daemon says of a pass."""

    @property
    def ingested(self) -> Counts:
        """What was new."""

    @property
    def failed(self) -> tuple[GpuLedgerError, ...]:
        """Sources that couldn't be read."""

    @property
    def watermarks(self) -> Mapping[str, datetime]:
        """Until when each live source is read."""


Say = Callable[[str, Mapping[str, object]], None]
"""Takes a line for people, and what it says as fields."""


class Daemon:
    """Runs passes until stopped.

    A pass that fails (an unreachable source, a ledger that another process holds) is counted, said and tried again:
    the ledger is as the last good window left it. A wrong configuration ends the daemon: only a person mends that.

    Args:
        one_pass: does one pass; ends early, between two windows of a source, once `stopping` says so.
        every_seconds: from the start of one pass to the start of the next; a longer pass is followed at once.
        say: told once per pass.
        registry: where the daemon's own metrics live.
        clock: seconds, never going back.
        now: the time of day.
    """

    def __init__(
        self,
        one_pass: Callable[[], Passed],
        *,
        every_seconds: float,
        say: Say,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._one_pass, self._every_seconds, self._say = one_pass, every_seconds, say
        self._clock, self._now = clock, now
        self._stopped = threading.Event()
        self._succeeded: float | None = None
        self._meters = _Meters(registry, now)

    def stop(self) -> None:
        """End after the window that is being read, or the pass that is being published."""
        self._stopped.set()

    def stopping(self) -> bool:
        """Return whether the daemon is to end."""
        return self._stopped.is_set()

    def ready(self) -> bool:
        """Return whether a pass ended well not long ago."""
        latest = self._succeeded
        return latest is not None and self._clock() - latest <= LATE_PASSES * max(self._every_seconds, 1)

    def run(self) -> None:
        """Run passes until `stop` is called."""
        while not self._stopped.is_set():
            began = self._clock()
            try:
                passed = self._one_pass()
            except WorkError as error:
                self._fail(error, self._clock() - began)
            else:
                self._meters.took_in(passed)
                if passed.failed:
                    self._fail(passed.failed[0], self._clock() - began)
                else:
                    self._succeeded = self._clock()
                    self._meters.passed()
                    self._say(str(passed), {"result": "done", **_fields(passed), "seconds": self._succeeded - began})
            took = self._clock() - began
            self._meters.duration.set(took)
            self._stopped.wait(max(self._every_seconds - took, 0))

    def _fail(self, error: GpuLedgerError, seconds: float) -> None:
        self._meters.passes.labels("failed").inc()
        text = f"this pass failed, the next one tries again: {error}"
        self._say(text, {"result": "failed", "error": str(error), "seconds": seconds})


class _Meters:
    """The daemon's own metrics."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float]) -> None:
        self._now = now
        self.passes = Counter(
            "gpuledger_pipeline_passes", "Passes of the pipeline by how they ended.", ["result"], registry=registry
        )
        for result in ("done", "failed"):
            self.passes.labels(result)
        self._last_success = Gauge(
            "gpuledger_pipeline_last_success_timestamp_seconds",
            "When a pass last ended well, in Unix time; 0 before the first.",
            registry=registry,
        )
        self.duration = Gauge(
            "gpuledger_pipeline_last_pass_duration_seconds", "How long the last pass took.", registry=registry
        )
        self._rows = Counter(
            "gpuledger_pipeline_rows", "Rows that passes took in, by what they are.", ["kind"], registry=registry
        )
        for kind in ("samples", "records"):
            self._rows.labels(kind)
        self._findings = Counter(
            "gpuledger_pipeline_findings", "What was found wrong in what was taken in.", ["code"], registry=registry
        )
        self._lag = Gauge(
            "gpuledger_pipeline_watermark_lag_seconds",
            "How far behind now a live source has been read.",
            ["source"],
            registry=registry,
        )

    def passed(self) -> None:
        """Count a pass that ended well."""
        self.passes.labels("done").inc()
        self._last_success.set(self._now())

    def took_in(self, passed: Passed) -> None:
        """Count what a pass took in, well ended or not."""
        self._rows.labels("samples").inc(passed.ingested.samples)
        self._rows.labels("records").inc(passed.ingested.records)
        for code, count in passed.ingested.findings.items():
            self._findings.labels(code).inc(count)
        for source, until in passed.watermarks.items():
            self._lag.labels(source).set_function(_since(until.timestamp(), self._now))


def _since(mark: float, now: Callable[[], float]) -> Callable[[], float]:
    return lambda: now() - mark


def _fields(passed: Passed) -> dict[str, object]:
    done = passed.ingested
    return {"samples": done.samples, "records": done.records, "findings": dict(done.findings)}


def as_json(text: str, fields: Mapping[str, object]) -> str:
    """Return what a pass says as one JSON object."""
    level = "error" if fields.get("result") == "failed" else "info"
    return log_line(text, level=level, logger="gpuledger.run", fields=fields)


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has in the library
        """Say nothing: who scrapes is no news."""


def serve_metrics(listen: str, registry: CollectorRegistry, ready: Callable[[], bool] = lambda: True) -> WSGIServer:
    """Serve ``/metrics`` and ``/readyz`` at ``HOST:PORT`` from a thread of its own; returns the server.

    Raises:
        UsageError: the address is none, or can't be had.
    """
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {listen}: expected HOST:PORT; write it as 127.0.0.1:9837")
    metrics = make_wsgi_app(registry)

    def answer(environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environment.get("PATH_INFO") != "/readyz":
            return metrics(environment, start_response)  # type: ignore[no-any-return]
        good = ready()
        start_response("200 OK" if good else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"ready\n" if good else b"no pass has ended well of late\n"]

    try:
        server = make_server(
            host.strip("[]") or "127.0.0.1", int(port), answer, server_class=_Server, handler_class=_Quiet
        )
    except OSError as error:
        raise UsageError(f"--listen {listen}: {error.strerror}; choose another with --listen HOST:PORT") from None
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()
    return server
