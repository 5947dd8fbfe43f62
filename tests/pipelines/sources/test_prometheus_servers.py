"""The real servers of Debian: whichever way they are read, the table has the same bits."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import cramjam
import httpx
import numpy as np
import polars as pl
import pytest

from exporter.errors import SourceError
from pipelines.config import Source
from pipelines.sources.exposition import read_exposition
from pipelines.sources.prometheus import read_prometheus
from pipelines.sources.prometheus.answer import STALE_MARKER, Question
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.prometheus.remote_read import RemoteRead
from pipelines.sources.prometheus.server import Reader, Server
from pipelines.sources.prometheus.sign_in import client_of
from pipelines.tables import SAMPLE_LABELS
from tests.pipelines.sources.prometheus_double import field, fixed, label, number
from tests.pipelines.sources.xor_reference import Sample, bits_of, value_of

NOON: Final = datetime(2026, 10, 5, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
LATER: Final = NOON + timedelta(days=3)
"""When the samples that are sent begin; those that were there before have ended."""
LATER_MS: Final = round(LATER.timestamp() * 1000)
SENT: Final = (LATER, LATER + HOUR)
STALE: Final = value_of(STALE_MARKER)
UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
PASSWORD: Final = "s3cret"
HASH: Final = "$2b$04$AUElgV60ZucwO3GC0.aAvu0.O/fRRIbwbQr5GWoCQbyT7GsI.1B.W"


def sent() -> dict[str, list[Sample]]:
    """What is sent of two cards, with all that is odd; the first series ends, and comes back."""
    at = [LATER_MS + 15_000 * n + (n % 3) for n in range(240)]
    odd = [0.0, 100.0, float("nan"), float("inf"), 0.1, 12.34]
    first = [(t, STALE if n == 100 else float(n % 7)) for n, t in enumerate(at) if not 100 < n < 110]
    return {"GPU-a": first, "GPU-b": [(t, odd[n % len(odd)]) for n, t in enumerate(at)]}


def write(client: httpx.Client, url: str, series: dict[str, list[Sample]]) -> None:
    """Prometheus's remote write."""
    message = b"".join(
        field(
            1,
            b"".join(
                field(1, label(name, value))
                for name, value in {"Hostname": "n1", "UUID": card, "__name__": UTIL}.items()
            )
            + b"".join(field(2, fixed(1, bits_of(value)) + number(2, t)) for t, value in samples),
        )
        for card, samples in series.items()
    )
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    body = bytes(cramjam.snappy.compress_raw(message))
    assert client.post(f"{url}/api/v1/write", content=body, headers=headers).status_code == 204


def bits(table: pl.DataFrame) -> pl.DataFrame:
    """A table whose numbers compare bit by bit."""
    metrics = [name for name in table.columns if name not in SAMPLE_LABELS]
    views = [
        pl.Series(name, table[name].to_numpy().view(np.int64)).set(table[name].is_null(), None) for name in metrics
    ]
    return table.with_columns(views)


