"""Prometheus's HTTP API, asked so that an answer is whole or an error: never a part that looks like all."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from exporter.errors import SourceError

if TYPE_CHECKING:
    from pipelines.config import Source

_ATTEMPTS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.5
_WORTH_RETRYING: Final = frozenset({429, 500, 502, 503, 504})
_TIMEOUT: Final = httpx.Timeout(120, connect=10)
_TOO_LARGE: Final = ("too many samples", "max-samples", "maxsamples", "exceeds the limit", "exceeded maximum")


class AnswerTooLargeError(SourceError):
    """The server refuses the query for its size; a shorter window may do."""


class PrometheusApi:
    """What is asked of one server. Use as a context manager.

    Args:
        url: of the server, with any path prefix.
        client: carries headers, authentication and TLS.
        sleep: waits between attempts.
    """

    def __init__(self, url: str, client: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.url = url.rstrip("/")
        self._client = client
        self._sleep = sleep

    @classmethod
    def of(cls, source: Source, environ: Mapping[str, str] = os.environ) -> PrometheusApi:
        """The server of a configured source; secrets come from the environment and files that it names.

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
        return cls(url, httpx.Client(headers=headers, auth=auth, verify=_tls(source), timeout=_TIMEOUT))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def metric_names(self, start: datetime, end: datetime) -> list[str]:
        """Names of metrics that have samples about [start, end)."""
        bounds = {"start": _seconds(start), "end": _seconds(end)}
        return [str(name) for name in self._ask("GET", "/api/v1/label/__name__/values", bounds)]

    def has_series(self, names: Sequence[str], start: datetime, end: datetime) -> bool:
        """Whether any of these metrics has a sample about [start, end]; answered from the index alone."""
        form = {
            "match[]": f'{{__name__=~"{"|".join(names)}"}}',
            "start": _seconds(start),
            "end": _seconds(end),
            "limit": "1",
        }
        return bool(self._ask("POST", "/api/v1/series", form, one_is_enough=True))

    def query(self, expression: str, at: datetime) -> list[dict[str, Any]]:
        """The result of an instant query.

        Raises:
            AnswerTooLargeError: it touches more samples than the server allows.
            SourceError: no whole answer was to be had.
        """
        answer = self._ask("GET", "/api/v1/query", {"query": expression, "time": _seconds(at)})
        result: list[dict[str, Any]] = answer["result"]
        return result

    def _ask(self, method: str, path: str, fields: dict[str, str], *, one_is_enough: bool = False) -> Any:
        response = self._send(method, path, fields)
        try:
            body = response.json()
        except ValueError:
            raise SourceError(
                self.url,
                f"answered {path} with HTTP {response.status_code} and no JSON",
                "check that the URL is that of a Prometheus, with its path prefix",
            ) from None
        if not isinstance(body, dict) or body.get("status") != "success":
            self._refuse(path, response.status_code, body if isinstance(body, dict) else {})
        warnings = [str(text) for text in body.get("warnings") or []]
        if one_is_enough:
            warnings = [text for text in warnings if "limit" not in text]
        if warnings or body.get("isPartial"):
            reason = warnings[0] if warnings else "isPartial"
            raise SourceError(
                self.url, f"answered {path} in part only ({_short(reason)})", "try again when it is whole"
            )
        return body["data"]

    def _refuse(self, path: str, status: int, body: dict[str, Any]) -> None:
        reason = _short(f"{body.get('errorType', 'no errorType')}: {body.get('error', 'no error text')}")
        if any(sign in reason.lower() for sign in _TOO_LARGE):
            raise AnswerTooLargeError(self.url, f"refused {path} ({reason})", "raise --query.max-samples")
        mend = "check the credentials of this source" if status in {401, 403} else "ask the server's log"
        raise SourceError(self.url, f"answered {path} with HTTP {status} ({reason})", mend)

    def _send(self, method: str, path: str, fields: dict[str, str]) -> httpx.Response:
        """The answer to one request, tried again while the server is unwell."""
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            try:
                if method == "GET":
                    response = self._client.get(self.url + path, params=fields)
                else:
                    response = self._client.post(self.url + path, data=fields)
            except httpx.HTTPError as error:
                if last:
                    reason = str(error) or type(error).__name__
                    mend = "check that it runs and that the URL is right"
                    raise SourceError(self.url, f"could not be reached ({_short(reason)})", mend) from None
            else:
                if last or response.status_code not in _WORTH_RETRYING:
                    return response
            self._sleep(pause)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")


def _seconds(time: datetime) -> str:
    return f"{time.timestamp():.3f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


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
    path: Path = source.resolve(file)
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(path), f"could not be read as {kind}_file ({error})", "correct the path") from None


def _tls(source: Source) -> ssl.SSLContext | bool:
    if source.ca_file is None and source.cert_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=source.ca_file and str(source.resolve(source.ca_file)))
        if source.cert_file is not None and source.key_file is not None:
            context.load_cert_chain(source.resolve(source.cert_file), source.resolve(source.key_file))
    except (OSError, ssl.SSLError) as error:
        raise SourceError(
            str(source.prometheus), f"its TLS files could not be read ({error})", "correct them"
        ) from None
    return context
