"""A Spark Connect server in a process of its own: Sail, whose workers are threads of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipelines.engine.connect import CLIENT

STARTS_WITHIN_S = 240  # a JVM on a busy machine


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the server didn't listen on {port} within {STARTS_WITHIN_S} s")


@contextmanager
def running_sail(repository: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Sail's URL and process; its log lies in a folder."""
    if any(find_spec(module) is None for module in ("pysail", *CLIENT)):
        pytest.skip("Sail or Spark's client is not installed: pip install 'gpuledger[spark]' pysail")
    port = free_port()
    command = [sys.executable, "-m", "pysail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as written:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(repository)},
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            await_port(port, process)
            yield f"sc://127.0.0.1:{port}", process
        finally:
            process.kill()  # it waits for its tasks otherwise
            process.wait()


@pytest.fixture(scope="session")
def sail(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running Sail."""
    with running_sail(repository, tmp_path_factory.mktemp("sail")) as (url, _):
        yield url
