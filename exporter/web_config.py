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

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.durations import parse_seconds
from exporter.errors import ConfigError, not_utf_8
from exporter.tls import TLS_KEYS, TlsSettings, parse_tls

_TOP: Final = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_HTTP: Final = ("http2", "headers")
_HEADERS: Final = (
    "Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "X-XSS-Protection",
    "Strict-Transport-Security",
)  # fmt: skip
_BCRYPT: Final = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}")


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
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise not_utf_8(path, error) from error
    except yaml.YAMLError as error:
        raise ConfigError(str(path), f"not YAML: {' '.join(str(error).split())}") from error
    _check(document, _TOP, str(path))
    tls, http = document.get("tls_server_config"), document.get("http_server_config") or {}
    _check(http, _HTTP, f"{path}: http_server_config")
    if tls:
        _check(tls, TLS_KEYS, f"{path}: tls_server_config")
    return WebSettings(
        parse_tls(tls, f"{path}: tls_server_config", path.parent) if tls else None,
        _users(document.get("basic_auth_users") or {}, path),
        _headers(http.get("headers") or {}, f"{path}: http_server_config.headers"),
        _rate_limit(document.get("rate_limit") or {}, f"{path}: rate_limit"),
        path,
    )


def _check(mapping: Any, keys: Collection[str], where: str) -> None:
    if not isinstance(mapping, dict):
        raise ConfigError(where, "a mapping was expected")
    for key in mapping:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            raise ConfigError(where, f"unknown key {key!r}", f"did you mean {near[0]!r}?" if near else "remove it")


def _headers(section: Any, where: str) -> dict[str, str]:
    _check(section, _HEADERS, where)
    for name, value in section.items():
        if not str(value).isprintable():
            raise ConfigError(f"{where}.{name}", "has characters that no header may have")
    return {str(name): str(value) for name, value in section.items() if value}


def _rate_limit(section: Any, where: str) -> tuple[float, int] | None:
    _check(section, ("interval", "burst"), where)
    burst = section.get("burst", 0)
    try:
        seconds = parse_seconds(str(section.get("interval", "0")))
    except ValueError as error:
        raise ConfigError(f"{where}.interval", str(error)) from error
    if not isinstance(burst, int) or (seconds and burst < 1):
        raise ConfigError(f"{where}.burst", f"{burst!r} would refuse every request", "give a whole number from 1 on")
    return (seconds, burst) if seconds else None


def _users(section: Any, path: Path) -> dict[str, str]:
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: basic_auth_users", "a mapping of names to bcrypt hashes was expected")
    for name, hashed in section.items():
        if not _BCRYPT.fullmatch(str(hashed)):
            raise ConfigError(
                f"{path}: basic_auth_users.{name}", "is no bcrypt hash", "make one with `htpasswd -nB NAME`"
            )
    return {str(name): str(hashed) for name, hashed in section.items()}
