"""Prometheus's query API in JSON, which Thanos, Mimir, Cortex, VictoriaMetrics and managed services speak too."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

import httpx
import msgspec
import numpy as np
import yaml

from exporter.errors import SourceError
from pipelines.sources.prometheus.answer import SAMPLES_AT_ONCE, Answer, Question, cut
from pipelines.sources.prometheus.connection import (
    AnswerTooLargeError,
    Connection,
    Request,
    short,
    whole_body,
)
from pipelines.sources.prometheus.json_numbers import NotNumbersError, pairs
from pipelines.sources.prometheus.sign_in import client_of

if TYPE_CHECKING:
    from pipelines.config import Source

_LOG = logging.getLogger(__name__)
_QUERY: Final = "/api/v1/query"
_NAME: Final = "__name__"
_TOO_LARGE: Final = (
    "too many samples",
    "max-samples",
    "maxsamples",
    "exceeds the limit",
    "exceeded maximum",
    "exceeded the maximum",
)

T = TypeVar("T")


class _Envelope(msgspec.Struct):
    """What every answer is wrapped in; the names are the API's."""

    status: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    errorType: str = "no errorType"  # noqa: N815
    error: str = "no error text"
    warnings: list[str] | None = None
    isPartial: bool = False  # noqa: N815 - VictoriaMetrics says so


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")  # absent where all of a series are native histograms


class _Matrix(msgspec.Struct):
    result: list[_Series]


class _Vector(msgspec.Struct):
    result: list[dict[str, Any]]


class _Configuration(msgspec.Struct):
    yaml: str


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)


