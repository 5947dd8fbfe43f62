"""Prometheus's web configuration file: TLS, client certificates and basic auth under its field names.

::

    tls_server_config:
      cert_file: server.crt            # relative to this file
      key_file: server.key
      client_auth_type: RequireAndVerifyClientCert
      client_ca_file: clients.crt
      client_allowed_sans: [prometheus.example.org]
      min_version: TLS12
    basic_auth_users:
      prometheus: $2y$10$…             # bcrypt
    http_server_config:
      headers: {X-Frame-Options: deny}
    rate_limit: {interval: 100ms, burst: 20}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from exporter.documents import load_document
from exporter.durations import parse_seconds
from exporter.errors import ConfigError
from exporter.shapes import Flag, MappingOf, Number, Record, Text
from exporter.tls import TLS_SHAPES, TlsSettings, parse_tls

_HEADER: Final = Text("printable text", ".*")
_HEADERS: Final = dict.fromkeys(
    (
        "Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "X-XSS-Protection",
        "Strict-Transport-Security",
    ),
    _HEADER,
)  # fmt: skip
_USERS: Final = MappingOf(
    Text("a bcrypt hash as `htpasswd -nB NAME` makes it", r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}", secret=True)
)
_FILE: Final = Record(
    {
        "tls_server_config": Record(TLS_SHAPES, nullable=True),
        "http_server_config": Record({"http2": Flag(), "headers": Record(_HEADERS, nullable=True)}, nullable=True),
        "basic_auth_users": _USERS,
        "rate_limit": Record({"interval": Text(numbers=True), "burst": Number(whole=True)}, nullable=True),
    },
    nullable=True,
)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What a web configuration file asks for.

    Args:
        rate_limit: seconds between requests, and how many more may come at once; None for no limit.
        path: the file itself.
    """

    tls: TlsSettings | None = None
    users: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    rate_limit: tuple[float, int] | None = None
    path: Path | None = None

    def state(self) -> tuple[tuple[int, ...], ...]:
        """What changes when one of the files does: certificates are renewed under a running server."""
        files = [self.path] if self.path else []
        return tuple(_state(file) for file in files + (self.tls.files() if self.tls else []))


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def load_web_config(path: Path) -> WebSettings:
    """Settings from a file. Raises ConfigError."""
    document = _FILE.read_file(load_document(path), path)
    tls, http = document.get("tls_server_config"), document.get("http_server_config") or {}
    return WebSettings(
        parse_tls(tls, f"{path}: tls_server_config", path.parent) if tls else None,
        document.get("basic_auth_users") or {},
        {name: value for name, value in (http.get("headers") or {}).items() if value},
        _rate_limit(document.get("rate_limit") or {}, f"{path}: rate_limit"),
        path,
    )


def _rate_limit(section: dict[str, Any], where: str) -> tuple[float, int] | None:
    burst = section.get("burst", 0)
    try:
        seconds = parse_seconds(str(section.get("interval", "0")))
    except ValueError as error:
        raise ConfigError(f"{where}.interval", str(error)) from error
    if seconds and burst < 1:
        raise ConfigError(f"{where}.burst", f"{burst!r} would refuse every request", "give a whole number from 1 on")
    return (seconds, burst) if seconds else None
