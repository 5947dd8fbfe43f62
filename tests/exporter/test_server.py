"""The server over real sockets: TLS, passwords, idle and slow clients, bounds, and a real Prometheus."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import resource
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.http1 import BadRequest, Request, Response, parse_request
from exporter.passwords import PasswordChecker
from exporter.rate_limit import RateLimit
from exporter.server import Server
from exporter.web_config import WebSettings, load_web_config
from tests.exporter.conftest import Clock
from tests.exporter.serving import Prometheus, Running


def bcrypt(password: str) -> str:
    """A bcrypt hash made by the system's own library."""
    from exporter.passwords import _bcrypt_function

    return _bcrypt_function()(password.encode(), b"$2b$04$abcdefghijklmnopqrstuu").decode()  # type: ignore[no-any-return]


Start = Callable[..., Running]
SERVER = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


def echo(request: Request) -> Response:
    return Response(200, f"{request.method} {request.path}\n".encode())


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Running] = []

    def run(
        answer: Callable[[Request], Response] = echo, settings: WebSettings | None = None, **options: Any
    ) -> Running:
        running.append(Running(Server(answer, settings, **options)))
        return running[-1]

    yield run
    for one in running:
        one.close()


def get(port: int, path: str = "/metrics", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())
    finally:
        connection.close()


def test_requests_share_a_connection(start: Start) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", start().port, timeout=10)
    for _ in range(3):
        connection.request("GET", "/livez?x=1")
        assert connection.getresponse().read() == b"GET /livez\n"
    connection.request("HEAD", "/livez")
    response = connection.getresponse()
    assert (response.read(), response.getheader("Content-Length")) == (b"", "12")
    connection.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"400"),
        (b"GET /\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20000 + b"\r\n\r\n", b"431"),
    ],
)
def test_what_is_no_request_gets_its_status(start: Start, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", start().port), timeout=10) as client:
        client.sendall(sent)
        assert client.recv(4096).split(b" ")[1] == status


def test_an_error_while_answering_is_the_clients_500_and_no_more(start: Start) -> None:
    def broken(request: Request) -> Response:
        if request.path == "/bad":
            raise RuntimeError("boom")
        return echo(request)

    port = start(broken).port
    assert get(port, "/bad")[0] == 500
    assert get(port)[0] == 200


def test_a_thousand_idle_connections_delay_nobody(start: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2500:
        pytest.skip("needs 2,500 open files: ulimit -n 2500")
    if soft < 2500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2500, hard))
    port = start(max_connections=1100).port
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert get(port)[0] == 200


def test_connections_beyond_the_bound_are_closed(start: Start) -> None:
    running = start(max_connections=3)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=10)) for _ in range(3)
        ]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as one_more:
            assert one_more.recv(100) == b""
        assert running.server.refused == 1


def test_fifty_scrapers_at_once(start: Start) -> None:
    body = b"x 1\n" * 20000
    port = start(lambda request: Response(200, body)).port  # noqa: ARG005
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(len(get(port)[1]))) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [len(body)] * 50


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server certificate, a client certificate, and one that the authority didn't sign."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl: apt-get install openssl")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    for name, san in (("server", "IP:127.0.0.1"), ("client", "DNS:prometheus.test")):
        openssl(*new, "-CA", "ca.crt", "-CAkey", "ca.key", "-keyout", f"{name}.key", "-out", f"{name}.crt",
                "-subj", f"/CN={name}", "-addext", f"subjectAltName={san}",
                "-addext", "basicConstraints=critical,CA:FALSE")  # fmt: skip
    openssl(*new, "-keyout", "stranger.key", "-out", "stranger.crt", "-subj", "/CN=stranger")
    return folder


