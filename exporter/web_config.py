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

import ctypes
import ctypes.util
import difflib
import hashlib
import hmac
import os
import re
import secrets
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

    def context(self) -> ssl.SSLContext:
        """A server context. Raises ConfigError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self.min_version, self.max_version
        self.load_certificates(context)
        context.verify_mode = self.client_auth
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
    versions = [_version(section.get(key, default), f"{where}.{key}")
                for key, default in (("min_version", "TLS12"), ("max_version", "TLS13"))]  # fmt: skip
    return TlsSettings(
        path.parent / section["cert_file"],
        path.parent / section["key_file"],
        path.parent / authority if authority else None,
        _CLIENT_AUTH[auth],
        tuple(map(str, section.get("client_allowed_sans") or ())),
        *versions,
    )


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


class PasswordChecker:
    """Checks basic-auth credentials; one that was right once is known again without bcrypt's long work."""

    def __init__(self, users: dict[str, str]) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._proven: dict[str, bytes] = {}
        if users:
            self._crypt = _bcrypt_function()

    def known(self, user: str, password: str) -> bool:
        """Whether the credentials were found right before; quick."""
        proven = self._proven.get(user)
        return proven is not None and hmac.compare_digest(proven, self._digest(user, password))

    def check(self, user: str, password: str) -> bool:
        """Whether the credentials are right; takes a tenth of a second, so call it off the event loop."""
        # An unknown user costs the same time as a known one.
        hashed = self._users.get(user) or next(iter(self._users.values()))
        right = hmac.compare_digest(self._crypt(password.encode(), hashed.encode()), hashed.encode())
        if right and user in self._users:
            self._proven[user] = self._digest(user, password)
            return True
        return False

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.new(self._key, f"{user}\0{password}".encode(), hashlib.sha256).digest()


def _bcrypt_function() -> Any:
    """The bcrypt of the package of that name, else from the system's libcrypt (libxcrypt has it)."""
    try:
        import bcrypt  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        name = ctypes.util.find_library("crypt") or "libcrypt.so.1"
    else:
        return bcrypt.hashpw
    try:
        library = ctypes.CDLL(name, use_errno=True)
    except OSError as error:
        raise ConfigError("basic_auth_users", f"bcrypt is not there ({error})", "pip install bcrypt") from error
    library.crypt_r.restype = ctypes.c_char_p

    def crypt(password: bytes, salt: bytes) -> bytes:
        # libxcrypt's crypt_data is 32 KiB; zeroed memory is its initial state.
        scratch = ctypes.create_string_buffer(1 << 17)
        return library.crypt_r(password, salt, scratch) or os.urandom(8)  # a refused salt matches nothing

    probe = b"$2b$04$abcdefghijklmnopqrstuu"
    if not crypt(b"probe", probe).startswith(probe[:7]):
        raise ConfigError("basic_auth_users", "this system's libcrypt has no bcrypt", "pip install bcrypt")
    return crypt
