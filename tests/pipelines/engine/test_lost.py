"""A server that goes in the middle, or a user who does: an end within seconds, in one line, and nothing changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.errors import EngineError
from pipelines.engine import connect
from pipelines.engine.connect import SparkEngine
from pipelines.operations import run_once
from tests.pipelines.cases import mig
from tests.pipelines.engine import conftest
from tests.pipelines.engine.slow import Slow
from tests.pipelines.folders import configured

ENDS_WITHIN_S = 60  # far more than it takes: the machine may be busy


@pytest.fixture
def server(repository: Path, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Sail that may be killed."""
    with conftest.running_sail(repository, tmp_path) as (url, process):
        yield url, process


def await_file(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + ENDS_WITHIN_S
    while not path.exists():
        assert time.monotonic() < end, "the work didn't begin"
        assert process.poll() is None, "the process ended"
        time.sleep(0.02)


def test_a_server_that_is_killed_in_the_middle_is_said(
    server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connect.RETRIES, "max_retries", 1)
    url, process = server
    begun = tmp_path / "begun"

    def kill() -> None:
        await_file(begun, process)
        process.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    said = rf"{url}: was lost in the middle, or can't be reached; .* start it again"
    with SparkEngine(url) as engine:
        engine.connect()
        with pytest.raises(EngineError, match=said) as raised:
            list(engine.run(Slow(begun), [b""]))
    killing.join()
    assert raised.value.exit_status == 1
    assert "\n" not in str(raised.value)


def test_a_pass_whose_server_is_lost_changes_nothing(
    server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connect.RETRIES, "max_retries", 1)
    url, process = server
    config = configured(mig.CASES[0].scene, tmp_path / "scene")
    config = config.model_copy(update={"engine": config.engine.model_copy(update={"spark": url})})
    given = SparkEngine._given

    def killed_first(engine: SparkEngine, *work: object) -> list[tuple[int, str, bytes]]:
        process.kill()
        process.wait()
        return given(engine, *work)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkEngine, "_given", killed_first)
    with pytest.raises(EngineError, match="was lost in the middle"):
        run_once(config)
    assert not [*config.ledger.rglob("current*")]
    assert not [*config.ledger.rglob(".engine-*")]
    monkeypatch.setattr(SparkEngine, "_given", given)
    alone = config.model_copy(update={"engine": config.engine.model_copy(update={"spark": None})})
    assert run_once(alone).rebuilt  # what was imported is there, and the pass goes on from it


def test_an_interrupt_ends_the_process_though_the_server_does_not_answer(
    server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, repository: Path
) -> None:
    url, process = server
    begun = tmp_path / "begun"
    command = [sys.executable, "-m", "tests.pipelines.engine.slow", url, str(begun)]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stderr=subprocess.PIPE,
    ) as waiting:
        await_file(begun, waiting)
        process.send_signal(signal.SIGSTOP)
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=ENDS_WITHIN_S)
    assert waiting.returncode in (-signal.SIGINT, 130)
    assert b"KeyboardInterrupt" in said
