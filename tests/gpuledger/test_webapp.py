"""Starting the app: on loopback, on a port that is free, without calling home."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from exporter.errors import UsageError, WorkError
from gpuledger import webapp


def test_the_server_listens_on_loopback_and_reports_to_nobody() -> None:
    command = webapp.streamlit_command(Path("main.py"), address="127.0.0.1", port=8600)
    assert command[:6] == [sys.executable, "-P", "-m", "streamlit", "run", "main.py"]
    assert {"--server.address=127.0.0.1", "--server.port=8600", "--browser.gatherUsageStats=false"} <= set(command)


def test_a_taken_port_is_passed_over_or_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}: cannot listen there"):
            webapp.serve(Path("gpuledger.yaml"), port=port)
        with pytest.raises(WorkError, match="all in use"):
            webapp.free_port(first=port, tries=1)


@pytest.mark.parametrize("port", [-1, 70000])
def test_an_impossible_port_is_bad_usage(port: int) -> None:
    with pytest.raises(UsageError, match="choose another with --port N"):
        webapp.serve(Path("gpuledger.yaml"), port=port)
