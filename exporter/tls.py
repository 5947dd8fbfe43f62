"""The ``tls_server_config`` of Prometheus's web configuration file, and the context that it asks for."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.shapes import Flag, ListOf, Shape, Text

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# Python's ssl never asks for a certificate that it doesn't verify.
_UNVERIFIED: Final = {"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"}
_PATH: Final = Text("the path of a PEM file", ".*")
_PEM: Final = Text("PEM text", ".*", secret=True, lines=True)
TLS_SHAPES: Final[dict[str, Shape]] = {
    "cert_file": _PATH,
    "key_file": _PATH,
    "client_ca_file": _PATH,
    "cert": _PEM,
    "key": _PEM,
    "client_ca": _PEM,
    "client_auth_type": Text(pattern=".*"),
    "client_allowed_sans": ListOf(Text()),
    "min_version": Text(),
    "max_version": Text(),
    "cipher_suites": ListOf(Text()),
    "curve_preferences": ListOf(Text()),
    "prefer_server_cipher_suites": Flag(),
}
"""The keys of the section."""

_CURVES: Final = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}


@dataclass(frozen=True, slots=True)
class Pem:
    """Something in PEM form: a file, or its text."""

    file: Path | None = None
    text: str = ""

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A file with it; a text is in a file of this user's only while the context lasts."""
        if self.file is not None:
            yield self.file
            return
        descriptor, name = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii", errors="replace") as file:
                file.write(self.text)
            yield Path(name)
        finally:
            Path(name).unlink()

    def __str__(self) -> str:
        return str(self.file) if self.file is not None else "the PEM text"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Where certificates are and what clients must show."""

    certificate: Pem
    key: Pem
    client_authority: Pem | None = None
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
        self._load_certificate(context)
        context.verify_mode = self.client_auth
        if not self.server_chooses:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        if self.curve:
            context.set_ecdh_curve(self.curve)
        if self.client_authority is not None:
            try:
                with self.client_authority.on_disk() as path:
                    context.load_verify_locations(cafile=str(path))
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(str(self.client_authority), f"no certificates in it ({error})") from error
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        try:
            with self.certificate.on_disk() as certificate, self.key.on_disk() as key:
                # Without a password OpenSSL would ask a terminal for one, and wait.
                context.load_cert_chain(certificate, key, password="")
        except (OSError, ssl.SSLError) as error:
            where = f"{self.certificate} and {self.key}"
            raise ConfigError(where, f"no certificate with its key ({error})", "give PEM files that match") from error

    def files(self) -> list[Path]:
        """The files that are read."""
        return [pem.file for pem in (self.certificate, self.key, self.client_authority) if pem and pem.file]


def parse_tls(section: dict[str, Any], where: str, folder: Path) -> TlsSettings:
    """Settings from a section that has known keys only; its paths are relative to ``folder``. Raises ConfigError."""
    auth = section.get("client_auth_type") or "NoClientCert"
    if auth in _UNVERIFIED:
        raise ConfigError(
            f"{where}.client_auth_type", f"{auth} takes certificates that nobody verified, which is not served here",
            "use RequireAndVerifyClientCert with client_ca_file, or NoClientCert",
        )  # fmt: skip
    if auth not in _CLIENT_AUTH:
        raise ConfigError(f"{where}.client_auth_type", f"{auth!r} is not served", f"use {', '.join(_CLIENT_AUTH)}")
    authority = _pem(section, "client_ca", where, folder)
    if (auth == "NoClientCert") == (authority is not None):
        what = "is needed by it" if authority is None else "would not be used"
        raise ConfigError(
            f"{where}.client_auth_type", f"is {auth}, and client_ca_file {what}",
            "give both RequireAndVerifyClientCert and a CA, or neither",
        )  # fmt: skip
    names = tuple(section.get("client_allowed_sans") or ())
    if names and auth != "RequireAndVerifyClientCert":
        raise ConfigError(
            f"{where}.client_allowed_sans",
            f"says nothing under {auth}",
            "set client_auth_type RequireAndVerifyClientCert",
        )
    oldest = _version(section.get("min_version", "TLS12"), f"{where}.min_version")
    newest = _version(section.get("max_version", "TLS13"), f"{where}.max_version")
    if oldest > newest:
        raise ConfigError(f"{where}.min_version", "is above max_version", "lower it, or raise max_version")
    return TlsSettings(
        _needed(section, "cert", where, folder),
        _needed(section, "key", where, folder),
        authority,
        _CLIENT_AUTH[auth],
        names,
        oldest,
        newest,
        _ciphers(section.get("cipher_suites") or [], f"{where}.cipher_suites"),
        _curve(section.get("curve_preferences") or [], f"{where}.curve_preferences"),
        section.get("prefer_server_cipher_suites", True),
    )


def _needed(section: dict[str, Any], name: str, where: str, folder: Path) -> Pem:
    pem = _pem(section, name, where, folder)
    if pem is None:
        raise ConfigError(f"{where}.{name}_file", "is missing", "give the path of a PEM file")
    return pem


def _pem(section: dict[str, Any], name: str, where: str, folder: Path) -> Pem | None:
    """The file or the text under ``NAME_file`` or ``NAME``."""
    file, text = section.get(f"{name}_file"), section.get(name)
    if file and text:
        raise ConfigError(f"{where}.{name}", f"stands beside {name}_file", "give one of them")
    if file:
        return Pem(file=folder / file)
    return Pem(text=text) if text else None


def _ciphers(names: list[Any], where: str) -> str:
    """Go's names of TLS 1.2 suites as OpenSSL's; those of TLS 1.3 are always on, in both."""
    converted = []
    for name in names:
        if "_WITH_" not in name:
            continue
        text = name.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_CBC", "")
        converted.append(text.replace("_POLY1305_SHA256", "_POLY1305").replace("_", "-"))
    try:
        if converted:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(":".join(converted))
    except ssl.SSLError as error:
        raise ConfigError(where, f"none of {', '.join(names)} is known here") from error
    return ":".join(converted)


def _curve(names: list[Any], where: str) -> str:
    if not names:
        return ""
    if len(names) > 1 or names[0] not in _CURVES:
        raise ConfigError(where, f"{', '.join(names)} is not served", f"give one of {', '.join(_CURVES)}")
    return _CURVES[names[0]]


def _version(name: Any, where: str) -> ssl.TLSVersion:
    if name not in _VERSIONS:
        raise ConfigError(where, f"{name!r} is not served", f"use {' or '.join(_VERSIONS)}")
    return _VERSIONS[name]
