"""``/metrics``, ``/livez`` and ``/readyz``: answered from the last pass, never from the GPUs."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import ProcessCollector

from exporter.exposition import END, OPENMETRICS_TYPE, TEXT_TYPE, Family, Page, Renderer, labels
from exporter.families import age_family, own_family
from exporter.http1 import Request, Response
from exporter.sampler import STALE_INTERVALS
from exporter.snapshot import Snapshot

_STUCK_INTERVALS = 10


class Builder(Protocol):
    """Something that makes families from a snapshot."""

    def build(self, snapshot: Snapshot) -> Iterable[Family]:
        """The families."""


@dataclass(frozen=True, slots=True)
class _Published:
    page: Page
    snapshot: Snapshot
    at: float


class Endpoints:
    """Holds the last page and answers for it.

    Args:
        builders: whose families make a page.
        interval: seconds between passes, by which readiness and staleness are judged.
        connections: how many connections the server has open, and how many it refused, for their metrics.
        openmetrics: serve OpenMetrics to those who ask for it.
    """

    def __init__(
        self,
        builders: Iterable[Builder],
        *,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
        connections: Callable[[], tuple[int, int]] = lambda: (0, 0),
        openmetrics: bool = True,
    ) -> None:
        self._builders, self._interval, self._clock = tuple(builders), interval, clock
        self._renderer = Renderer()
        self._published: _Published | None = None
        self._good_at: float | None = None
        self._started_at = clock()
        self._process = ProcessCollector(registry=None)
        self._connections, self._openmetrics = connections, openmetrics
        self._scrapes = 0

    def publish(self, snapshot: Snapshot) -> None:
        """Render a snapshot and serve it from now on."""
        families = (family for builder in self._builders for family in builder.build(snapshot))
        now = self._clock()
        self._published = _Published(self._renderer.render(families), snapshot, now)
        if snapshot.good:
            self._good_at = now

    def answer(self, request: Request) -> Response:
        """The response to a request."""
        if request.path == "/metrics":
            return self._metrics(request)
        if request.path == "/livez":
            return self._livez()
        if request.path == "/readyz":
            return self._readyz()
        if request.path == "/":
            return Response(200, b"gpuledger exporter: /metrics /livez /readyz\n")
        return Response(404, b"there are /metrics, /livez and /readyz\n")

    def _livez(self) -> Response:
        if self._published and self._published.snapshot.restart_needed:
            return Response(503, b"the driver was replaced under the loaded library: restart this process\n")
        # The sampler's own thread never calls a driver: if it stands still, only a restart helps.
        last = self._published.at if self._published else self._started_at
        stuck = self._clock() - last > _STUCK_INTERVALS * self._interval
        return Response(503, b"no pass ended in ten intervals\n") if stuck else Response(200, b"ok\n")

    def _readyz(self) -> Response:
        if self._good_at is None:
            return Response(503, b"no good pass yet: see the log for what the driver said\n")
        if self._clock() - self._good_at > STALE_INTERVALS * self._interval:
            return Response(503, b"the newest samples are older than three intervals\n")
        return Response(200, b"ok\n")

    def _metrics(self, request: Request) -> Response:
        self._scrapes += 1
        openmetrics = self._openmetrics and _prefers_openmetrics(request.headers.get("accept", ""))
        gzipped = _accepts_gzip(request.headers.get("accept-encoding", ""))
        content_type = OPENMETRICS_TYPE if openmetrics else TEXT_TYPE
        tail = self._tail().body(openmetrics=openmetrics, gzipped=False) + (END if openmetrics else b"")
        page = self._fresh_page()
        body = page.body(openmetrics=openmetrics, gzipped=gzipped) if page else b""
        if gzipped:
            # Gzip members may follow one another, so the page is compressed once a pass and only the tail each time.
            tail = gzip.compress(tail, compresslevel=1)
        return Response(200, body + tail, content_type, gzipped)

    def _fresh_page(self) -> Page | None:
        """The last page, unless passes have stopped: old values must not look like new ones."""
        if self._published is None or self._clock() - self._published.at > STALE_INTERVALS * self._interval:
            return None
        return self._published.page

    def _tail(self) -> Page:
        """What is only known at the time of the scrape."""
        opened, refused = self._connections()
        families = [
            own_family("scrapes_total", [("", self._scrapes)]),
            own_family("open_connections", [("", opened)]),
            own_family("refused_connections_total", [("", refused)]),
        ]
        if self._published:
            snapshot = self._published.snapshot
            families.append(age_family(snapshot.node, snapshot.cards, self._clock()))
        for metric in self._process.collect():
            samples = [(labels(sample.labels), sample.value) for sample in metric.samples]
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            families.append(Family(name, metric.type, metric.documentation, samples))
        return Renderer().render(families)


def _accepts_gzip(header: str) -> bool:
    weights = _weights(header)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _prefers_openmetrics(header: str) -> bool:
    weights = _weights(header)
    wanted = weights.get("application/openmetrics-text", 0.0)
    return wanted > 0 and wanted >= weights.get("text/plain", 0.0)


def _weights(header: str) -> dict[str, float]:
    """How much each name in an Accept header is wanted, 0 to 1; of a name that stands twice, the most."""
    weights: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        weights[name] = max(weight, weights.get(name, 0.0))
    return weights
