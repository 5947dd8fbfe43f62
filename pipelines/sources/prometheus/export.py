"""VictoriaMetrics' /api/v1/export: a line of JSON per series, its values and timestamps as two arrays."""

from __future__ import annotations

import re
from typing import Final, NoReturn

import httpx
import msgspec
import numpy as np
import polars as pl

from pipelines.sources.prometheus.answer import SAMPLES_AT_ONCE, Answer, Question, cut, summed
from pipelines.sources.prometheus.connection import (
    AnswerTooLargeError,
    Connection,
    CutShortError,
    NotSpokenError,
    Request,
    short,
    whole_body,
)
from pipelines.sources.prometheus.json_numbers import NotNumbersError, lists

PATH: Final = "/api/v1/export"
_KIND: Final = "application/stream+json"
_TOO_LARGE: Final = ("-search.max",)
_NAME: Final = "__name__"
# Up to 1.8x it writes what JSON doesn't know.
_BARE_INFINITY: Final = re.compile(rb"(?<=[\[,])([+-]?)Inf(?=[,\]])")


class _Line(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw
    timestamps: msgspec.Raw


_LINES: Final = msgspec.json.Decoder(_Line)


class Export:
    """Reads by VictoriaMetrics' export of raw samples."""

    name: Final = "VictoriaMetrics export"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, question: Question, *, probing: bool = False) -> Answer:
        """The samples asked for.

        Raises:
            NotSpokenError: the server isn't a VictoriaMetrics.
            AnswerTooLargeError: ask for less.
            SourceError: no whole answer was to be had.
        """
        form = {
            "match[]": f'{{__name__="{question.metric}"}}',
            "start": f"{question.start / 1000:.3f}",
            "end": f"{(question.end - 1) / 1000:.3f}",
            "deny_partial_response": "1",  # of a cluster with a node that is away
        }
        request = Request("POST", PATH, form=form)
        return self._connection.ask(request, lambda response: self._answer(response, question), probing=probing)

    def _answer(self, response: httpx.Response, question: Question) -> Answer:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        body = whole_body(response, self._connection.url, PATH)
        if response.status_code != httpx.codes.OK or kind != _KIND:
            self._refuse(response.status_code, body)
        if body and not body.endswith(b"\n"):
            raise CutShortError("its last line has no end")
        try:
            lines = _decoded(body)
            counts, values = lists([line.values for line in lines], pl.Float64)
            times = lists([line.timestamps for line in lines], pl.Int64)
        except (msgspec.DecodeError, NotNumbersError) as error:
            raise CutShortError(str(error)) from None
        if not np.array_equal(counts, times[0]) or times[1].null_count():
            raise CutShortError("as many values as timestamps were expected")
        if len(values) > SAMPLES_AT_ONCE:
            raise AnswerTooLargeError(self._connection.url, f"answered {PATH} with too many samples")
        # VictoriaMetrics takes in no NaN but the staleness marker, which it shows as null.
        there = values.is_not_null().to_numpy()
        counts = summed(there.astype(np.int64), counts)
        kept = cut(question, counts, times[1].to_numpy()[there], values.drop_nulls().to_numpy())
        return Answer.of([_labels(line.metric) for line in lines], *kept)

    def _refuse(self, status: int, body: bytes) -> NoReturn:
        said = short(body.decode("utf-8", "replace"))
        what = f"answered {PATH} with HTTP {status} ({said})"
        if any(sign in said for sign in _TOO_LARGE):
            raise AnswerTooLargeError(self._connection.url, what, "raise the limit that it names")
        raise NotSpokenError(self._connection.url, what)


def _decoded(body: bytes) -> list[_Line]:
    try:
        return _LINES.decode_lines(body)
    except msgspec.DecodeError:
        return _LINES.decode_lines(_BARE_INFINITY.sub(rb'"\1Infinity"', body))


def _labels(metric: dict[str, str]) -> dict[str, str]:
    metric.pop(_NAME, None)
    return metric
