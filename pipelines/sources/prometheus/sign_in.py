"""Headers, credentials and TLS of a configured server."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

import httpx

from exporter.errors import SourceError
from pipelines.sources.prometheus.transport import UrllibTransport

if TYPE_CHECKING:
    from pipelines.config import Source


# Uncompressed: for a server next door packing takes longer than sending.
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "gpuledger"}
_TIMEOUT: Final = httpx.Timeout(120, connect=10)


def client_of(source: Source, environ: Mapping[str, str] = os.environ) -> httpx.Client:
    """The client of a configured source; secrets come from the environment and the files that it names.

    Raises:
        SourceError: a variable or file that it names isn't there.
    """
    url = str(source.prometheus)
    headers = {header: _variable(url, variable, environ) for header, variable in source.headers_env.items()}
    token = _secret(source, "bearer_token", environ)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    password = _secret(source, "password", environ)
    auth = None if source.username is None else httpx.BasicAuth(source.username, password or "")
    tls = _tls(source)
    transport = None  # where the environment names proxies, httpx finds its way through them
    if not getproxies():
        transport = UrllibTransport(httpx.create_ssl_context() if tls is True else tls or None)
    return httpx.Client(headers=_HEADERS | headers, auth=auth, verify=tls, timeout=_TIMEOUT, transport=transport)


def _variable(url: str, name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if not value:
        raise SourceError(url, f"environment variable {name} is not set", "set it before the start")
    return value


def _secret(source: Source, kind: str, environ: Mapping[str, str]) -> str | None:
    variable, file = getattr(source, f"{kind}_env"), getattr(source, f"{kind}_file")
    if variable is not None:
        return _variable(str(source.prometheus), variable, environ)
    if file is None:
        return None
    path = source.resolve(file)
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(path), f"could not be read as {kind}_file ({error})", "correct the path") from None


def _tls(source: Source) -> ssl.SSLContext | bool:
    if source.ca_file is None and source.cert_file is None:
        # Loading the system's authorities takes as long as some answers, and redirects are not followed.
        return str(source.prometheus).lower().startswith("https:")
    try:
        context = ssl.create_default_context(cafile=source.ca_file and str(source.resolve(source.ca_file)))
        if source.cert_file is not None and source.key_file is not None:
            context.load_cert_chain(source.resolve(source.cert_file), source.resolve(source.key_file))
    except (OSError, ssl.SSLError) as error:
        raise SourceError(
            str(source.prometheus), f"its TLS files could not be read ({error})", "correct them"
        ) from None
    return context
