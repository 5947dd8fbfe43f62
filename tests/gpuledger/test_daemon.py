"""The daemon: a failed pass is counted and tried again, and /metrics says how it goes."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from exporter.errors import ConfigError, SourceError, UsageError
from gpuledger.daemon import Daemon, as_json, serve_metrics


@dataclass(frozen=True)
class Ingested:
    samples: int = 0
    records: int = 0
    findings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """What a pass came to."""

    said: str = "nothing new"
    ingested: Ingested = field(default_factory=Ingested)
    failed: tuple[SourceError, ...] = ()
    watermarks: Mapping[str, datetime] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.said


NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def daemon_of(passes: list[Callable[[], Pass]], said: list[str]) -> tuple[Daemon, CollectorRegistry]:
    """A daemon that runs these passes and stops with the last; its clock ticks a second at each look."""
    registry = CollectorRegistry()
    waiting = list(passes)

    def one_pass() -> Pass:
        work = waiting.pop(0)
        if not waiting:
            daemon.stop()
        return work()

    def say(text: str, fields: Mapping[str, object]) -> None:
        assert json.loads(as_json(text, fields))["message"] == text
        said.append(text)

    ticks = iter(range(100))
    daemon = Daemon(
        one_pass, every_seconds=0, say=say, registry=registry, clock=lambda: float(next(ticks)), now=NOW.timestamp
    )
    return daemon, registry


def unreachable() -> Pass:
    raise SourceError("http://prom:9090", "no answer")


def test_a_failed_pass_is_said_counted_and_tried_again() -> None:
    said: list[str] = []
    daemon, registry = daemon_of([unreachable, lambda: Pass("3 days rebuilt")], said)
    daemon.run()
    assert said == ["this pass failed, the next one tries again: http://prom:9090: no answer", "3 days rebuilt"]
    assert registry.get_sample_value("gpuledger_pipeline_passes_total", {"result": "failed"}) == 1
    assert registry.get_sample_value("gpuledger_pipeline_passes_total", {"result": "done"}) == 1
    assert registry.get_sample_value("gpuledger_pipeline_last_success_timestamp_seconds") == NOW.timestamp()
    assert (registry.get_sample_value("gpuledger_pipeline_last_pass_duration_seconds") or 0) > 0


def test_what_other_sources_gave_counts_where_one_fails() -> None:
    found = Ingested(samples=70, records=3, findings={"late_data": 2})
    failed = (SourceError("http://prom:9090", "no answer"),)
    marks = {"http://other:9090": NOW - timedelta(seconds=90)}
    daemon, registry = daemon_of([lambda: Pass("", found, failed, marks)], [])
    daemon.run()
    assert registry.get_sample_value("gpuledger_pipeline_rows_total", {"kind": "samples"}) == 70
    assert registry.get_sample_value("gpuledger_pipeline_rows_total", {"kind": "records"}) == 3
    assert registry.get_sample_value("gpuledger_pipeline_findings_total", {"code": "late_data"}) == 2
    lag = registry.get_sample_value("gpuledger_pipeline_watermark_lag_seconds", {"source": "http://other:9090"})
    assert lag == 90
    assert registry.get_sample_value("gpuledger_pipeline_passes_total", {"result": "failed"}) == 1
    assert not daemon.ready()


def test_it_is_ready_for_a_while_after_a_good_pass() -> None:
    daemon, _ = daemon_of([Pass], [])
    assert not daemon.ready()
    daemon.run()
    assert daemon.ready()
    assert [daemon.ready() for _ in range(4)][-1] is False  # each look takes a second of its clock


def test_it_is_told_to_stop_within_a_pass() -> None:
    seen: list[bool] = []

    def looks() -> Pass:
        seen.append(daemon.stopping())
        return Pass()

    daemon, _ = daemon_of([looks, looks], [])
    daemon.run()
    assert seen == [False, True]


def test_no_success_yet_is_zero_and_not_a_time() -> None:
    daemon, registry = daemon_of([unreachable], [])
    daemon.run()
    assert registry.get_sample_value("gpuledger_pipeline_last_success_timestamp_seconds") == 0


def test_a_wrong_configuration_ends_it() -> None:
    def wrong() -> Pass:
        raise ConfigError("gpuledger.yaml: rates", "empty")

    daemon, _ = daemon_of([wrong], [])
    with pytest.raises(ConfigError):
        daemon.run()


def test_metrics_are_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    daemon, registry = daemon_of([], [])
    server = serve_metrics(f"127.0.0.1:{port}", registry, daemon.ready)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'gpuledger_pipeline_passes_total{result="failed"} 0.0' in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10)
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
