"""The HTTP server: bounded, TLS, basic auth; one event loop, so a client that waits blocks nobody.

It serves what lies in memory: no request ever waits for a GPU, a kubelet or another client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.http1 import BadRequest, Request, Response, parse_request, render_head
from exporter.passwords import PasswordChecker
from exporter.rate_limit import RateLimit
from exporter.web_config import WebSettings, load_web_config

_LOG = logging.getLogger(__name__)
_MAX_HEAD: Final = 16 << 10
_HEAD_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 180.0
_HANDSHAKE_SECONDS: Final = 10.0
_RELOAD_SECONDS: Final = 30.0


class Server:
    """Serves ``answer(request)`` on a socket.

    Args:
        max_connections: connections open at a time, those in their TLS handshake included; one more is closed at
            once. Those idle for three minutes are closed too.
    """

    def __init__(
        self,
        answer: Callable[[Request], Response],
        settings: WebSettings | None = None,
        *,
        max_connections: int = 2048,
    ) -> None:
        self._answer = answer
        self._use(settings or WebSettings())
        self._max_connections = max_connections
        self._listener: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._checking = asyncio.Semaphore(2)
        self.requests = self.refused = 0

    def _use(self, settings: WebSettings) -> None:
        """Serve by these settings from now on. Raises ConfigError, and then nothing has changed."""
        context = settings.tls.context() if settings.tls else None
        passwords = PasswordChecker(settings.users)
        self._settings, self._state, self._context, self._passwords = settings, settings.state(), context, passwords
        self._limit = RateLimit(*settings.rate_limit) if settings.rate_limit else None

    def reload(self) -> None:
        """Take a changed web configuration, or a renewed certificate, into use; what is wrong with it is logged."""
        state = self._settings.state()
        if self._settings.path is None or state == self._state:
            return
        try:
            self._use(load_web_config(self._settings.path))
        except ConfigError as error:
            self._state = state  # a half-written file: the settings so far serve on until it changes again
            _LOG.warning("%s; serving as before", error)

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._listener is None:
            raise RuntimeError("not started")
        return int(self._listener.getsockname()[1])

    async def start(self, host: str | None, port: int) -> None:
        """Listen; None is every address of both families. Raises OSError."""
        both = host is None and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both or (host and ":" in host) else socket.AF_INET
        self._listener = socket.create_server((host or "", port), family=family, backlog=1024, dualstack_ipv6=both)
        self._listener.setblocking(False)
        self._background.append(asyncio.create_task(self._accept(self._listener)))
        self._background.append(asyncio.create_task(self._reload_now_and_then()))

    async def stop(self) -> None:
        """Close the socket and every connection."""
        for task in (*self._background, *self._connections):
            task.cancel()
        await asyncio.gather(*self._background, *self._connections, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # out of file descriptors, or the client is gone already
                _LOG.warning("accept: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._connections) >= self._max_connections:
                self.refused += 1
                client.close()
                continue
            task = asyncio.create_task(self._connect(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _connect(self, client: socket.socket) -> None:
        """One connection from its handshake to its end."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        tls: dict[str, Any] = {}
        if self._context is not None:
            tls = {"ssl": self._context, "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, **tls)
        except (OSError, ssl.SSLError):  # no TLS, an unknown certificate, or silence
            client.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            patience = _HEAD_SECONDS
            while await self._serve_one(reader, writer, patience):
                patience = _IDLE_SECONDS
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client went away or was too slow: its loss
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _reload_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            self.reload()

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
        if self._limit is not None and not self._limit.allows():
            return Response(429, b"more requests than rate_limit allows\n")
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
        head = render_head(response, self._settings.headers, keep_alive=keep_alive)
        writer.write(head + (response.body if with_body else b""))
        await asyncio.wait_for(writer.drain(), _HEAD_SECONDS)
