"""HTTP to one server, asked so that an answer is whole or an error: never a part that looks like all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, TypeVar

import httpx

from exporter.errors import SourceError

MAX_ANSWER_BYTES: Final = 64 << 20
"""Of one answer: what several requests in flight hold stays a small part of a machine's memory."""

_ATTEMPTS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 60.0
_PROBE: Final = httpx.Timeout(10)
_WORTH_RETRYING: Final = frozenset({408, 429, 500, 502, 503, 504})

T = TypeVar("T")


class AnswerTooLargeError(SourceError):
    """The answer is larger than the server or this reader allows; a shorter window may do."""


class NotSpokenError(SourceError):
    """The server doesn't speak this protocol; another may do."""


class UnknownEncodingError(NotSpokenError):
    """The server speaks the protocol, and packs its samples in a way that isn't known here."""


class CutShortError(Exception):
    """The answer ends, or turns into something else, before it is whole; asking again may do."""


class Request(NamedTuple):
    """One request, always one that only reads."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


class Connection:
    """One server. Threads may share it.

    Args:
        url: of the server, with any path prefix.
        client: carries headers, authentication and TLS.
        sleep: waits between attempts.
        jitter: a number in [0, 1): clients that failed together don't come back together.
    """

    def __init__(
        self,
        url: str,
        client: httpx.Client,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self._client = client
        self._sleep, self._jitter = sleep, jitter

    def close(self) -> None:
        """Close it."""
        self._client.close()

    def ask(self, request: Request, consume: Callable[[httpx.Response], T], *, probing: bool = False) -> T:
        """What ``consume`` makes of the answer, whose body it streams; asked again while the server is unwell.

        Args:
            probing: ask once and wait shortly, since no answer is one too.

        Raises:
            SourceError: no answer, or none that is whole; and what ``consume`` raises.
        """
        attempts = 1 if probing else _ATTEMPTS
        for attempt in range(1, attempts + 1):
            last = attempt == attempts
            least = 0.0
            try:
                with self._streamed(request, probing=probing) as response:
                    if last or response.status_code not in _WORTH_RETRYING:
                        return consume(response)
                    least = _retry_after(response)
            except httpx.HTTPError as error:
                if last:
                    reason = short(str(error) or type(error).__name__)
                    mend = "check that it runs and that the URL is right"
                    raise SourceError(self.url, f"could not be reached ({reason})", mend) from None
            except CutShortError as error:
                if last:
                    what = f"answered {request.path} in part only ({short(str(error))})"
                    raise SourceError(self.url, what, "try again when it is whole") from None
            pause = _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1) * (0.5 + self._jitter())
            self._sleep(min(max(pause, least), _LONGEST_PAUSE_SECONDS))
        raise AssertionError("the last attempt returns or raises")

    def _streamed(self, request: Request, *, probing: bool) -> AbstractContextManager[httpx.Response]:
        """An answer whose body is not read yet."""
        return self._client.stream(
            request.method,
            self.url + request.path,
            params=request.params,
            data=request.form,
            content=request.body,
            headers=request.headers,
            timeout=_PROBE if probing else httpx.USE_CLIENT_DEFAULT,
        )


def whole_body(response: httpx.Response, url: str, path: str) -> bytes:
    """The body of an answer.

    Raises:
        AnswerTooLargeError: it is larger than MAX_ANSWER_BYTES.
    """
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            what = f"answered {path} with more than {MAX_ANSWER_BYTES >> 20} MiB"
            raise AnswerTooLargeError(url, what, "lower the scrape interval or the labels of its series")
    return b"".join(pieces)


def short(text: str) -> str:
    """Foreign text on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks to be left alone; a date is not understood."""
    written = response.headers.get("Retry-After", "")
    return float(written) if written.isdecimal() else 0.0
