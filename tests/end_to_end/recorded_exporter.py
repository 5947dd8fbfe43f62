"""A small fleet's exposition text, scrape by scrape, and a server that serves one more each time it is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from exporter.exposition import TEXT_TYPE, labels

SCRAPES: Final = 32
ODD_POD: Final = 'train "Ω\\1"\n🚀'
"""A pod name that needs every escape of the text format."""


def page(scrape: int) -> str:
    """What the exporter exposes at its `scrape`-th scrape (from 0).

    GPU-a is held by vision to scrape 11, by nobody to 13, by nlp from 14 on, and its energy counter is reset at 20.
    GPU-b is in MIG mode with two instances of which one is held, and is not to be seen in scrapes 16 to 19.
    GPU-c is nobody's; one of its values is DCGM's blank, one is no number.
    """
    return "".join(f"{name}{labels(where)} {value}\n" for name, where, value in _series(scrape))


def _series(scrape: int) -> Iterator[tuple[str, dict[str, str], str]]:
    card = {"Hostname": "n1", "modelName": "NVIDIA A100-SXM4-80GB"}
    a = {**card, "gpu": "0", "UUID": "GPU-a"}
    if scrape <= 11:
        a |= {"namespace": "vision-train", "pod": ODD_POD, "container": "main"}
    elif scrape >= 14:
        a |= {"namespace": "nlp", "pod": "serve-0", "container": "main"}
    yield "DCGM_FI_DEV_GPU_UTIL", a, str(scrape * 3 % 101)
    yield "DCGM_FI_DEV_POWER_USAGE", a, f"{200 + scrape}.5"
    yield "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", a, str((scrape if scrape < 20 else scrape - 20) * 250_000 + 7_000)
    if not 16 <= scrape <= 19:
        b = {**card, "gpu": "1", "UUID": "GPU-b"}
        yield "DCGM_FI_DEV_POWER_USAGE", b, "180"
        held = {"namespace": "nlp", "pod": "tune-0", "container": "main"}
        for instance, owner in (("3", held), ("5", {})):
            mig = {**b, "GPU_I_ID": instance, "GPU_I_PROFILE": "3g.40gb", **owner}
            yield "DCGM_FI_PROF_GR_ENGINE_ACTIVE", mig, f"0.{instance}{scrape:02d}"
            yield "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", mig, str(scrape * 180_000)
    c = {**card, "gpu": "2", "UUID": "GPU-c"}
    utilization = {5: "2147483632", 6: "NaN"}.get(scrape, "0")
    yield "DCGM_FI_DEV_GPU_UTIL", c, utilization
    yield "DCGM_FI_DEV_XID_ERRORS", c, "79" if scrape > 24 else "0"


class RecordedExporter(ThreadingHTTPServer):
    """Serves each page once, then refuses, so that what a Prometheus has stored stays as it is."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._lock = threading.Lock()
        self._served = 0
        self.ended = threading.Event()
        """Set when a scrape was refused: the one before it is stored by then."""

    def next_page(self) -> str | None:
        with self._lock:
            if self._served >= SCRAPES:
                self.ended.set()
                return None
            self._served += 1
            return page(self._served - 1)


class _Handler(BaseHTTPRequestHandler):
    server: RecordedExporter

    def do_GET(self) -> None:
        text = self.server.next_page()
        body = b"the recording has ended\n" if text is None else text.encode()
        self.send_response(503 if text is None else 200)
        self.send_header("Content-Type", TEXT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
