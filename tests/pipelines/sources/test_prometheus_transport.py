"""What goes below httpx's client: answers whole or an error of httpx's, over connections that are used again."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx
import pytest

from pipelines.config import Source
from pipelines.sources.prometheus.sign_in import client_of
from pipelines.sources.prometheus.transport import UrllibTransport

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: value\r\n\r\n"
WHOLE = HEAD + b"3\r\nabc\r\n" * 1000 + b"0\r\n\r\n"


class Server:
    """Says the same bytes to every request; without an end of the answer in them it then hangs up."""

    def __init__(self, said: bytes) -> None:
        self.connections = connections = []  # type: list[object]

        class Saying(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                connections.append(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.wfile.write(said)
                self.close_connection = said != WHOLE

            do_GET = do_POST  # noqa: N815 - named so by http.server

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Saying)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_an_answer_of_many_chunks_comes_whole_over_one_connection() -> None:
    with Server(WHOLE) as server, httpx.Client(transport=UrllibTransport()) as client:
        for _ in range(3):
            with client.stream("POST", server.url, content=b"asked") as response:
                assert b"".join(response.iter_bytes()) == b"abc" * 1000
            assert (response.status_code, response.headers["x-name"]) == (200, "value")
        assert len(server.connections) == 1


def test_a_connection_whose_answer_was_left_is_not_asked_again() -> None:
    with Server(WHOLE) as server, httpx.Client(transport=UrllibTransport()) as client:
        with client.stream("GET", server.url):
            pass
        assert client.get(server.url).content == b"abc" * 1000
        assert len(server.connections) == 2


@pytest.mark.parametrize(
    "said", [HEAD + b"3\r\nabc\r\n", HEAD + b"9\r\nabc", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"nothing"]
)
def test_an_answer_that_is_cut_is_an_error(said: bytes) -> None:
    with (
        Server(said) as server,
        httpx.Client(transport=UrllibTransport()) as client,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        client.get(server.url)


def test_a_server_that_is_not_there_is_an_error_of_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with httpx.Client(transport=UrllibTransport()) as client, pytest.raises(httpx.ConnectError):
        client.get(url)


def test_a_server_that_says_nothing_is_a_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, httpx.Client(transport=UrllibTransport()) as client:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(httpx.ReadTimeout):
            client.get(url, timeout=httpx.Timeout(5, read=0.05))


def test_proxies_of_the_environment_are_still_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Server(WHOLE) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        source = Source.model_validate({"prometheus": "http://nowhere.example:9090"})
        with client_of(source) as client:
            assert client.get("http://nowhere.example:9090/").text == "abc" * 1000