def tls(folder: Path, client: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    return context


def https(port: int, context: ssl.SSLContext, **headers: str) -> int:
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def web_config(folder: Path, text: str) -> WebSettings:
    path = folder / "web.yml"
    path.write_text(text)
    return load_web_config(path)


def test_a_silent_tls_client_blocks_nobody(start: Start, certificates: Path) -> None:
    port = start(settings=web_config(certificates, SERVER)).port
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        begun = time.monotonic()
        assert https(port, tls(certificates)) == 200
        assert time.monotonic() - begun < 5


def test_silent_tls_clients_count_among_the_bounded(start: Start, certificates: Path) -> None:
    running = start(settings=web_config(certificates, SERVER), max_connections=2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=10))
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as one_more:
            assert one_more.recv(100) == b""


def test_client_certificates(start: Start, certificates: Path) -> None:
    config = SERVER + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    port = start(settings=web_config(certificates, config)).port
    assert https(port, tls(certificates, "client")) == 200
    for client in (None, "stranger"):
        with pytest.raises((urllib.error.URLError, ssl.SSLError, OSError)):
            https(port, tls(certificates, client))


@pytest.mark.parametrize(("allowed", "status"), [("prometheus.test", 200), ("grafana.test", 403)])
def test_names_of_client_certificates(start: Start, certificates: Path, allowed: str, status: int) -> None:
    config = (
        SERVER + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
        f"  client_allowed_sans: [{allowed}]\n"
    )
    port = start(settings=web_config(certificates, config)).port
    assert https(port, tls(certificates, "client")) == status


def test_old_tls_is_refused(start: Start, certificates: Path) -> None:
    port = start(settings=web_config(certificates, SERVER + "  min_version: TLS13\n")).port
    context = tls(certificates)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((urllib.error.URLError, ssl.SSLError)):
        https(port, context)
    assert https(port, tls(certificates)) == 200


