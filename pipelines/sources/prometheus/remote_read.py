"""Samples by remote read: XOR chunks as the server stores them, streamed; else samples in one message.

A streamed answer is a row of frames: length as a varint, CRC-32C of the message, the message. A server that fails half
way writes its error text after the last frame, under HTTP 200: the checksum is what tells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

import cramjam
import google_crc32c
import httpx
import numpy as np
from google.protobuf.message import DecodeError

from pipelines.sources.prometheus import messages
from pipelines.sources.prometheus.answer import SAMPLES_AT_ONCE, Answer, Floats, Ints, Question, cut, summed
from pipelines.sources.prometheus.connection import (
    MAX_ANSWER_BYTES,
    AnswerTooLargeError,
    Connection,
    CutShortError,
    NotSpokenError,
    Request,
    UnknownEncodingError,
    short,
    whole_body,
)
from pipelines.sources.prometheus.wire import PADDING, BadWireError, Packed, repeated, scan
from pipelines.sources.prometheus.xor import BadChunkError, decode

PATH: Final = "/api/v1/read"
_HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
}
_STREAMED: Final = "application/x-streamed-protobuf"
_WHOLE: Final = "application/x-protobuf"
_TOO_LARGE: Final = ("sample limit", "too many samples", "exceeds the limit", "exceeded the maximum")
_NAME: Final = "__name__"
_NAME_FIELD: Final = np.frombuffer(b"\n\x08__name__", np.uint8)  # how a label of that name begins
_LABELS_TAG: Final = messages.LABELS << 3 | 2

_CHECKSUM_BYTES: Final = 4
_LONGEST_VARINT: Final = 10
_BLOCK_BYTES: Final = 4 << 20  # mostly a metric's day of some hundred cards: what is decoded at once isn't joined after

_Samples = tuple[Ints, Ints, Ints, Floats]
"""Series of each count, counts, times, values."""


class RemoteRead:
    """Reads by Prometheus's remote read protocol.

    Args:
        streamed: False: ask for samples, which every server that speaks it has.
    """

    def __init__(self, connection: Connection, *, streamed: bool = True) -> None:
        self._connection = connection
        self._types = [messages.STREAMED_XOR_CHUNKS, messages.SAMPLES] if streamed else [messages.SAMPLES]
        self.name = "remote read" if streamed else "remote read of samples"

    def read(self, question: Question, *, probing: bool = False) -> Answer:
        """The samples asked for.

        Raises:
            NotSpokenError: the server doesn't speak it, or encodes chunks in a way that isn't known here.
            AnswerTooLargeError: ask for less.
            SourceError: no whole answer was to be had.
        """
        query = {
            "start_timestamp_ms": question.start,
            "end_timestamp_ms": question.end - 1,
            "matchers": [{"name": _NAME, "value": question.metric}],
        }
        message = messages.ReadRequest(queries=[query], accepted_response_types=self._types)
        body = bytes(cramjam.snappy.compress_raw(message.SerializeToString()))
        request = Request("POST", PATH, body=body, headers=_HEADERS)
        return self._connection.ask(request, lambda response: self._answer(response, question), probing=probing)

    def _answer(self, response: httpx.Response, question: Question) -> Answer:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        if response.status_code != httpx.codes.OK or kind not in {_STREAMED, _WHOLE}:
            self._refuse(response)
        try:
            if kind == _STREAMED:
                return self._from_chunks(response, question)
            return self._from_samples(whole_body(response, self._connection.url, PATH), question)
        except (BadWireError, BadChunkError, DecodeError) as error:
            raise CutShortError(str(error)) from None

    def _refuse(self, response: httpx.Response) -> NoReturn:
        url = self._connection.url
        said = short(whole_body(response, url, PATH).decode("utf-8", "replace"))
        what = f"answered {PATH} with HTTP {response.status_code} ({said})"
        if any(sign in said for sign in _TOO_LARGE):
            raise AnswerTooLargeError(url, what, "raise --storage.remote.read-sample-limit")
        raise NotSpokenError(url, what)

    def _from_chunks(self, response: httpx.Response, question: Question) -> Answer:
        series: list[bytes] = []
        parts: list[_Samples] = []
        kept = 0
        for block in _blocks(response.iter_bytes()):
            ((told, _),) = repeated(block, [messages.SERIES])
            found = _Series.of(told)
            of: list[int] = []
            for labels in found.labels:
                if not series or labels != series[-1]:  # a series may go on in the next frame
                    series.append(labels)
                of.append(len(series) - 1)
            per_chunk, times, values = self._decoded(found.points)
            counts, times, values = cut(question, summed(per_chunk, found.counts), times, values)
            parts.append((np.array(of, np.int64), counts, times, values))
            kept += len(times)
            if kept > SAMPLES_AT_ONCE:
                raise AnswerTooLargeError(self._connection.url, f"answered {PATH} with too many samples")
        return _joined(series, parts)

    def _decoded(self, chunks: Packed) -> tuple[Ints, Ints, Floats]:
        fields = scan(chunks, (messages.CHUNK_TYPE, messages.CHUNK_DATA))
        encodings = fields[messages.CHUNK_TYPE].numbers
        strange = encodings[encodings != messages.XOR]
        if len(strange):
            what = f"sent chunks of encoding {strange[0]}; known is {messages.XOR} (XOR)"
            raise UnknownEncodingError(self._connection.url, what)
        data = fields[messages.CHUNK_DATA]
        return decode(chunks.buffer, data.starts, data.lengths)

    def _from_samples(self, body: bytes, question: Question) -> Answer:
        try:
            if cramjam.snappy.decompress_raw_len(body) > MAX_ANSWER_BYTES:
                raise AnswerTooLargeError(self._connection.url, f"answered {PATH} with too many samples")
            message = bytes(cramjam.snappy.decompress_raw(body))
        except cramjam.DecompressionError as error:
            raise CutShortError(str(error)) from None
        ((results, _),) = repeated(Packed.of([message]), [messages.RESULTS])
        ((series, _),) = repeated(results, [messages.SERIES])
        found = _Series.of(series)
        fields = scan(found.points, (messages.SAMPLE_VALUE, messages.SAMPLE_TIME))
        times = fields[messages.SAMPLE_TIME].numbers.view(np.int64)
        values = fields[messages.SAMPLE_VALUE].numbers.view(np.float64)
        counts, times, values = cut(question, found.counts, times, values)
        return Answer.of(list(map(_labels, found.labels)), counts, times, values)


@dataclass(frozen=True)
class _Series:
    """Series as they came, one after the other.

    Args:
        labels: of each, as they stand on the wire, without the name.
        counts: points of each.
        points: chunks or samples.
    """

    labels: list[bytes]
    counts: Ints
    points: Packed

    @classmethod
    def of(cls, series: Packed) -> _Series:
        """Find them in messages. Raises BadWireError."""
        (labels, many), (points, counts) = repeated(series, [messages.LABELS, messages.POINTS])
        return cls(_without_names(series, labels, many), counts, points)


def _without_names(series: Packed, labels: Packed, many: Ints) -> list[bytes]:
    """The labels of each series in one piece, less that of its name.

    Args:
        labels, many: of all series, and of each.
    """
    last = np.cumsum(many) - 1
    ends = np.where(many > 0, labels.ends[last] if len(labels.ends) else 0, series.starts)
    first_bytes = labels.bytes[labels.starts[:, None] + np.arange(len(_NAME_FIELD))]
    named = np.flatnonzero((first_bytes == _NAME_FIELD).all(axis=1))
    of = np.searchsorted(last, named)
    lengths = labels.ends[named] - labels.starts[named]
    # Before it stand its tag and its length, as short as they can be written.
    begins = labels.starts[named] - 1 - (1 + (lengths >= 1 << 7) + (lengths >= 1 << 14) + (lengths >= 1 << 21))
    if (labels.bytes[begins] != _LABELS_TAG).any():
        raise BadWireError("a label is not written as it should be")
    name_starts, name_ends = ends.copy(), ends.copy()
    name_starts[of], name_ends[of] = begins, labels.ends[named]
    bounds = zip(series.starts.tolist(), name_starts.tolist(), name_ends.tolist(), ends.tolist(), strict=True)
    buffer = series.buffer
    return [buffer[start:name] + buffer[after:end] for start, name, after, end in bounds]


def _blocks(pieces: Iterator[bytes]) -> Iterator[Packed]:
    """The messages of a streamed answer, as many at a time as are worth the while.

    Raises:
        BadWireError: it is cut, or what comes is no frame.
    """
    came: list[bytes] = []
    size, needed = 0, _BLOCK_BYTES
    for piece in pieces:
        came.append(piece)
        size += len(piece)
        if size >= needed:
            block, end, missing = _framed(came, size)
            yield block
            came, size = [block.buffer[end:size]], size - end
            needed = max(size + missing, _BLOCK_BYTES)
    block, end, _ = _framed(came, size)
    if end != size:
        raise BadWireError("the last frame is cut")
    yield block


def _framed(pieces: list[bytes], size: int) -> tuple[Packed, int, int]:
    """The messages of all whole frames, where these end, and the bytes that the next one lacks at least.

    Raises:
        BadWireError: what comes is no frame.
    """
    held = b"".join([*pieces, PADDING])
    starts, ends = [], []
    at, missing = 0, 1
    while at < size:
        length, start = _length(held, at, size)
        begin = start + _CHECKSUM_BYTES
        end = begin + length
        if (missing := end - size) > 0:
            break
        if google_crc32c.value(held[begin:end]) != int.from_bytes(held[start:begin]):
            raise BadWireError("a frame's checksum is wrong")
        starts.append(begin)
        ends.append(end)
        at = end
    return Packed(held, np.array(starts, np.int64), np.array(ends, np.int64)), at, missing


def _length(held: bytes, at: int, size: int) -> tuple[int, int]:
    """Length of the frame that begins here, and where its checksum does; a length that is cut is one more than held."""
    length = 0
    for nth in range(min(size - at, _LONGEST_VARINT)):
        byte = held[at + nth]
        length |= (byte & 127) << 7 * nth
        if byte < 128:
            if length > MAX_ANSWER_BYTES:
                raise BadWireError(f"a frame of {length} bytes")
            return length, at + nth + 1
    if size - at >= _LONGEST_VARINT:
        raise BadWireError("a frame without a length")
    return 0, size + 1


def _joined(series: list[bytes], parts: list[_Samples]) -> Answer:
    counts = np.zeros(len(series), np.int64)
    for of, in_part, _, _ in parts:
        np.add.at(counts, of, in_part)
    if len(parts) == 1:
        _, _, times, values = parts[0]
    else:
        times = np.concatenate([np.zeros(0, np.int64), *(times for _, _, times, _ in parts)])
        values = np.concatenate([np.zeros(0, np.float64), *(values for *_, values in parts)])
    return Answer.of(list(map(_labels, series)), counts, times, values)


@lru_cache(maxsize=1 << 14)
def _labels(written: bytes) -> Mapping[str, str]:
    """Labels as they stand on the wire; most metrics of a device have them in common."""
    return {sys.intern(label.name): label.value for label in messages.Labels.FromString(written).labels}
