"""A server's answers, by path; what was asked is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import cramjam
import google_crc32c
import httpx

from pipelines.sources.prometheus import messages
from pipelines.sources.prometheus.query_api import PrometheusApi
from tests.pipelines.sources import xor_reference
from tests.pipelines.sources.xor_reference import Sample

URL: Final = "http://prometheus.test/prefix"
STREAMED: Final = {"Content-Type": "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"}
WHOLE: Final = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}

Answer = Callable[[httpx.Request], httpx.Response]
Labels = Mapping[str, str]


def success(data: object, **more: object) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": data, **more})


def matrix(*series: tuple[Labels, Sequence[tuple[float, str]]]) -> httpx.Response:
    return success({"resultType": "matrix", "result": [{"metric": m, "values": v} for m, v in series]})


class Server:
    """Has these metrics; what it isn't given an answer for it doesn't know."""

    def __init__(self, names: Sequence[str], **answers: Answer) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pauses: list[float] = []
        self._answers: dict[str, Answer] = {
            "label/__name__/values": lambda _: success(list(names)),
            "series": lambda _: success([]),
            **{name.replace("__", "/"): answer for name, answer in answers.items()},
        }

    def api(self) -> PrometheusApi:
        client = httpx.Client(transport=httpx.MockTransport(self._answer))
        return PrometheusApi(URL, client, sleep=self.pauses.append, jitter=lambda: 0.5)

    def queries(self) -> list[dict[str, str]]:
        return [form for path, form in self.asked if path == "query"]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/prefix/api/v1/")
        form = dict(request.url.params)
        if request.headers.get("Content-Type") == "application/x-www-form-urlencoded":
            form |= dict(httpx.QueryParams(request.content.decode()))
        self.asked.append((path, form))
        answer = self._answers.get(path)
        return answer(request) if answer else httpx.Response(404, text="404 page not found")


def read_request(request: httpx.Request) -> Any:
    """What a remote read asks for."""
    return messages.ReadRequest.FromString(bytes(cramjam.snappy.decompress_raw(request.content)))


def frame(message: bytes) -> bytes:
    """One frame of a streamed answer."""
    return varint(len(message)) + google_crc32c.value(message).to_bytes(4) + message


def chunked(labels: Labels, *chunks: Sequence[Sample], encoding: int = messages.XOR) -> bytes:
    """A message with one series."""
    return field(
        1,
        b"".join(field(1, label(name, value)) for name, value in labels.items())
        + b"".join(field(2, chunk(samples, encoding)) for samples in chunks),
    )


def chunk(samples: Sequence[Sample], encoding: int) -> bytes:
    bounds = number(1, samples[0][0]) + number(2, samples[-1][0])
    return bounds + number(3, encoding) + field(4, xor_reference.encode(samples))


def samples_message(*series: tuple[Labels, Sequence[Sample]]) -> bytes:
    """A ReadResponse, compressed; as gogo-proto does, fields that are zero are left out."""
    written = b"".join(
        field(
            1,
            b"".join(field(1, label(name, value)) for name, value in labels.items())
            + b"".join(field(2, fixed(1, xor_reference.bits_of(value)) + number(2, time)) for time, value in samples),
        )
        for labels, samples in series
    )
    return bytes(cramjam.snappy.compress_raw(field(1, written)))


def label(name: str, value: str) -> bytes:
    return field(1, name.encode()) + field(2, value.encode())


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value % (1 << 64)) if value else b""


def fixed(number: int, bits: int) -> bytes:
    return varint(number << 3 | 1) + bits.to_bytes(8, "little") if bits else b""


def varint(value: int) -> bytes:
    text = xor_reference.varint(value)
    return int(text, 2).to_bytes(len(text) // 8)


def in_pieces(body: bytes, size: int = 7) -> Iterator[bytes]:
    """A body as a network may deliver it."""
    for start in range(0, len(body), size):
        yield body[start : start + size]
