"""A live Prometheus gives the ledger what it has stored: all of it, once, or an error."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from exporter.exposition import labels
from pipelines.config import load
from pipelines.ledger import open_ledger
from pipelines.live import name_of
from tests.end_to_end.commands import failure, findings, gpuledger, printed, refused, reported
from tests.end_to_end.recorded_exporter import ODD_POD, SCRAPES, RecordedExporter

CONFIG: Final = """\
currency: USD
sources:
  - {{{source}, cluster: prod}}
tenants:
  - {{id: vision, match: [{{namespace: "vision-*"}}]}}
  - {{id: nlp, match: [{{namespace: "nlp"}}]}}
rates:
  - {{model: "*", on_demand: "3600.00"}}
energy: {{price_per_kwh: "10.00", charge: true}}
"""
DEADLINE_S: Final = 120
Capture = pytest.CaptureFixture[str]
UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
LABELS: Final = {"UUID": "GPU-a", "Hostname": "n1", "modelName": "H100", "namespace": "nlp", "pod": "serve-0"}


def configure(folder: Path, source: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "gpuledger.yaml").write_text(CONFIG.format(source=source))
    return folder / "gpuledger.yaml"


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """A server in a thread of its own; yields its address."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        port: int = any_free.getsockname()[1]
    return port


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A real Prometheus that scrapes `target` each second; yields its URL."""
    # As under Kubernetes: labels of the target are the exporter's pod, those of the workload become exported_*.
    scrape = {
        "job_name": "gpu",
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "static_configs": [
            {"targets": [target], "labels": {"namespace": "monitoring", "pod": "nvidia-dcgm-exporter-x"}}
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    port = free_port()
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def query(url: str, expression: str) -> list[dict[str, Any]]:
    answered = httpx.get(f"{url}/api/v1/query", params={"query": expression}).json()
    assert answered["status"] == "success"
    result: list[dict[str, Any]] = answered["data"]["result"]
    return result


def wait_until_scraped(exporter: RecordedExporter, url: str) -> int:
    """Until the recording has ended; returns how many of its scrapes are stored."""
    if not exporter.ended.wait(DEADLINE_S):
        pytest.fail(f"{SCRAPES} scrapes were not made within {DEADLINE_S} s")
    (counted,) = query(url, 'count_over_time(DCGM_FI_DEV_XID_ERRORS{UUID="GPU-c"}[10m])')
    return int(counted["value"][1])


def stored_as_text(url: str) -> str:
    """Everything of the exporter that a Prometheus has stored, as exposition text with timestamps."""
    lines = []
    for series in query(url, '{__name__=~"DCGM_.+"}[10m]'):
        name = series["metric"].pop("__name__")
        lines += [f"{name}{labels(series['metric'])} {value} {round(at * 1000)}" for at, value in series["values"]]
    return "\n".join(lines) + "\n"


@pytest.mark.needs_program("prometheus")
def test_what_a_prometheus_stored_reports_as_its_direct_replay(tmp_path: Path, capsys: Capture) -> None:
    exporter = RecordedExporter()
    with serving(exporter) as target, prometheus(tmp_path, target) as url:
        assert wait_until_scraped(exporter, url) >= 30
        live = configure(tmp_path / "live", f'prometheus: "{url}"')
        first = gpuledger("run", "--once", "--config", live)
        assert (first.returncode, first.stderr) == (0, "")
        second = printed(capsys, "run", "--once", "--config", live)
        text = stored_as_text(url)

    assert first.stdout.startswith("read ")
    assert second == "nothing new (1 unchanged)\n"
    direct = configure(tmp_path / "direct", "metrics: stored.prom")
    (direct.parent / "stored.prom").write_text(text)
    replayed = json.loads(printed(capsys, "replay", direct.parent, "--json"))
    from_ledger = json.loads(printed(capsys, "report", "--config", live, "--json"))
    for each in (replayed, from_ledger):
        del each["as_of"], each["config_hash"]  # the two configurations name different sources
    assert from_ledger == replayed

    # And it is what the exporter said: three cards, who held them, the reset, the bad values.
    assert replayed["fleet"]["devices"] == 3
    held = {w["workload"]: w["gpu_hours"] * 3600 for t in replayed["tenants"] for w in t["workloads"]}
    # A second for each scrape; a busy machine scrapes late.
    assert held == {
        f"vision-train/{ODD_POD}": pytest.approx(12, abs=4),
        "nlp/serve-0": pytest.approx(SCRAPES - 14, abs=4),
        "nlp/tune-0": pytest.approx(SCRAPES / 2, abs=4),  # half a card, from the first scrape to the last
    }
    counts = findings(replayed)
    assert counts["counter_reset"] == 1
    assert counts["invalid_sample"] == 2
    assert counts["gap"] >= 3  # GPU-b and its two instances


class FakePrometheus(ThreadingHTTPServer):
    """The part of Prometheus's API that is asked for, over samples that a test may add to and break."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FakeHandler)
        self.stored: dict[str, list[tuple[float, str]]] = {UTIL: [], POWER: []}
        self.broken: set[str] = set()
        self.asked: list[str] = []

    def scrape(self, at: float, utilization: int, watts: int) -> None:
        self.stored[UTIL].append((at, str(utilization)))
        self.stored[POWER].append((at, str(watts)))

    def answer(self, path: str, fields: httpx.QueryParams) -> object:
        if path.endswith("/values"):
            return {"status": "success", "data": list(self.stored)}
        if path.endswith("/series"):
            start, end = float(fields["start"]), float(fields["end"])
            hit = any(start <= t <= end for values in self.stored.values() for t, _ in values)
            return {"status": "success", "data": [LABELS] if hit else []}
        if not path.endswith("/query"):
            return {"status": "error", "errorType": "not_found", "error": "there is only the query API"}
        if fields["query"].startswith("sum("):
            return self._count(fields["query"], float(fields["time"]))
        name, _, span = fields["query"].partition("[")
        self.asked.append(fields["query"])
        if name in self.broken:
            return {"status": "error", "errorType": "execution", "error": "shard 3 is\naway"}
        end = float(fields["time"])
        start = end - int(span.removesuffix("ms]")) / 1000
        values = [(t, v) for t, v in self.stored[name] if start <= t <= end]
        metric = {"__name__": name, **LABELS}
        result = [{"metric": metric, "values": values}] if values else []
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}

    def _count(self, expression: str, end: float) -> object:
        names, _, span = expression.removeprefix('sum(count_over_time({__name__=~"').partition('"}[')
        start = end - int(span.removesuffix("ms]))")) / 1000
        count = sum(start <= t <= end for name in names.split("|") for t, _ in self.stored[name])
        result = [{"metric": {}, "value": [end, str(count)]}] if count else []
        return {"status": "success", "data": {"resultType": "vector", "result": result}}


