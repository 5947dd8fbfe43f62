"""The daemon: a failed pass is counted and tried again, and /metrics says how it goes."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from exporter.errors import ConfigError, SourceError, UsageError
from gpuledger.daemon import Daemon, serve_metrics


def daemon_of(passes: list[Callable[[], str]], said: list[str]) -> tuple[Daemon, CollectorRegistry]:
    """A daemon that runs these passes and stops with the last."""
    registry = CollectorRegistry()
    waiting = list(passes)

    def one_pass() -> str:
        work = waiting.pop(0)
        if not waiting:
            daemon.stop()
        return work()

    ticks = iter(range(100))
    daemon = Daemon(one_pass, every_seconds=0, say=said.append, registry=registry, clock=lambda: float(next(ticks)))
    return daemon, registry


def unreachable() -> str:
    raise SourceError("http://prom:9090", "no answer")


def test_a_failed_pass_is_said_counted_and_tried_again() -> None:
    said: list[str] = []
    daemon, registry = daemon_of([unreachable, lambda: "3 days rebuilt"], said)
    daemon.run()
    assert said == ["this pass failed, the next one tries again: http://prom:9090: no answer", "3 days rebuilt"]
    assert registry.get_sample_value("gpuledger_pipeline_passes_total", {"result": "failed"}) == 1
    assert registry.get_sample_value("gpuledger_pipeline_passes_total", {"result": "done"}) == 1
    assert registry.get_sample_value("gpuledger_pipeline_last_pass_duration_seconds") == 1


def test_no_success_yet_is_zero_and_not_a_time() -> None:
    daemon, registry = daemon_of([unreachable], [])
    daemon.run()
    assert registry.get_sample_value("gpuledger_pipeline_last_success_timestamp_seconds") == 0


def test_a_wrong_configuration_ends_it() -> None:
    def wrong() -> str:
        raise ConfigError("gpuledger.yaml: rates", "empty")

    daemon, _ = daemon_of([wrong], [])
    with pytest.raises(ConfigError):
        daemon.run()


def test_metrics_are_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    _, registry = daemon_of([], [])
    server = serve_metrics(f"127.0.0.1:{port}", registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'gpuledger_pipeline_passes_total{result="failed"} 0.0' in answer.read()
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("listen", ["9837x", "127.0.0.1:http", "127.0.0.1:70000"])
def test_a_wrong_address_is_bad_usage(listen: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        serve_metrics(listen, CollectorRegistry())


def test_a_taken_port_is_bad_usage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="in use"):
        serve_metrics(f"127.0.0.1:{taken.getsockname()[1]}", CollectorRegistry())
