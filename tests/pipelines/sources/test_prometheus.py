"""A Prometheus as a source, read by its query API: windows, failures, sign-in, what is stored at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import polars as pl
import pytest

from exporter.errors import SourceError
from pipelines.config import Source
from pipelines.sources.prometheus import read_prometheus, read_windows
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.prometheus.reading import readable
from pipelines.sources.prometheus.span import stored_span
from pipelines.tables import Batch
from tests.pipelines.sources.prometheus_double import URL, Server, matrix, success

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
HOUR = timedelta(hours=1)
NAME = "DCGM_FI_DEV_GPU_UTIL"
UTIL = {"__name__": NAME, "UUID": "GPU-a", "Hostname": "n1", "instance": "n1:9400", "job": "dcgm"}


def read(server: Server, start: datetime = NOON, end: datetime = NOON + HOUR) -> Batch:
    return read_prometheus(Source(prometheus=URL, cluster="c"), (start, end), api=server.api())


def milliseconds(query: str) -> int:
    return int(query.partition("[")[2].removesuffix("ms]"))


def test_samples_come_as_stored_and_only_known_names_are_asked_for() -> None:
    values = [(NOON_S, "40"), (NOON_S + 60.123, "60"), (NOON_S + 120, "NaN")]
    server = Server(["up", NAME, "go_goroutines"], query=lambda _: matrix((UTIL, values)))
    batch = read(server)
    assert batch.samples.select("cluster", "device", "node", "scrape_job").unique().rows() == [
        ("c", "GPU-a", "n1", "dcgm")
    ]
    assert [t.timestamp() for t in batch.samples["time"]] == [NOON_S, NOON_S + 60.123, NOON_S + 120]
    assert batch.samples["gpu_util_ratio"].to_list()[:2] == [0.4, 0.6]
    assert batch.samples["gpu_util_ratio"].is_nan().to_list() == [False, False, True]
    assert [form["query"] for form in server.queries()] == [f"{NAME}[3600000ms]"]


def test_a_span_is_read_in_days_and_no_sample_twice() -> None:
    stored = [NOON_S + 1800 * i for i in range(150)]

    def query(request: httpx.Request) -> httpx.Response:
        # As Prometheus 2 has it: closed on both sides.
        end, span = float(request.url.params["time"]), milliseconds(request.url.params["query"]) / 1000
        return matrix((UTIL, [(t, "40") for t in stored if end - span <= t <= end]))

    server = Server([NAME], query=query)
    batch = read(server, NOON, NOON + 72 * HOUR)
    assert [t.timestamp() for t in batch.samples["time"]] == stored[:144]
    assert batch.findings == []
    assert [milliseconds(form["query"]) / 3_600_000 for form in server.queries()] == [12, 24, 24, 12]


def test_a_query_that_is_too_large_is_asked_in_halves() -> None:
    def query(request: httpx.Request) -> httpx.Response:
        if milliseconds(request.url.params["query"]) > 1_000_000:
            error = {
                "status": "error",
                "errorType": "execution",
                "error": "query processing would load too many samples into memory",
            }
            return httpx.Response(422, json=error)
        return matrix((UTIL, [(float(request.url.params["time"]), "40")]))

    assert read(Server([NAME], query=query)).samples.height == 4


def test_a_server_that_refuses_even_a_minute_is_an_error() -> None:
    error = {"status": "error", "errorType": "execution", "error": "too many samples"}
    with pytest.raises(SourceError, match="too many samples"):
        read(Server([NAME], query=lambda _: httpx.Response(422, json=error)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (httpx.Response(200, json={"status": "error", "errorType": "internal", "error": "no"}), "internal: no"),
        (success({"resultType": "matrix", "result": []}, warnings=["store gateway is down"]), "in part only"),
        (success({"resultType": "matrix", "result": []}, isPartial=True), "in part only"),
        (success({"resultType": "matrix", "result": {}}), "something else"),
        (
            success({"resultType": "matrix", "result": [{"metric": UTIL, "values": [[NOON_S, "forty"]]}]}),
            "other things than numbers",
        ),
        (success({"resultType": "matrix", "result": [{"metric": UTIL, "values": [[NOON_S]]}]}), "other things"),
        (
            httpx.Response(400, json={"status": "error", "errorType": "bad_data", "error": "parse\nerror"}),
            "parse error",
        ),
        (httpx.Response(401, text="who are you"), "no JSON"),
        (httpx.Response(403, json={"status": "error", "error": "forbidden"}), "check the credentials"),
        (httpx.Response(200, text="<html>a login page</html>"), "URL is that of a Prometheus"),
        (httpx.Response(503, text="down"), "HTTP 503"),
    ],
)
def test_an_answer_that_is_not_whole_is_an_error_never_no_data(answer: httpx.Response, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(Server([NAME], query=lambda _: answer))
    assert str(caught.value).startswith(URL)
    assert "\n" not in str(caught.value)


def test_windows_before_the_one_that_fails_are_whole() -> None:
    def query(request: httpx.Request) -> httpx.Response:
        end = float(request.url.params["time"])
        if end > NOON_S + 43_200:
            return success({"resultType": "matrix", "result": []}, warnings=["a store is away"])
        return matrix((UTIL, [(end, "40")]))

    windows = read_windows(Source(prometheus=URL), (NOON, NOON + 72 * HOUR), api=Server([NAME], query=query).api())
    until, batch = next(windows)
    assert (until, batch.samples.height) == (NOON + 12 * HOUR, 1)
    with pytest.raises(SourceError, match="a store is away"):
        list(windows)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_server_that_is_unwell_is_asked_again(status: int) -> None:
    answers = iter([httpx.Response(status), httpx.Response(status), matrix((UTIL, [(NOON_S, "40")]))])
    server = Server([NAME], query=lambda _: next(answers))
    assert read(server).samples.height == 1
    assert server.pauses == [0.5, 1.0]


def test_a_server_that_names_a_pause_gets_it() -> None:
    later = [httpx.Response(429, headers={"Retry-After": after}) for after in ("7", "600", "soon")]
    answers = iter([*later, matrix((UTIL, [(NOON_S, "40")]))])
    server = Server([NAME], query=lambda _: next(answers))
    assert read(server).samples.height == 1
    assert server.pauses == [7.0, 60.0, 2.0]


def test_a_server_that_times_out_is_asked_again_and_then_named() -> None:
    def query(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out")

    server = Server([NAME], query=query)
    with pytest.raises(SourceError, match=r"could not be reached \(timed out\)"):
        read(server)
    assert len(server.pauses) == 3


def test_info_series_give_models() -> None:
    uuid = "1c67088e-9ecb-4564-bb97-6151ecc2ef64"

    def query(request: httpx.Request) -> httpx.Response:
        if "info" in request.url.params["query"]:
            return matrix(({"uuid": uuid, "name": "NVIDIA H200"}, [(NOON_S, "1")]))
        return matrix(({"uuid": uuid, "instance": "n1:9835"}, [(NOON_S, "0.5")]))

    batch = read(Server(["nvidia_smi_gpu_info", "nvidia_smi_utilization_gpu_ratio"], query=query))
    assert batch.samples.select("device", "model", "node").rows() == [(f"GPU-{uuid}", "NVIDIA H200", "n1")]


def test_a_series_that_names_no_device_is_counted_and_the_rest_kept() -> None:
    nameless = {"__name__": NAME, "job": "dcgm"}
    link = {**UTIL, "nvlink": "3"}
    batch = read(
        Server([NAME], query=lambda _: matrix(*((labels, [(NOON_S, "40")]) for labels in (nameless, link, UTIL))))
    )
    assert batch.samples["device"].to_list() == ["GPU-a"]
    assert [(finding.code, finding.count) for finding in batch.findings] == [("bad_line", 1)]


def test_external_labels_name_the_replica_as_they_do_by_remote_read() -> None:
    configuration = "global:\n  external_labels:\n    prometheus_replica: b\n    job: not this one\n"
    server = Server(
        [NAME],
        query=lambda _: matrix((UTIL, [(NOON_S, "40")])),
        status__config=lambda _: success({"yaml": configuration}),
    )
    assert read(server).samples.select("replica", "scrape_job").rows() == [("b", "dcgm")]


@pytest.mark.parametrize(("first", "last"), [(0.0, 0.0), (0.6, 90.25), (-400.0, -3.0), (-0.1, 0.1)])
def test_the_stored_span_is_found_by_asking_the_index(first: float, last: float) -> None:
    day = 86400
    begin, finish = NOON_S + first * day, NOON_S + last * day

    def series(request: httpx.Request) -> httpx.Response:
        form = httpx.QueryParams(request.content.decode())
        hit = begin <= float(form["end"]) and float(form["start"]) <= finish
        return success([UTIL] if hit else [], warnings=["results truncated due to limit"] if hit else [])

    server = Server([NAME], series=series)
    span = stored_span(server.api(), NOON + timedelta(days=100), readable)
    assert span is not None
    assert span[0].timestamp() == begin // day * day
    assert span[1].timestamp() == (finish // day + 1) * day
    assert len(server.asked) < 60


def test_a_server_without_gpu_metrics_yields_nothing() -> None:
    batch = read_prometheus(Source(prometheus=URL), None, api=Server(["up"]).api(), now=lambda: NOON)
    assert batch.samples.height == 0
    assert read(Server(["up"])).samples.height == 0


def test_consecutive_windows_with_broken_milliseconds_share_no_sample_and_lose_none() -> None:
    stored = [NOON_S + 0.001 * i for i in range(6)]

    def query(request: httpx.Request) -> httpx.Response:
        end, span = float(request.url.params["time"]), milliseconds(request.url.params["query"]) / 1000
        return matrix((UTIL, [(t, "40") for t in stored if end - span - 1e-6 <= t <= end + 1e-6]))

    cuts = [NOON, *(NOON + timedelta(microseconds=part) for part in (1400, 2500, 3999)), NOON + HOUR]
    parts = [read(Server([NAME], query=query), *pair).samples for pair in pairwise(cuts)]
    assert [part.height for part in parts] == [2, 1, 1, 2]
    assert [t.timestamp() for t in pl.concat(parts)["time"]] == pytest.approx(stored)


def test_headers_and_credentials_come_from_where_the_configuration_says(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    seen = {}
    for source, environ in (
        (
            Source(prometheus=URL, headers_env={"X-Scope-OrgID": "TENANT"}, bearer_token_file=str(token)),
            {"TENANT": "t1"},
        ),
        (Source(prometheus=URL, bearer_token_env="TOKEN"), {"TOKEN": "abc"}),
        (Source(prometheus=URL, username="u", password_env="PASSWORD"), {"PASSWORD": "p"}),
    ):
        with PrometheusApi.of(source, environ) as api:
            client = api.connection._client
            request = client.build_request("GET", URL)
            seen.update(next(client._build_request_auth(request).sync_auth_flow(request)).headers)
            seen.setdefault("all", []).append(request.headers["authorization"])
    assert seen["x-scope-orgid"] == "t1"
    assert seen["all"] == ["Bearer s3cret", "Bearer abc", "Basic dTpw"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source(prometheus=URL, headers_env={"X-Scope-OrgID": "TENANT"}), "environment variable TENANT is not set"),
        (Source(prometheus=URL, bearer_token_env="TOKEN"), "environment variable TOKEN is not set"),
        (Source(prometheus=URL, bearer_token_file="/absent/token"), "could not be read as bearer_token_file"),
        (Source(prometheus=URL, ca_file="/absent/ca.pem"), "TLS files could not be read"),
    ],
)
def test_a_secret_that_is_missing_is_named_and_never_shown(source: Source, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        PrometheusApi.of(source, {})