def test_cipher_suites_have_gos_names(certificates: Path) -> None:
    config = SERVER + (
        "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]\n"
        "  curve_preferences: [CurveP384]\n  max_version: TLS12\n  prefer_server_cipher_suites: false\n"
    )
    settings = web_config(certificates, config).tls
    assert settings is not None
    enabled = {suite["name"] for suite in settings.context().get_ciphers() if suite["protocol"] != "TLSv1.3"}
    assert enabled == {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_passwords(start: Start, tmp_path: Path) -> None:
    users = f"basic_auth_users:\n  prometheus: {bcrypt('secret')}\n"
    config = users + "http_server_config:\n  headers: {X-Frame-Options: deny}\n"
    port = start(settings=web_config(tmp_path, config)).port
    status, _, headers = get(port)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="gpuledger"')
    assert headers["X-Frame-Options"] == "deny"
    assert get(port, Authorization=basic("prometheus", "secret"))[0] == 200
    assert get(port, Authorization=basic("prometheus", "secret"))[0] == 200  # from memory
    for header in (basic("prometheus", "Secret"), basic("other", "secret"), "Basic !!", "Bearer x", basic("", "")):
        assert get(port, Authorization=header)[0] == 401, header


def test_a_password_is_remembered_without_being_kept() -> None:
    checker = PasswordChecker({"p": bcrypt("secret")})
    assert not checker.known("p", "secret")
    assert checker.check("p", "secret")
    assert checker.known("p", "secret")
    assert not checker.known("p", "other")
    assert b"secret" not in b"".join(checker._proven.values())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tls_server_confg: {}", "did you mean 'tls_server_config'"),
        ("tls_server_config: {cert_file: a.crt}", "key_file: is missing"),
        (SERVER + "  client_auth_type: Maybe", "'Maybe' is not served"),
        (SERVER + "  client_auth_type: RequestClientCert", "RequestClientCert takes certificates that nobody verified"),
        (SERVER + "  client_auth_type: RequireAnyClientCert", "use RequireAndVerifyClientCert"),
        (SERVER + "  client_auth_type: RequireAndVerifyClientCert", "client_ca_file is needed"),
        (SERVER + "  client_ca_file: ca.crt", "client_ca_file would not be used"),
        (SERVER + "  client_allowed_sans: [a]", "says nothing under NoClientCert"),
        (SERVER + "  cert: PEM", "cert: stands beside cert_file"),
        (SERVER + "  min_version: TLS10", "use TLS12 or TLS13"),
        (SERVER + "  cipher_suites: [TLS_X_WITH_Y]", "TLS_X_WITH_Y is known"),
        (SERVER + "  curve_preferences: [CurveP1]", "CurveP1 is not served"),
        ("basic_auth_users: {p: secret}", r"users\.p: a bcrypt hash .* was expected$"),
        ("http_server_config: {headers: {Content-Length: 3}}", "unknown key 'Content-Length'"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\r\\nb"}}', "printable text was expected"),
        ("rate_limit: {interval: soon, burst: 1}", "'soon' is no time"),
        ("rate_limit: {interval: 1s}", "would refuse every request"),
        ("a: [", "not YAML"),
        ("[]", "a mapping was expected"),
        (SERVER + "  client_allowed_sans: 5", "client_allowed_sans: 5 was found, a list was expected"),
        (SERVER + "  cipher_suites: X", "cipher_suites: 'X' was found, a list was expected"),
        (SERVER + "  curve_preferences: X25519", "curve_preferences: 'X25519' was found"),
        (SERVER + "  min_version: [TLS12]", "min_version: .'TLS12'. was found"),
        (SERVER + "  min_version: TLS13\n  max_version: TLS12", "min_version: is above max_version"),
        (SERVER + "  prefer_server_cipher_suites: 'no'", "true or false was expected"),
        ("tls_server_config: {cert_file: [a], key_file: b}", "cert_file: .'a'. was found"),
        ("basic_auth_users: {p: 5}", "a bcrypt hash as"),
        ("basic_auth_users: [p]", "a mapping was expected"),
        ("http_server_config: {http2: maybe}", "true or false was expected"),
        ("rate_limit: {interval: 1s, burst: true}", "a whole number from 0 on"),
    ],
)
def test_a_wrong_web_config_says_where(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        web_config(tmp_path, text)


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.crt"):
        Server(echo, web_config(tmp_path, SERVER))


def copy(certificates: Path, name: str, to: Path) -> None:
    for ending in ("crt", "key"):
        shutil.copy(certificates / f"{name}.{ending}", to / f"server.{ending}")


def test_a_renewed_certificate_is_served(start: Start, certificates: Path, tmp_path: Path) -> None:
    copy(certificates, "server", tmp_path)
    running = start(settings=web_config(tmp_path, SERVER))
    assert https(running.port, tls(certificates)) == 200
    copy(certificates, "stranger", tmp_path)
    running.server.reload()
    with pytest.raises(urllib.error.URLError, match="self-signed"):
        https(running.port, tls(certificates))


def test_a_changed_password_is_asked_for_and_a_broken_file_changes_nothing(start: Start, tmp_path: Path) -> None:
    running = start(settings=web_config(tmp_path, f"basic_auth_users: {{p: {bcrypt('old')}}}\n"))
    assert get(running.port, Authorization=basic("p", "old"))[0] == 200
    (tmp_path / "web.yml").write_text("basic_auth_users: [")
    running.server.reload()
    assert get(running.port, Authorization=basic("p", "old"))[0] == 200
    (tmp_path / "web.yml").write_text(f"# new\nbasic_auth_users: {{p: {bcrypt('new')}}}\n")
    running.server.reload()
    assert [get(running.port, Authorization=basic("p", word))[0] for word in ("old", "new")] == [401, 200]


def test_certificates_may_stand_in_the_file(start: Start, certificates: Path, tmp_path: Path) -> None:
    names = {"cert": "server.crt", "key": "server.key", "client_ca": "ca.crt"}
    section = {name: (certificates / file).read_text() for name, file in names.items()}
    section["client_auth_type"] = "RequireAndVerifyClientCert"
    port = start(settings=web_config(tmp_path, json.dumps({"tls_server_config": section}))).port
    assert https(port, tls(certificates, "client")) == 200
    with pytest.raises((urllib.error.URLError, ssl.SSLError, OSError)):
        https(port, tls(certificates))


def test_requests_beyond_the_rate_limit_are_refused(clock: Clock) -> None:
    limit = RateLimit(0.5, 2, clock)
    assert [limit.allows() for _ in range(3)] == [True, True, False]
    clock.now += 0.5
    assert [limit.allows() for _ in range(2)] == [True, False]
    clock.now += 100
    assert [limit.allows() for _ in range(3)] == [True, True, False]


def test_the_rate_limit_of_the_file_holds(start: Start, tmp_path: Path) -> None:
    port = start(settings=web_config(tmp_path, "rate_limit: {interval: 1h, burst: 2}")).port
    assert [get(port)[0] for _ in range(3)] == [200, 200, 429]


def test_requests_are_parsed_strictly() -> None:
    request = parse_request(b"GET /metrics?a=b HTTP/1.0\r\nConnection: Keep-Alive\r\nAccept: x\r\n\r\n")
    assert (request.path, request.keep_alive, request.headers["accept"]) == ("/metrics", True, "x")
    assert not parse_request(b"GET / HTTP/1.0\r\n\r\n").keep_alive
    for head in (b"GET / HTTP/2\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX : y\r\n\r\n"):
        with pytest.raises(BadRequest):
            parse_request(head)


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus: apt-get install prometheus")
def test_a_real_prometheus_scrapes_with_tls_and_password(
    start: Start, certificates: Path, tmp_path: Path, fleet_backend: Any, make_sampler: Any, clock: Clock
) -> None:
    from exporter.dcgm_names import DcgmFamilies, default_counters
    from exporter.endpoints import Endpoints
    from exporter.families import FamilyBuilder

    endpoints = Endpoints([FamilyBuilder(), DcgmFamilies(default_counters())], interval=15, clock=clock)
    endpoints.publish(make_sampler(fleet_backend({"model": "NVIDIA H100 80GB HBM3", "mig": ["1g.10gb"]})[0]).run_pass())
    config = SERVER + f"basic_auth_users:\n  prometheus: {bcrypt('secret')}\n"
    secured = start(endpoints.answer, web_config(certificates, config))
    plain = start(endpoints.answer)
    jobs = [
        {"job_name": "plain", "static_configs": [{"targets": [f"127.0.0.1:{plain.port}"]}]},
        {"job_name": "secured", "scheme": "https", "tls_config": {"ca_file": str(certificates / "ca.crt")},
         "basic_auth": {"username": "prometheus", "password": "secret"},
         "static_configs": [{"targets": [f"127.0.0.1:{secured.port}"]}]},
    ]  # fmt: skip
    with Prometheus(tmp_path, jobs) as prometheus:
        counted = prometheus.until("count by (job) ({__name__=~'gpuledger_.*|DCGM_.*'})", series=2)
        found = {series["metric"]["job"]: int(series["value"][1]) for series in counted}
        assert found["plain"] == found["secured"] > 100
        assert [target["lastError"] for target in prometheus.get("targets")["activeTargets"]] == ["", ""]


def test_scrapers_get_the_form_that_they_ask_for(
    start: Start, fleet_backend: Any, make_sampler: Any, clock: Clock
) -> None:
    from exporter.endpoints import Endpoints
    from exporter.families import FamilyBuilder

    endpoints = Endpoints([FamilyBuilder()], interval=15, clock=clock)
    endpoints.publish(make_sampler(fleet_backend({"model": "Tesla T4"})[0]).run_pass())
    port = start(endpoints.answer).port
    _, plain, headers = get(port)
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    _, openmetrics, headers = get(port, Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert openmetrics.endswith(b"# EOF\n")
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    assert len(list(text_string_to_metric_families(openmetrics.decode()))) > 60
    _, packed, headers = get(port, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    unpacked = gzip.decompress(packed)
    assert {line.split(b" ")[0] for line in unpacked.splitlines()} == {
        line.split(b" ")[0] for line in plain.splitlines()
    }
    assert get(port, Accept_Encoding="gzip;q=0")[2].get("Content-Encoding") is None
    for accept in ("application/openmetrics-text;q=0", "application/openmetrics-text;q=0.3,text/plain;q=0.5", "*/*"):
        assert get(port, Accept=accept)[2]["Content-Type"].startswith("text/plain"), accept
    assert get(port, "/nothing")[0] == 404
