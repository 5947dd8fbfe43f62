"""Ways out of the process: each works, and none can end a training."""

from __future__ import annotations

import http.server
import logging
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.training import StepMeter
from tests.gpuledger.training.clocks import Clock, a_meter


@pytest.fixture
def meter() -> Iterator[StepMeter]:
    made = a_meter(Clock(), environ={"RANK": "1", "SLURM_JOB_ID": "47/11", "SLURMD_NODENAME": "n1"})
    made.step_done(1.0, samples=4)
    yield made
    made.close()


def test_http(meter: StepMeter) -> None:
    meter.export("http:127.0.0.1:0")
    port = meter._export._server.server_port  # type: ignore[union-attr]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'gpuledger_training_samples_total{hpc_job="47/11",node="n1",rank="1",run="run"} 4.0' in text


def test_the_ranks_of_a_node_have_a_port_each(meter: StepMeter, caplog: pytest.LogCaptureFixture) -> None:
    meter.export("http:127.0.0.1:0")
    port = meter._export._server.server_port  # type: ignore[union-attr]
    with caplog.at_level(logging.WARNING, "gpuledger.training"):
        second = a_meter(Clock(), environ={"LOCAL_RANK": "1"}, export=f"http:127.0.0.1:{port - 1}")
        second.step_done(1.0)
    assert "in use" in caplog.text  # port - 1 + local rank 1 is taken: it is said, and the step counted
    second.close()


def test_a_textfile_is_whole_and_named_by_job_and_rank(meter: StepMeter, tmp_path: Path) -> None:
    meter.export(f"textfile:{tmp_path}")
    meter.close()
    assert [path.name for path in tmp_path.iterdir()] == ["gpuledger-training-47_11-1.prom"]
    text = (tmp_path / "gpuledger-training-47_11-1.prom").read_text()
    assert "# TYPE gpuledger_training_steps_total counter" in text


def test_a_pushgateway_keeps_ranks_apart(meter: StepMeter) -> None:
    asked: list[tuple[str, bytes]] = []

    class Gateway(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        meter.export(f"push:http://127.0.0.1:{server.server_port}")
        meter.close()
        server.shutdown()
        thread.join()
    (path, body), *_ = asked
    assert "/job/gpuledger_training" in path
    assert "/rank/1" in path
    assert b"gpuledger_training_steps_total" in body


@pytest.mark.parametrize("to", ["push:http://127.0.0.1:9", "textfile:/nonexistent/folder", "carrier:pigeon", "http:x"])
def test_what_fails_is_said_once_and_stops_nothing(meter: StepMeter, to: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gpuledger.training"):
        for _ in range(3):
            meter.export(to)
            meter.step_done(1.0)
            meter.close()
    assert len(caplog.records) == 1


def test_the_environment_may_say_where_to(tmp_path: Path) -> None:
    meter = a_meter(Clock(), environ={"GPULEDGER_TRAINING_EXPORT": f"textfile:{tmp_path}", "POD_NAME": "p-0"})
    meter.step_done(1.0)
    meter.close()
    assert [path.name for path in tmp_path.iterdir()] == ["gpuledger-training-p-0-0.prom"]
