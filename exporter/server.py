"""The HTTP server: bounded, TLS, basic auth; one event loop, so a client that waits blocks nobody.

It serves what lies in memory: no request ever waits for a GPU, a kubelet or another client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from exporter.passwords import PasswordChecker
from exporter.web_config import WebSettings

_LOG = logging.getLogger(__name__)
_MAX_HEAD: Final = 16 << 10
_HEAD_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 180.0
_HANDSHAKE_SECONDS: Final = 10.0
_RELOAD_SECONDS: Final = 30.0
_REASONS: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A request's path and headers (names in lower case)."""

    method: str
    path: str
    headers: dict[str, str]
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    gzipped: bool = False


class BadRequest(Exception):
    """The client sent no HTTP that this server reads."""


class Server:
    """Serves ``answer(request)`` on a socket.

    Args:
        max_connections: connections open at a time; one more is closed at once. Those idle for three minutes
            are closed too.
    """

    def __init__(
        self,
        answer: Callable[[Request], Response],
        settings: WebSettings | None = None,
        *,
        max_connections: int = 2048,
    ) -> None:
        self._answer, self._settings = answer, settings or WebSettings()
        self._passwords = PasswordChecker(self._settings.users)
        self._context = self._settings.tls.context() if self._settings.tls else None
        self._max_connections = max_connections
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._reloader: asyncio.Task[None] | None = None
        self._checking = asyncio.Semaphore(2)
        self.requests = self.refused = 0

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._open)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._server is None:
            raise RuntimeError("not started")
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, host: str | None, port: int) -> None:
        """Listen. Raises OSError."""
        tls: dict[str, Any] = {}
        if self._context is not None:
            tls = {"ssl": self._context, "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
        self._server = await asyncio.start_server(self._serve, host, port, limit=_MAX_HEAD, backlog=1024, **tls)
        if self._context is not None:
            self._reloader = asyncio.create_task(self._reload_certificates(self._context))

    async def stop(self) -> None:
        """Close every connection and the socket."""
        if self._reloader is not None:
            self._reloader.cancel()
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _reload_certificates(self, context: ssl.SSLContext) -> None:
        tls = self._settings.tls
        seen = tls.changed_at() if tls else 0.0
        while tls is not None:
            await asyncio.sleep(_RELOAD_SECONDS)
            changed = tls.changed_at()
            if changed != seen:
                seen = changed
                try:
                    tls.load_certificates(context)
                except Exception as error:  # noqa: BLE001  a half-written file: the old certificate serves on
                    _LOG.warning("%s", error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._max_connections:
            self.refused += 1
            writer.close()
            return
        self._open.add(writer)
        try:
            patience = _HEAD_SECONDS
            while await self._serve_one(reader, writer, patience):
                patience = _IDLE_SECONDS
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client went away or was too slow: its loss
        finally:
            self._open.discard(writer)
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> bool:
        """Answer one request; whether the connection stays open."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patience)
            request = parse_request(head)
        except asyncio.LimitOverrunError:
            await self._send(writer, Response(431, b"request head too large\n"), keep_alive=False)
            return False
        except BadRequest as error:
            await self._send(writer, Response(400, f"{error}\n".encode()), keep_alive=False)
            return False
        self.requests += 1
        response = await self._respond(request, writer)
        await self._send(writer, response, keep_alive=request.keep_alive, with_body=request.method != "HEAD")
        return request.keep_alive

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> Response:
        if not self._certificate_allowed(writer):
            return Response(403, b"the client certificate's name is not in client_allowed_sans\n")
        if self._settings.users and not await self._authorized(request):
            return Response(401, b"unauthorized\n")
        if request.method not in {"GET", "HEAD"}:
            return Response(405, b"only GET and HEAD\n")
        try:
            return self._answer(request)
        except Exception:  # noqa: BLE001  a fault of one request is not the next one's
            _LOG.exception("while answering %s", request.path)
            return Response(500, b"internal error; see the exporter's log\n")

    def _certificate_allowed(self, writer: asyncio.StreamWriter) -> bool:
        allowed = self._settings.tls.allowed_sans if self._settings.tls else ()
        if not allowed:
            return True
        certificate = writer.get_extra_info("peercert") or {}
        return any(value in allowed for _, value in certificate.get("subjectAltName", ()))

    async def _authorized(self, request: Request) -> bool:
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        if not colon:
            return False
        if self._passwords.known(user, password):
            return True
        # bcrypt takes its time by design: off the loop, and never more than two at once.
        async with self._checking:
            return await asyncio.to_thread(self._passwords.check, user, password)

    async def _send(
        self, writer: asyncio.StreamWriter, response: Response, *, keep_alive: bool, with_body: bool = True
    ) -> None:
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Connection": "keep-alive" if keep_alive else "close",
            **self._settings.headers,
        }
        if response.gzipped:
            headers["Content-Encoding"] = "gzip"
        if response.status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="gpuledger"'
        lines = [f"HTTP/1.1 {response.status} {_REASONS[response.status]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (response.body if with_body else b""))
        await asyncio.wait_for(writer.drain(), _HEAD_SECONDS)


def parse_request(head: bytes) -> Request:
    """A request from its head. Raises BadRequest."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest("no HTTP/1 request line")
    headers = {}
    for line in lines[1:]:
        if line:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise BadRequest("a malformed header")
            headers[name.lower()] = value.strip()
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequest("requests have no body here")
    wish = headers.get("connection", "").lower()
    keep_alive = wish != "close" if parts[2] == "HTTP/1.1" else wish == "keep-alive"
    return Request(parts[0], parts[1].split("?", 1)[0], headers, keep_alive)
