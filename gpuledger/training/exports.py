"""Ways out of a training process: an HTTP port, a textfile for node_exporter, a Pushgateway.

Whatever fails is handed to `complain` and tried again next time; none of it reaches the loop.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app, push_to_gateway
from prometheus_client.exposition import ThreadingWSGIServer

from exporter.errors import UsageError

INTERVAL_S: Final = 15.0
PUSH_TIMEOUT_S: Final = 5.0
GROUPED_BY: Final = ("hpc_job", "namespace", "pod", "node", "rank")
"""Labels by which a Pushgateway keeps ranks apart."""

Complain = Callable[[str, Exception], None]
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class Export(Protocol):
    """A way out that is open."""

    def stop(self) -> None:
        """Export once more, and end."""

    def abandon(self) -> None:
        """Let go in a forked child of what is the parent's."""


def exporting(
    to: str, registry: CollectorRegistry, labels: Mapping[str, str], local_rank: int, complain: Complain
) -> Export:
    """Open a way out: ``http:PORT``, ``http:ADDRESS:PORT``, ``textfile:FOLDER`` or ``push:URL``.

    Raises:
        UsageError: it is none of these.
        OSError: the port is taken.
    """
    kind, _, where = to.partition(":")
    address, _, port = where.rpartition(":")
    if kind == "http" and port.isdecimal():
        return _Served(registry, address, int(port) + local_rank)
    if kind == "textfile" and where:
        return _Repeated(_textfile(Path(where), registry, labels), "textfile", complain)
    if kind == "push" and where:
        return _Repeated(_push(where, registry, labels), "push", complain)
    raise UsageError(f"export {to!r}: expected http:PORT, textfile:FOLDER or push:URL; correct it or leave it out")


class _Served:
    """A server of ``/metrics`` in a thread of its own."""

    def __init__(self, registry: CollectorRegistry, address: str, port: int) -> None:
        application = make_wsgi_app(registry)
        self._server = make_server(address, port, application, ThreadingWSGIServer, handler_class=_Silent)
        threading.Thread(target=self._server.serve_forever, name="gpuledger-training", daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def abandon(self) -> None:
        self._server.socket.close()  # the port is the parent's; its thread is not in the child


class _Silent(WSGIRequestHandler):
    """Scrapes are no news in a training's log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is its base's
        """Say nothing."""


class _Repeated:
    """Something that is done every `INTERVAL_S` in a thread of its own, and once more at the end."""

    def __init__(self, once: Callable[[], None], name: str, complain: Complain) -> None:
        self._once, self._name, self._complain = once, name, complain
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="gpuledger-training", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(PUSH_TIMEOUT_S)
        self._try()

    def abandon(self) -> None:
        pass  # the thread is not in the child

    def _repeat(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self._try()

    def _try(self) -> None:
        try:
            self._once()
        except Exception as error:  # noqa: BLE001  the metrics must not end the training
            self._complain(self._name, error)


def _textfile(folder: Path, registry: CollectorRegistry, labels: Mapping[str, str]) -> Callable[[], None]:
    """Return what writes one file per rank; it has its name only once it is whole."""
    of = [labels.get("hpc_job") or labels.get("pod") or labels.get("run") or "job", labels["rank"]]
    name = "-".join(["gpuledger-training", *(_UNSAFE.sub("_", part) for part in of)])
    temporary = folder / f".{name}.{os.getpid()}"  # node_exporter reads what ends in .prom

    def write() -> None:
        temporary.write_bytes(generate_latest(registry))
        temporary.chmod(0o644)
        temporary.replace(folder / f"{name}.prom")

    return write


def _push(url: str, registry: CollectorRegistry, labels: Mapping[str, str]) -> Callable[[], None]:
    group = {name: labels[name] for name in GROUPED_BY if name in labels}

    def push() -> None:
        push_to_gateway(url, "gpuledger_training", registry, grouping_key=group, timeout=PUSH_TIMEOUT_S)

    return push
