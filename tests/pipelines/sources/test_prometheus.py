from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from exporter.errors import SourceError
from pipelines.config import Source
from pipelines.sources.exposition import read_exposition
from pipelines.sources.prometheus import read_prometheus, read_window, stored_span
from pipelines.sources.prometheus_api import PrometheusApi

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
HOUR = timedelta(hours=1)
URL = "http://prometheus.test/prefix"
UTIL = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-a", "Hostname": "n1", "instance": "n1:9400", "job": "dcgm"}

Answer = Callable[[httpx.Request], httpx.Response]


def success(data: object, **more: object) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": data, **more})


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> httpx.Response:
    return success({"resultType": "matrix", "result": [{"metric": m, "values": v} for m, v in series]})


class Server:
    """A server's answers by path; what was asked is kept."""

    def __init__(self, names: list[str], query: Answer, series: Answer | None = None) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pauses: list[float] = []
        self._answers: dict[str, Answer] = {
            "/prefix/api/v1/label/__name__/values": lambda _: success(names),
            "/prefix/api/v1/query": query,
            "/prefix/api/v1/series": series or (lambda _: success([])),
        }

    def api(self) -> PrometheusApi:
        client = httpx.Client(transport=httpx.MockTransport(self._answer))
        return PrometheusApi(URL, client, sleep=self.pauses.append)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        form = dict(httpx.QueryParams(request.content.decode())) | dict(request.url.params)
        self.asked.append((request.url.path, form))
        return self._answers[request.url.path](request)


def window(server: Server, start: datetime = NOON, end: datetime = NOON + HOUR) -> Any:
    return read_window(server.api(), start, end, cluster="c", name="p")


def test_samples_come_as_stored_and_only_known_names_are_asked_for() -> None:
    values = [(NOON_S, "40"), (NOON_S + 60.123, "60"), (NOON_S + 120, "NaN")]
    server = Server(["up", "DCGM_FI_DEV_GPU_UTIL", "go_goroutines"], lambda _: matrix((UTIL, values)))
    batch = window(server)
    assert batch.samples.select("cluster", "device", "node", "scrape_job").unique().rows() == [
        ("c", "GPU-a", "n1", "dcgm")
    ]
    assert [t.timestamp() for t in batch.samples["time"]] == [NOON_S, NOON_S + 60.123, NOON_S + 120]
    assert batch.samples["gpu_util_ratio"].to_list()[:2] == [0.4, 0.6]
    assert batch.samples["gpu_util_ratio"].is_nan().to_list() == [False, False, True]
    queries = [form for path, form in server.asked if path.endswith("/query")]
    assert [form["query"] for form in queries] == ["DCGM_FI_DEV_GPU_UTIL[3600000ms]"]


def test_a_window_is_read_in_bounded_pieces_and_no_sample_twice() -> None:
    stored = [NOON_S + 1800 * i for i in range(49)]

    def query(request: httpx.Request) -> httpx.Response:
        # As Prometheus 2 has it: closed on both sides.
        params = request.url.params
        end, span = float(params["time"]), int(params["query"].partition("[")[2].removesuffix("ms]")) / 1000
        return matrix((UTIL, [(t, "40") for t in stored if end - span <= t <= end]))

    server = Server(["DCGM_FI_DEV_GPU_UTIL"], query)
    batch = window(server, NOON, NOON + 24 * HOUR)
    assert [t.timestamp() for t in batch.samples["time"]] == stored[:48]
    assert batch.findings == []
    assert sum(path.endswith("/query") for path, _ in server.asked) == 4


def test_a_query_that_is_too_large_is_asked_in_halves() -> None:
    def query(request: httpx.Request) -> httpx.Response:
        milliseconds = int(request.url.params["query"].partition("[")[2].removesuffix("ms]"))
        if milliseconds > 1_000_000:
            error = {
                "status": "error",
                "errorType": "execution",
                "error": "query processing would load too many samples into memory",
            }
            return httpx.Response(422, json=error)
        return matrix((UTIL, [(float(request.url.params["time"]), "40")]))

    assert window(Server(["DCGM_FI_DEV_GPU_UTIL"], query)).samples.height == 4


