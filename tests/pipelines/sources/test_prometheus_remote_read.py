"""Remote read: what is decoded, what is believed, and where it falls back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

import httpx
import polars as pl
import pytest

from exporter.errors import SourceError
from pipelines.config import Source
from pipelines.sources.prometheus import read_prometheus
from pipelines.sources.prometheus.answer import STALE_MARKER
from pipelines.sources.prometheus.reading import read_windows
from tests.pipelines.sources.prometheus_double import (
    STREAMED,
    URL,
    WHOLE,
    Answer,
    Server,
    chunk,
    chunked,
    field,
    frame,
    in_pieces,
    label,
    matrix,
    read_request,
    samples_message,
    success,
)
from tests.pipelines.sources.xor_reference import Sample, value_of

NAME = "DCGM_FI_DEV_GPU_UTIL"
NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
WINDOW = (NOON, NOON + timedelta(hours=1))
STALE = value_of(STALE_MARKER)
CARD = {"Hostname": "n1", "UUID": "GPU-a", "__name__": NAME}
OTHER = {"Hostname": "n1", "UUID": "GPU-b", "__name__": NAME}


def every(seconds: int, *values: float, start: int = 0) -> list[Sample]:
    return [(NOON_MS + 1000 * (start + seconds * n), value) for n, value in enumerate(values)]


def streaming(*messages: bytes, after: bytes = b"") -> Answer:
    body = b"".join(map(frame, messages)) + after
    return lambda _: httpx.Response(200, headers=STREAMED, content=in_pieces(body))


def table(server: Server) -> pl.DataFrame:
    return read_prometheus(Source(prometheus=URL), WINDOW, api=server.api()).samples


def values(server: Server) -> list[tuple[str, int, float]]:
    rows = table(server).select("device", pl.col("time").dt.epoch("ms"), pl.col("gpu_util_ratio") * 100)
    return [(device, t - NOON_MS, round(value, 6)) for device, t, value in rows.rows()]


def test_chunks_of_a_series_in_several_frames_are_one_series() -> None:
    server = Server(
        [NAME],
        read=streaming(
            chunked(CARD, every(15, 1, 2), every(15, 3, start=30)),
            chunked(CARD, every(15, 4, start=45)) + chunked(OTHER, every(15, 9)),
        ),
    )
    assert values(server) == [
        ("GPU-a", 0, 1), ("GPU-a", 15_000, 2), ("GPU-a", 30_000, 3), ("GPU-a", 45_000, 4), ("GPU-b", 0, 9),
    ]  # fmt: skip
    assert server.queries() == []


@pytest.mark.parametrize("size", [1, 130, 20_000])
def test_labels_of_any_length_are_read_wherever_the_name_stands(size: int) -> None:
    pod = "p" * size
    first = {"__name__": NAME, "Hostname": "n1", "UUID": "GPU-a", "pod": pod}
    last = {"Hostname": "n1", "UUID": "GPU-b", "pod": pod, "__name__": NAME}
    nameless = {"Hostname": "n1", "UUID": "GPU-c", "pod": pod}
    found = table(Server([NAME], read=streaming(*(chunked(of, every(15, 1)) for of in (first, last, nameless)))))
    assert found.select("device", "pod").rows() == [("GPU-a", pod), ("GPU-b", pod), ("GPU-c", pod)]


def test_labels_that_stand_after_the_chunks_are_read_too() -> None:
    labels = [field(1, label(name, value)) for name, value in CARD.items()]
    series = field(1, labels[0] + field(2, chunk(every(15, 5), 1)) + labels[2] + labels[1])
    assert values(Server([NAME], read=streaming(series))) == [("GPU-a", 0, 5)]


def test_a_series_without_labels_is_counted() -> None:
    series = field(1, field(2, chunk(every(15, 5), 1)))
    batch = read_prometheus(Source(prometheus=URL), WINDOW, api=Server([NAME], read=streaming(series)).api())
    assert [(f.count, f.detail) for f in batch.findings] == [
        (1, f"{URL}: series that names no device (no UUID, no node with a GPU index)")
    ]


def test_an_answer_may_be_of_many_blocks_and_frames_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.sources.prometheus.remote_read._BLOCK_BYTES", 64)
    cards = [{**CARD, "UUID": f"GPU-{n}"} for n in range(20)]
    messages = [chunked(card, every(15, *range(n + 1))) for n, card in enumerate(cards)]
    assert values(Server([NAME], read=streaming(*messages))) == sorted(
        (f"GPU-{n}", 15_000 * k, k) for n in range(20) for k in range(n + 1)
    )


def test_samples_outside_the_window_and_staleness_markers_are_left_out() -> None:
    hour = 3600
    samples = [*every(15, 1, start=-15), *every(15, 2, STALE, float("nan")), *every(15, 3, 4, start=hour - 15)]
    found = table(Server([NAME], read=streaming(chunked(CARD, samples))))
    assert [t - NOON_MS for t in found["time"].dt.epoch("ms")] == [0, 30_000, (hour - 15) * 1000]
    assert found["gpu_util_ratio"].is_nan().to_list() == [False, True, False]


def test_overlapping_chunks_give_each_sample_once_and_in_order() -> None:
    overlapping = chunked(CARD, every(15, 1, 2, 3), every(15, 2, 3, 4, start=15))
    assert [value for *_, value in values(Server([NAME], read=streaming(overlapping)))] == [1, 2, 3, 4]


def test_a_request_says_what_is_wanted_and_what_is_understood() -> None:
    asked = []

    def read(request: httpx.Request) -> httpx.Response:
        asked.append(read_request(request))
        assert request.headers["X-Prometheus-Remote-Read-Version"] == "0.1.0"
        return httpx.Response(200, headers=STREAMED)

    assert table(Server([NAME], read=read)).height == 0
    (query,) = asked[-1].queries
    assert (query.start_timestamp_ms, query.end_timestamp_ms) == (NOON_MS, NOON_MS + 3_600_000 - 1)
    assert [(matcher.name, matcher.value) for matcher in query.matchers] == [("__name__", NAME)]
    assert list(asked[-1].accepted_response_types) == [1, 0]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda body: body[:-1],
        lambda body: body + b"error on chunked remote read: context deadline exceeded\n",
        lambda body: body[:20] + bytes([body[20] ^ 1]) + body[21:],
        lambda body: body + b"\xff" * 12,
        lambda body: body + b"\x80",
        lambda body: body + frame(b"\x0a\x05ab"),
        lambda body: body + frame(chunked(CARD, every(15, 1))[:-1]),
    ],
)
def test_an_answer_that_is_cut_or_damaged_is_asked_for_again_and_then_an_error(
    damaged: Callable[[bytes], bytes],
) -> None:
    body = frame(chunked(CARD, every(15, 1, 2)))
    broken = httpx.Response(200, headers=STREAMED, content=damaged(body))
    whole = httpx.Response(200, headers=STREAMED, content=body)

    def answering(answers: Sequence[httpx.Response]) -> Server:
        left = chain([whole], answers, repeat(whole))  # the first is the question what it can do
        return Server([NAME], read=lambda _: next(left))

    server = answering([broken, broken])
    assert len(values(server)) == 2
    assert server.pauses == [0.5, 1.0]
    with pytest.raises(SourceError, match="/api/v1/read in part only"):
        values(answering([broken] * 4))


def test_an_unknown_encoding_of_chunks_falls_back_to_samples() -> None:
    def read(request: httpx.Request) -> httpx.Response:
        if 1 in read_request(request).accepted_response_types:
            return streaming(chunked(CARD, every(15, 1, 2), encoding=7))(request)
        return httpx.Response(200, headers=WHOLE, content=samples_message((CARD, every(15, 0, 2, STALE))))

    server = Server([NAME], read=read)
    assert values(server) == [("GPU-a", 0, 0), ("GPU-a", 15_000, 2)]
    assert server.queries() == []


def test_a_server_that_has_samples_only_is_read_by_them() -> None:
    body = samples_message((CARD, every(15, 1)), (OTHER, []))
    server = Server([NAME], read=lambda _: httpx.Response(200, headers=WHOLE, content=body))
    assert values(server) == [("GPU-a", 0, 1)]


def test_where_samples_are_refused_too_the_query_api_is_asked() -> None:
    def read(request: httpx.Request) -> httpx.Response:
        if 1 in read_request(request).accepted_response_types:
            return streaming(chunked(CARD, every(15, 1), encoding=2))(request)
        return httpx.Response(400, text="none of the accepted response types is supported")

    server = Server([NAME], read=read, query=lambda _: matrix((CARD, [(NOON.timestamp(), "7")])))
    assert values(server) == [("GPU-a", 0, 7)]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="404 page not found"),
        httpx.Response(400, text="unsupported path requested"),
        httpx.Response(403, text="forbidden"),
        httpx.Response(503, text="no backend for this path"),
        httpx.Response(200, json={"status": "success"}),
        httpx.Response(200, text="<html>sign in</html>"),
    ],
)
def test_a_server_without_remote_read_is_asked_once_and_read_by_the_query_api(answer: httpx.Response) -> None:
    server = Server([NAME], read=lambda _: answer, query=lambda _: matrix((CARD, [(NOON.timestamp(), "7")])))
    assert values(server) == [("GPU-a", 0, 7)]
    assert [path for path, _ in server.asked].count("read") == 1
    assert server.pauses == []


def test_a_server_that_never_answers_a_remote_read_is_not_waited_for_long() -> None:
    waits = []

    def read(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("timed out")

    server = Server([NAME], read=read, query=lambda _: matrix((CARD, [(NOON.timestamp(), "7")])))
    assert values(server) == [("GPU-a", 0, 7)]
    assert (waits, server.pauses) == ([10], [])


def test_a_server_that_reads_from_others_is_asked_by_the_api_that_tells_of_their_failures() -> None:
    configuration = "remote_read:\n- url: http://elsewhere\n"
    server = Server(
        [NAME],
        read=streaming(chunked(CARD, every(15, 1))),
        status__config=lambda _: success({"yaml": configuration}),
        query=lambda _: success({"resultType": "matrix", "result": []}, warnings=["remote_read: EOF"]),
    )
    with pytest.raises(SourceError, match="in part only"):
        values(server)


def test_a_limit_of_samples_shortens_the_window() -> None:
    def read(request: httpx.Request) -> httpx.Response:
        (query,) = read_request(request).queries
        if query.end_timestamp_ms - query.start_timestamp_ms > 1_000_000:
            return httpx.Response(400, text="exceeded sample limit (50000000)")
        at = max(query.start_timestamp_ms, NOON_MS)
        return httpx.Response(200, headers=STREAMED, content=frame(chunked(CARD, [(at, 1.0)])))

    batches = list(read_windows(Source(prometheus=URL), WINDOW, api=Server([NAME], read=read).api()))
    assert [(until - NOON).total_seconds() / 60 for until, _ in batches] == [15, 30, 45, 60]
    assert [batch.samples.height for _, batch in batches] == [1, 1, 1, 1]
