"""HTTP/1.1 messages: the little of it that a scraper speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REASONS: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    503: "Service Unavailable",
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


def render_head(response: Response, headers: Mapping[str, str], *, keep_alive: bool) -> bytes:
    """Status line and headers; ``headers`` come from the configuration."""
    named = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Connection": "keep-alive" if keep_alive else "close",
        **headers,
    }
    if response.gzipped:
        named["Content-Encoding"] = "gzip"
    if response.status == 401:
        named["WWW-Authenticate"] = 'Basic realm="gpuledger"'
    lines = [f"HTTP/1.1 {response.status} {_REASONS[response.status]}"]
    lines += [f"{name}: {value}" for name, value in named.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


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
