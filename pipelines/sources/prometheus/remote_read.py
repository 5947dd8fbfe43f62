"""Samples by remote read: XOR chunks as the server stores them, streamed; else samples in one message.

A streamed answer is a row of frames: length as a varint, CRC-32C of the message, the message. A server that fails half
way writes its error text after the last frame, under HTTP 200: the checksum is what tells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
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
from pipelines.sources.prometheus.wire import BadWireError, Packed, scan
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
_NAME_FIELD: Final = b"\n\x08__name__"  # how a label of that name begins
_CHUNK_TYPE, _CHUNK_DATA = 3, 4
_SAMPLE_VALUE, _SAMPLE_TIME = 1, 2

_CHECKSUM_BYTES: Final = 4
_LONGEST_VARINT: Final = 10
_BLOCK_BYTES: Final = 1 << 20

_RawLabels = tuple[bytes, ...]
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
        series: list[_RawLabels] = []
        parts: list[_Samples] = []
        kept = 0
        for message in _in_blocks(_frames(response.iter_bytes())):
            of: list[int] = []
            chunks: list[bytes] = []
            in_series: list[int] = []  # chunks
            for part in messages.ChunkedReadResponse.FromString(message).chunked_series:
                labels = tuple(part.labels)
                if not series or labels != series[-1]:  # a series may go on in the next frame
                    series.append(labels)
                of.append(len(series) - 1)
                chunks += part.chunks
                in_series.append(len(part.chunks))
            per_chunk, times, values = self._decoded(chunks)
            counts, times, values = cut(question, summed(per_chunk, in_series), times, values)
            parts.append((np.array(of, np.int64), counts, times, values))
            kept += len(times)
            if kept > SAMPLES_AT_ONCE:
                raise AnswerTooLargeError(self._connection.url, f"answered {PATH} with too many samples")
        return _joined(series, parts)

    def _decoded(self, chunks: list[bytes]) -> tuple[Ints, Ints, Floats]:
        packed = Packed.of(chunks)
        fields = scan(packed, (_CHUNK_TYPE, _CHUNK_DATA))
        strange = np.setdiff1d(fields[_CHUNK_TYPE].numbers, [messages.XOR])
        if len(strange):
            what = f"sent chunks of encoding {strange[0]}; known is {messages.XOR} (XOR)"
            raise UnknownEncodingError(self._connection.url, what)
        data = fields[_CHUNK_DATA]
        return decode(packed.buffer, data.starts, data.lengths)

    def _from_samples(self, body: bytes, question: Question) -> Answer:
        try:
            if cramjam.snappy.decompress_raw_len(body) > MAX_ANSWER_BYTES:
                raise AnswerTooLargeError(self._connection.url, f"answered {PATH} with too many samples")
            message = bytes(cramjam.snappy.decompress_raw(body))
        except cramjam.DecompressionError as error:
            raise CutShortError(str(error)) from None
        found = [part for result in messages.ReadResponse.FromString(message).results for part in result.timeseries]
        samples = [sample for part in found for sample in part.samples]
        fields = scan(Packed.of(samples), (_SAMPLE_VALUE, _SAMPLE_TIME))
        times, values = fields[_SAMPLE_TIME].numbers.view(np.int64), fields[_SAMPLE_VALUE].numbers.view(np.float64)
        counts = np.array([len(part.samples) for part in found], np.int64)
        counts, times, values = cut(question, counts, times, values)
        return Answer.of([_labels(tuple(part.labels)) for part in found], counts, times, values)


def _frames(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The messages of a streamed answer.

    Raises:
        BadWireError: it is cut, or what comes is no frame.
    """
    came = bytearray()
    needed = 1
    for piece in pieces:
        came += piece
        if len(came) < needed:
            continue
        held, at = bytes(came), 0
        while at < len(held):
            length, start = _length(held, at)
            begin = start + _CHECKSUM_BYTES
            needed = begin + length - at
            if len(held) < begin + length:
                break
            frame = held[begin : begin + length]
            if google_crc32c.value(frame) != int.from_bytes(held[start:begin]):
                raise BadWireError("a frame's checksum is wrong")
            yield frame
            at, needed = begin + length, 1
        came = bytearray(held[at:])
    if came:
        raise BadWireError("the last frame is cut")


def _in_blocks(frames: Iterator[bytes]) -> Iterator[bytes]:
    """Messages joined until they are worth the while: on the wire several after one another are one."""
    block: list[bytes] = []
    size = 0
    for frame in frames:
        block.append(frame)
        size += len(frame)
        if size >= _BLOCK_BYTES:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def _length(held: bytes, at: int) -> tuple[int, int]:
    """Length of the frame that begins here, and where its checksum does; a length that is cut is one more than held."""
    length = 0
    for nth in range(min(len(held) - at, _LONGEST_VARINT)):
        byte = held[at + nth]
        length |= (byte & 127) << 7 * nth
        if byte < 128:
            if length > MAX_ANSWER_BYTES:
                raise BadWireError(f"a frame of {length} bytes")
            return length, at + nth + 1
    if len(held) - at >= _LONGEST_VARINT:
        raise BadWireError("a frame without a length")
    return 0, len(held) + 1


def _joined(series: list[_RawLabels], parts: list[_Samples]) -> Answer:
    counts = np.zeros(len(series), np.int64)
    for of, in_part, _, _ in parts:
        np.add.at(counts, of, in_part)
    if len(parts) == 1:
        _, _, times, values = parts[0]
    else:
        times = np.concatenate([np.zeros(0, np.int64), *(times for _, _, times, _ in parts)])
        values = np.concatenate([np.zeros(0, np.float64), *(values for *_, values in parts)])
    return Answer.of([_labels(of) for of in series], counts, times, values)


def _labels(raw: _RawLabels) -> Mapping[str, str]:
    """Labels without the name."""
    for at, label in enumerate(raw):
        if label.startswith(_NAME_FIELD):
            return _without_name(raw[:at] + raw[at + 1 :])
    return _without_name(raw)


@lru_cache(maxsize=1 << 14)
def _without_name(raw: _RawLabels) -> Mapping[str, str]:
    """Labels that most metrics of a device have in common."""
    return dict(map(_label, raw))


@lru_cache(maxsize=1 << 16)
def _label(raw: bytes) -> tuple[str, str]:
    label = messages.Label.FromString(raw)
    return sys.intern(label.name), label.value