@contextmanager
def running(client: httpx.Client, url: str, ready: str, *command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                if client.get(url + ready).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        port: int = any_free.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def certificates(folder: Path) -> Path:
    """An authority, a certificate of the server and one of the client."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl: apt-get install openssl")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    for name, usage in (("server", "serverAuth"), ("client", "clientAuth")):
        openssl(*new, "-CA", "ca.crt", "-CAkey", "ca.key", "-keyout", f"{name}.key", "-out", f"{name}.crt",
                "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                "-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={usage}")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def recording(folder: Path) -> Path:
    """Two days of two cards."""
    path = folder / "recording.om"
    labels = 'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",namespace="v",pod="p"'
    lines = []
    for name in (UTIL, "DCGM_FI_DEV_POWER_USAGE"):
        for gpu in range(2):
            series = f"{name}{{{labels.format(gpu=gpu)}}}"
            lines += [
                f"{series} {(i + gpu) * 1.1 % 100} {NOON.timestamp() + 300 * i:.3f}" for i in range(576) if i % 50 > gpu
            ]
    path.write_text("\n".join([*lines, "# EOF", ""]))
    return path


@pytest.fixture(scope="module")
def prometheus(folder: Path, recording: Path, certificates: Path) -> Iterator[Source]:
    """A Prometheus of a pair that holds the recording and what was sent; it asks for a certificate and a password."""
    storage = folder / "storage"
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", recording, storage],
        check=True,
        capture_output=True,
    )
    (folder / "p.yml").write_text("global: {external_labels: {prometheus_replica: b, job: from outside}}\n")
    (folder / "web.yml").write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt,"
        f" client_auth_type: RequireAndVerifyClientCert}}\nbasic_auth_users: {{reader: '{HASH}'}}\n"
    )
    address = f"127.0.0.1:{free_port()}"
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    context.load_cert_chain(certificates / "client.crt", certificates / "client.key")
    command = (
        "prometheus", f"--config.file={folder / 'p.yml'}", f"--web.config.file={folder / 'web.yml'}",
        f"--storage.tsdb.path={storage}", "--storage.tsdb.retention.time=100y", f"--web.listen-address={address}",
        "--web.enable-remote-write-receiver",
    )  # fmt: skip
    (folder / "password").write_text(PASSWORD)
    source = Source(
        prometheus=f"https://{address}",
        ca_file=str(certificates / "ca.crt"),
        cert_file=str(certificates / "client.crt"),
        key_file=str(certificates / "client.key"),
        username="reader",
        password_file=str(folder / "password"),
    )
    with (
        httpx.Client(verify=context, auth=("reader", PASSWORD)) as client,
        running(client, f"https://{address}", "/-/ready", *command),
    ):
        write(client, f"https://{address}", sent())
        yield source


@pytest.fixture(scope="module")
def victoria(folder: Path) -> Iterator[Source]:
    """A VictoriaMetrics that was sent the same."""
    address = f"127.0.0.1:{free_port()}"
    command = (
        "victoria-metrics", f"-httpListenAddr={address}", f"-storageDataPath={folder / 'victoria'}",
        "-retentionPeriod=100y", "-search.latencyOffset=0s",
    )  # fmt: skip
    with httpx.Client() as client, running(client, f"http://{address}", "/health", *command):
        write(client, f"http://{address}", sent())
        client.get(f"http://{address}/internal/force_flush")
        yield Source(prometheus=f"http://{address}")


def how(source: Source) -> str:
    with PrometheusApi.of(source) as api:
        return Server(api, Question(UTIL, LATER_MS, LATER_MS + 1)).name


def only_chunks(api: PrometheusApi, _: Question) -> list[Reader]:
    return [RemoteRead(api.connection)]


def only_samples(api: PrometheusApi, _: Question) -> list[Reader]:
    return [RemoteRead(api.connection, streamed=False)]


def only_the_query_api(*_: object) -> list[Reader]:
    return []


@pytest.mark.needs_program("prometheus", "promtool")
def test_a_prometheus_gives_what_it_was_filled_with(prometheus: Source, recording: Path) -> None:
    direct = read_exposition(recording, cluster="default").samples
    outside = direct.with_columns(replica=pl.lit("b"), scrape_job=pl.lit("from outside"))
    assert how(prometheus) == "remote read"
    whole = read_prometheus(prometheus, None, now=lambda: NOON + timedelta(days=10)).samples
    old = whole.filter(pl.col("time") < LATER)
    assert bits(old.sort("device", "time")).equals(bits(outside.sort("device", "time").select(whole.columns)))
    assert whole.height > old.height
    part = read_prometheus(prometheus, (NOON + HOUR, NOON + 9 * HOUR)).samples
    inside = outside.filter((pl.col("time") >= NOON + HOUR) & (pl.col("time") < NOON + 9 * HOUR))
    assert bits(part).equals(bits(inside.sort("device", "time").select(part.columns)))


@pytest.mark.needs_program("prometheus", "promtool")
@pytest.mark.parametrize("window", [None, SENT, (LATER + HOUR / 3, LATER + HOUR / 2)])
def test_chunks_samples_and_json_give_the_same_bits(
    prometheus: Source, window: tuple[datetime, datetime] | None
) -> None:
    streamed, plain, by_query = (
        read_prometheus(prometheus, window, now=lambda: NOON + timedelta(days=10), ways=ways).samples
        for ways in (only_chunks, only_samples, only_the_query_api)
    )
    assert streamed.height > 50
    assert bits(streamed).equals(bits(plain))
    assert bits(streamed).equals(bits(by_query))


@pytest.mark.needs_program("prometheus", "promtool", "victoria-metrics")
def test_a_victoriametrics_gives_what_a_prometheus_gives_but_for_the_nan_that_it_never_takes(
    prometheus: Source, victoria: Source
) -> None:
    assert how(victoria) == "VictoriaMetrics export"
    theirs = read_prometheus(victoria, SENT).samples
    ours = read_prometheus(prometheus, SENT).samples.filter(pl.col("gpu_util_ratio").is_not_nan())
    labels = {"replica": pl.lit(None, pl.String), "scrape_job": pl.lit(None, pl.String)}
    assert theirs.height > 400
    assert bits(theirs).equals(bits(ours.with_columns(**labels)))


@pytest.mark.needs_program("prometheus", "promtool")
def test_a_prometheus_that_knows_neither_certificate_nor_password_is_an_error(
    prometheus: Source, tmp_path: Path
) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("guess")
    with pytest.raises(SourceError, match="HTTP 401"):
        read_prometheus(prometheus.model_copy(update={"password_file": str(wrong)}), SENT)
    stranger = prometheus.model_copy(update={"cert_file": None, "key_file": None})
    with (
        PrometheusApi(str(stranger.prometheus), client_of(stranger), sleep=lambda _: None) as api,
        pytest.raises(SourceError, match="could not be reached"),
    ):
        api.metric_names(*SENT)