class _FakeHandler(BaseHTTPRequestHandler):
    server: FakePrometheus

    def do_GET(self) -> None:
        asked = httpx.URL(self.path)
        form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("latin-1")
        body = json.dumps(self.server.answer(asked.path, httpx.QueryParams(form) if form else asked.params)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def watermark(folder: Path) -> datetime | None:
    (source,) = load(folder / "gpuledger.yaml").sources
    with open_ledger(folder / "ledger", "test") as ledger:
        return ledger.watermark(name_of(source))


def test_an_error_under_http_200_is_an_error_and_nothing_is_half_imported(tmp_path: Path, capsys: Capture) -> None:
    server = FakePrometheus()
    with serving(server) as address:
        url = f"http://{address}"
        config = configure(tmp_path, f'prometheus: "{url}"')
        begin = time.time() - 1890
        for minute in range(31):
            server.scrape(begin + 60 * minute, 50, 300)
        printed(capsys, "run", "--once", "--config", config)
        before, read_until = reported(tmp_path), watermark(tmp_path)
        assert read_until is not None
        assert before["fleet"]["allocated_gpu_hours"] == pytest.approx(31 / 60, abs=1e-6)

        # A scrape that began before the last pass, and was stored after it, and a metric that can't be had.
        server.scrape(read_until.timestamp() - 30, 50, 300)
        server.broken = {POWER}
        said = failure(gpuledger("run", "--once", "--config", config), 1)
        assert said.startswith(f"{url}: answered /api/v1/query with HTTP 200 (execution: shard 3 is away)")
        assert reported(tmp_path) == before
        assert watermark(tmp_path) == read_until

        server.broken, server.asked = set(), []
        mended = printed(capsys, "run", "--once", "--config", config)
        assert mended.startswith("read 1 samples and 0 records from 1 sources")
        # Only what is new is asked for, and what may have been stored late.
        spans = {int(query.partition("[")[2].removesuffix("ms]")) for query in server.asked}
        assert max(spans) == 600_000
        after = reported(tmp_path)
        assert after["fleet"]["allocated_gpu_hours"] > before["fleet"]["allocated_gpu_hours"]
        assert findings(after) == {}

        assert printed(capsys, "run", "--once", "--config", config) == "nothing new (1 unchanged)\n"
        assert reported(tmp_path) == after


def test_a_source_that_fails_leaves_the_others_their_day(tmp_path: Path, capsys: Capture) -> None:
    server = FakePrometheus()
    server.scrape(time.time() - 600, 50, 300)
    server.broken = {UTIL}
    with serving(server) as address:
        config = configure(tmp_path, f'prometheus: "http://{address}"')
        config.write_text(config.read_text().replace("tenants:", "  - {allocations: held.csv}\ntenants:"))
        (tmp_path / "held.csv").write_text(
            "start,end,gpus,model,tenant\n2026-10-05T12:00:00Z,2026-10-05T13:00:00Z,1,H100,nlp\n"
        )
        said = refused(capsys, "run", "--once", "--config", config)
    assert said.startswith(f"http://{address}: ")
    assert [(t["tenant"], t["charges"]["usage"]) for t in reported(tmp_path)["tenants"]] == [("nlp", "3600.00")]