class PrometheusApi:
    """What is asked of one server in JSON. Threads may share it. Use as a context manager.

    Args:
        url: of the server, with any path prefix.
        client: carries headers, authentication and TLS.
        sleep: waits between attempts.
        jitter: see `Connection`.
    """

    name: Final = "query API"

    def __init__(
        self,
        url: str,
        client: httpx.Client,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.connection = Connection(url, client, sleep, jitter)
        self.url = self.connection.url
        self.external_labels: Mapping[str, str] = {}
        """Of the server, which its own query API leaves out and remote read puts in."""

    @classmethod
    def of(cls, source: Source, environ: Mapping[str, str] = os.environ) -> PrometheusApi:
        """The server of a configured source; secrets come from the environment and files that it names.

        Raises:
            SourceError: a variable or file that it names isn't there.
        """
        return cls(str(source.prometheus), client_of(source, environ))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.connection.close()

    def metric_names(self, start: datetime, end: datetime) -> list[str]:
        """Names of metrics that have samples about [start, end)."""
        bounds = {"start": _seconds(start), "end": _seconds(end)}
        return self._ask(Request("GET", "/api/v1/label/__name__/values", bounds), list[str])

    def has_series(self, names: Sequence[str], start: datetime, end: datetime) -> bool:
        """Whether any of these metrics has a sample about [start, end]; answered from the index alone."""
        form = {
            "match[]": f'{{__name__=~"{"|".join(names)}"}}',
            "start": _seconds(start),
            "end": _seconds(end),
            "limit": "1",
        }
        return bool(self._ask(Request("POST", "/api/v1/series", form=form), list[Any], one_is_enough=True))

    def query(self, expression: str, at: datetime) -> list[dict[str, Any]]:
        """The result of an instant query.

        Raises:
            AnswerTooLargeError: it touches more samples than the server allows.
            SourceError: no whole answer was to be had.
        """
        fields = {"query": expression, "time": _seconds(at)}
        return self._ask(Request("GET", _QUERY, fields), _Vector).result

    def count(self, names: Sequence[str], start: int, end: int) -> int | None:
        """Return how many samples of metrics are stored in [start, end) (ms), a ms more or less at the start.

        It is asked once: None where the server is too busy for it, or doesn't count.
        """
        expression = f'sum(count_over_time({{__name__=~"{"|".join(names)}"}}[{end - start}ms]))'
        fields = {"query": expression, "time": f"{(end - 1) / 1000:.3f}"}
        try:
            result = self._ask(Request("GET", _QUERY, fields), _Vector, probing=True).result
            return int(float(result[0]["value"][1])) if result else 0
        except (SourceError, KeyError, IndexError, TypeError, ValueError) as error:
            _LOG.warning(
                "%s: doesn't count its samples, so late ones of single series stay unseen: %s", self.url, error
            )
            return None

    def configuration(self) -> dict[str, Any]:
        """The server's own configuration; empty where it isn't shown."""
        try:
            shown = self._ask(Request("GET", "/api/v1/status/config"), _Configuration, probing=True)
            read = yaml.safe_load(shown.yaml)
        except (SourceError, yaml.YAMLError):
            return {}
        return read if isinstance(read, dict) else {}

    def read(self, question: Question, *, probing: bool = False) -> Answer:
        """The samples asked for, by an instant query of a range selector: they come with their own timestamps.

        Raises:
            AnswerTooLargeError: ask for less.
            SourceError: no whole answer was to be had.
        """
        # A range selector is closed on the left up to Prometheus 2 and open from 3 on. Evaluated 1 ms before the end
        # over the whole length it spans [start, end) on the newer and 1 ms more on the older, which is cut off.
        expression = f"{question.metric}[{question.end - question.start}ms]"
        fields = {"query": expression, "time": f"{(question.end - 1) / 1000:.3f}"}
        matrix = self._ask(Request("GET", _QUERY, fields), _Matrix, probing=probing)
        try:
            counts, seconds, values = pairs([series.values for series in matrix.result])
        except NotNumbersError as error:
            raise SourceError(self.url, f"answered {_QUERY} with {error}") from None
        if len(values) > SAMPLES_AT_ONCE:
            raise AnswerTooLargeError(self.url, f"answered {_QUERY} with too many samples")
        counts, times, values = cut(question, counts, np.rint(seconds * 1000).astype(np.int64), values)
        return Answer.of([self._labels(series.metric) for series in matrix.result], counts, times, values)

    def _labels(self, metric: dict[str, str]) -> Mapping[str, str]:
        metric.pop(_NAME, None)
        return {**self.external_labels, **metric} if self.external_labels else metric

    def _ask(self, request: Request, kind: type[T], *, one_is_enough: bool = False, probing: bool = False) -> T:
        return self.connection.ask(
            request,
            lambda response: self._decoded(response, request.path, kind, one_is_enough=one_is_enough),
            probing=probing,
        )

    def _decoded(self, response: httpx.Response, path: str, kind: type[T], *, one_is_enough: bool) -> T:
        body = whole_body(response, self.url, path)
        try:
            answer = _ENVELOPE.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SourceError(
                self.url,
                f"answered {path} with HTTP {response.status_code} and no JSON",
                "check that the URL is that of a Prometheus, with its path prefix",
            ) from None
        if answer.status != "success":
            self._refuse(path, response.status_code, answer)
        warnings = [text for text in answer.warnings or [] if not (one_is_enough and "limit" in text)]
        if warnings or answer.isPartial:
            reason = short(warnings[0]) if warnings else "isPartial"
            raise SourceError(self.url, f"answered {path} in part only ({reason})", "try again when it is whole")
        try:
            return msgspec.json.decode(answer.data, type=kind)
        except msgspec.DecodeError as error:
            raise SourceError(self.url, f"answered {path} with something else ({short(str(error))})") from None

    def _refuse(self, path: str, status: int, answer: _Envelope) -> NoReturn:
        reason = short(f"{answer.errorType}: {answer.error}")
        if any(sign in reason.lower() for sign in _TOO_LARGE):
            raise AnswerTooLargeError(self.url, f"refused {path} ({reason})", "raise --query.max-samples")
        mend = "check the credentials of this source" if status in {401, 403} else "ask the server's log"
        raise SourceError(self.url, f"answered {path} with HTTP {status} ({reason})", mend)


def _seconds(time: datetime) -> str:
    return f"{time.timestamp():.3f}"
