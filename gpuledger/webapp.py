"""Starting the Streamlit app: on loopback unless told otherwise, and without a word to anyone outside."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NoReturn

from exporter.errors import UsageError, WorkError
from gpuledger.options import CONFIG_VARIABLE

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8501


SETTINGS: Final = {
    # A full collection after every run took four fifths of its time, for a hundred objects; others come anyway. The
    # option is none of the documented ones: as a variable it is passed over where a release of Streamlit lacks it.
    "STREAMLIT_RUNNER_POST_SCRIPT_GC": "false",
}
"""The environment's part of how the app is served."""


def free_port(address: str = LOOPBACK, *, first: int = DEFAULT_PORT, tries: int = 20) -> int:
    """The first port from ``first`` on that nobody listens on."""
    for port in range(first, first + tries):
        if _is_free(address, port):
            return port
    raise WorkError(f"{address}: ports {first} to {first + tries - 1} are all in use; choose one with --port N")


def streamlit_command(script: Path, *, address: str, port: int, secrets: Path | None = None) -> list[str]:
    """The command line that serves ``script``; `secrets` holds what the sign-in needs."""
    settings = {
        "server.address": address,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
        **({"secrets.files": str(secrets)} if secrets else {}),
    }
    # -P: the working directory may hold an app.py or an exporter.py of its own.
    return [
        *(sys.executable, "-P", "-m", "streamlit", "run", str(script)),
        *(f"--{name}={value}" for name, value in settings.items()),
    ]


def is_loopback(address: str) -> bool:
    """Whether a server at this address is reached from its own machine only."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


def serve(config: Path, *, address: str = LOOPBACK, port: int = DEFAULT_PORT, secrets: Path | None = None) -> NoReturn:
    """Become the app's server.

    Raises:
        UsageError: the port is in use or can't be had.
    """
    if find_spec("streamlit") is None:
        raise WorkError("the app needs Streamlit, which is not installed; install gpuledger[app]")
    if not _is_free(address, port):
        raise UsageError(f"--port {port}: cannot listen there on {address}; choose another with --port N")
    command = streamlit_command(_script(), address=address, port=port, secrets=secrets)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, os.environ | SETTINGS | {CONFIG_VARIABLE: str(config.resolve())})  # noqa: S606


def _script() -> Path:
    spec = find_spec("app.serve")
    if spec is None or spec.origin is None:
        raise WorkError("app/serve.py is not installed; reinstall gpuledger")
    return Path(spec.origin)


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do, so that a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except (OSError, OverflowError):
            return False
    return True
