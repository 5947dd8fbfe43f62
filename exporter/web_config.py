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
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.errors import ConfigError

_TOP: Final = ("tls_server_config", "http_server_config", "basic_auth_users")
_TLS: Final = (
    "cert_file", "key_file", "client_ca_file", "client_auth_type", "client_allowed_sans", "min_version",
    "max_version", "cipher_suites", "curve_preferences", "prefer_server_cipher_suites",
)  # fmt: skip
_HTTP: Final = ("http2", "headers")
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_CURVES: Final = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
_BCRYPT: Final = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Where certificates are and what clients must show."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    allowed_sans: tuple[str, ...] = ()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
    ciphers: str = ""
    curve: str = ""
    server_chooses: bool = True

    def context(self) -> ssl.SSLContext:
        """A server context. Raises ConfigError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self.min_version, self.max_version
        self.load_certificates(context)
        context.verify_mode = self.client_auth
        if not self.server_chooses:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        if self.curve:
            context.set_ecdh_curve(self.curve)
        if self.client_ca_file is not None:
            try:
                context.load_verify_locations(cafile=str(self.client_ca_file))
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(str(self.client_ca_file), f"no certificates in it ({error})") from error
        return context

    def load_certificates(self, context: ssl.SSLContext) -> None:
        """Load the certificate into a context, as is done again when the file changes. Raises ConfigError."""
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            where = f"{self.cert_file} and {self.key_file}"
            raise ConfigError(where, f"no certificate with its key ({error})", "give PEM files that match") from error

    def changed_at(self) -> float:
        """When the certificate or key was last written."""
        try:
            return max(self.cert_file.stat().st_mtime, self.key_file.stat().st_mtime)
        except OSError:
            return 0.0


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What a web configuration file asks for."""

    tls: TlsSettings | None = None
    users: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def load_web_config(path: Path) -> WebSettings:
    """Settings from a file. Raises ConfigError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise ConfigError(str(path), f"not YAML: {' '.join(str(error).split())}") from error
    _check(document, _TOP, str(path))
    tls = document.get("tls_server_config")
    http = document.get("http_server_config") or {}
    _check(http, _HTTP, f"{path}: http_server_config")
    return WebSettings(
        _tls(tls, path) if tls else None,
        _users(document.get("basic_auth_users") or {}, path),
        {str(name): str(value) for name, value in (http.get("headers") or {}).items()},
    )


def _check(mapping: Any, keys: Collection[str], where: str) -> None:
    if not isinstance(mapping, dict):
        raise ConfigError(where, "a mapping was expected")
    for key in mapping:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            raise ConfigError(where, f"unknown key {key!r}", f"did you mean {near[0]!r}?" if near else "remove it")


def _tls(section: Any, path: Path) -> TlsSettings:
    where = f"{path}: tls_server_config"
    _check(section, _TLS, where)
    for key in ("cert_file", "key_file"):
        if not section.get(key):
            raise ConfigError(f"{where}.{key}", "is missing", "give the path of a PEM file")
    auth = section.get("client_auth_type", "NoClientCert")
    if auth not in _CLIENT_AUTH:
        raise ConfigError(f"{where}.client_auth_type", f"{auth!r} is not served", f"use {', '.join(_CLIENT_AUTH)}")
    authority = section.get("client_ca_file")
    if _CLIENT_AUTH[auth] != ssl.CERT_NONE and not authority:
        raise ConfigError(f"{where}.client_ca_file", f"is needed by {auth}")
    low = _version(section.get("min_version", "TLS12"), f"{where}.min_version")
    high = _version(section.get("max_version", "TLS13"), f"{where}.max_version")
    return TlsSettings(
        path.parent / section["cert_file"],
        path.parent / section["key_file"],
        path.parent / authority if authority else None,
        _CLIENT_AUTH[auth],
        tuple(map(str, section.get("client_allowed_sans") or ())),
        low,
        high,
        _ciphers(section.get("cipher_suites") or [], f"{where}.cipher_suites"),
        _curve(section.get("curve_preferences") or [], f"{where}.curve_preferences"),
        bool(section.get("prefer_server_cipher_suites", True)),
    )


def _ciphers(names: list[Any], where: str) -> str:
    """Go's names of TLS 1.2 suites as OpenSSL's; those of TLS 1.3 are always on, in both."""
    converted = []
    for name in map(str, names):
        if "_WITH_" not in name:
            continue
        text = name.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_CBC", "")
        converted.append(text.replace("_POLY1305_SHA256", "_POLY1305").replace("_", "-"))
    try:
        if converted:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(":".join(converted))
    except ssl.SSLError as error:
        raise ConfigError(where, f"none of {', '.join(map(str, names))} is known here") from error
    return ":".join(converted)


def _curve(names: list[Any], where: str) -> str:
    if not names:
        return ""
    if len(names) > 1 or names[0] not in _CURVES:
        raise ConfigError(where, f"{', '.join(map(str, names))} is not served", f"give one of {', '.join(_CURVES)}")
    return _CURVES[names[0]]


def _version(name: Any, where: str) -> ssl.TLSVersion:
    if name not in _VERSIONS:
        raise ConfigError(where, f"{name!r} is not served", f"use {' or '.join(_VERSIONS)}")
    return _VERSIONS[name]


def _users(section: Any, path: Path) -> dict[str, str]:
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: basic_auth_users", "a mapping of names to bcrypt hashes was expected")
    for name, hashed in section.items():
        if not _BCRYPT.fullmatch(str(hashed)):
            raise ConfigError(
                f"{path}: basic_auth_users.{name}", "is no bcrypt hash", "make one with `htpasswd -nB NAME`"
            )
    return {str(name): str(hashed) for name, hashed in section.items()}