def test_a_server_that_refuses_even_a_minute_is_an_error() -> None:
    error = {"status": "error", "errorType": "execution", "error": "too many samples"}
    with pytest.raises(SourceError, match="too many samples"):
        window(Server(["DCGM_FI_DEV_GPU_UTIL"], lambda _: httpx.Response(422, json=error)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (httpx.Response(200, json={"status": "error", "errorType": "internal", "error": "no"}), "internal: no"),
        (success({"resultType": "matrix", "result": []}, warnings=["store gateway is down"]), "in part only"),
        (success({"resultType": "matrix", "result": []}, isPartial=True), "in part only"),
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
        window(Server(["DCGM_FI_DEV_GPU_UTIL"], lambda _: answer))
    assert str(caught.value).startswith(URL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_unwell_is_asked_again(status: int) -> None:
    answers = iter([httpx.Response(status), httpx.Response(status), matrix((UTIL, [(NOON_S, "40")]))])
    server = Server(["DCGM_FI_DEV_GPU_UTIL"], lambda _: next(answers))
    assert window(server).samples.height == 1
    assert server.pauses == [0.5, 1.0]


def test_a_server_that_times_out_is_asked_again_and_then_named() -> None:
    def query(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out")

    server = Server(["DCGM_FI_DEV_GPU_UTIL"], query)
    with pytest.raises(SourceError, match=r"could not be reached \(timed out\)"):
        window(server)
    assert len(server.pauses) == 3


def test_info_series_give_models() -> None:
    uuid = "1c67088e-9ecb-4564-bb97-6151ecc2ef64"

    def query(request: httpx.Request) -> httpx.Response:
        if "info" in request.url.params["query"]:
            info = {"metric": {"uuid": uuid, "name": "NVIDIA H200"}, "value": [NOON_S, "1"]}
            return success({"resultType": "vector", "result": [info]})
        return matrix(({"uuid": uuid, "instance": "n1:9835"}, [(NOON_S, "0.5")]))

    batch = window(Server(["nvidia_smi_gpu_info", "nvidia_smi_utilization_gpu_ratio"], query))
    assert batch.samples.select("device", "model", "node").rows() == [(f"GPU-{uuid}", "NVIDIA H200", "n1")]


@pytest.mark.parametrize(("first", "last"), [(0.0, 0.0), (0.6, 90.25), (-400.0, -3.0), (-0.1, 0.1)])
def test_the_stored_span_is_found_by_asking_the_index(first: float, last: float) -> None:
    day = 86400
    begin, finish = NOON_S + first * day, NOON_S + last * day

    def series(request: httpx.Request) -> httpx.Response:
        form = httpx.QueryParams(request.content.decode())
        hit = begin <= float(form["end"]) and float(form["start"]) <= finish
        return success([UTIL] if hit else [], warnings=["results truncated due to limit"] if hit else [])

    server = Server(["DCGM_FI_DEV_GPU_UTIL"], lambda _: matrix(), series)
    span = stored_span(server.api(), NOON + timedelta(days=100))
    assert span is not None
    assert span[0].timestamp() == begin // day * day
    assert span[1].timestamp() == (finish // day + 1) * day
    assert len(server.asked) < 60


def test_a_server_without_gpu_metrics_yields_nothing() -> None:
    source = Source(prometheus=URL)
    batch = read_prometheus(source, None, api=Server(["up"], lambda _: matrix()).api(), now=lambda: NOON)
    assert batch.samples.height == 0


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
            request = api._client.build_request("GET", URL)
            auth = api._client._build_request_auth(request)
            seen.update(next(auth.sync_auth_flow(request)).headers)
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


@pytest.fixture
def backfilled(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A real Prometheus that holds two days of a recording, and the recording."""
    recording = tmp_path / "recording.om"
    labels = 'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",namespace="v",pod="p"'
    lines = []
    for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"):
        for gpu in range(2):
            series = f"{name}{{{labels.format(gpu=gpu)}}}"
            lines += [f"{series} {(i + gpu) % 100} {NOON_S + 300 * i:.3f}" for i in range(576)]
    recording.write_text("\n".join([*lines, "# EOF", ""]))
    storage = tmp_path / "storage"
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", recording, storage],
        check=True,
        capture_output=True,
    )
    (tmp_path / "p.yml").write_text("scrape_configs: []\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path / 'p.yml'}",
            f"--storage.tsdb.path={storage}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                if httpx.get(f"{url}/-/ready").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        yield url, recording
    finally:
        process.terminate()
        process.wait()


@pytest.mark.needs_program("prometheus", "promtool")
def test_a_real_prometheus_gives_what_it_was_filled_with(backfilled: tuple[str, Path]) -> None:
    url, recording = backfilled
    direct = read_exposition(recording, cluster="default").samples
    source = Source(prometheus=url)
    whole = read_prometheus(source, None, now=lambda: NOON + timedelta(days=10)).samples
    assert whole.height == 1152
    assert whole.sort("time", "device").equals(direct.sort("time", "device").select(whole.columns))
    part = read_prometheus(source, (NOON + HOUR, NOON + 9 * HOUR)).samples
    inside = (direct["time"] >= NOON + HOUR) & (direct["time"] < NOON + 9 * HOUR)
    assert part.sort("time", "device").equals(direct.filter(inside).sort("time", "device").select(part.columns))
    with (
        pytest.raises(SourceError, match="could not be reached"),
        PrometheusApi("http://127.0.0.1:1", httpx.Client(), sleep=lambda _: None) as api,
    ):
        api.metric_names(NOON, NOON + HOUR)
