"""The app as its command starts it, and a person's browser before it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gpuledger import webapp

CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PATIENCE_MS: Final = 60_000
PROBES: Final = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit's front end asks below every path of the address for its server, and takes 404 for an answer."""
SIZES: Final = {"wide": (1440, 900), "narrow": (390, 844)}


@dataclass(frozen=True)
class Server:
    """A running app."""

    address: str
    process: int

    def files_open(self) -> set[str]:
        """Names of the published files that it has open."""
        links = Path(f"/proc/{self.process}/fd").iterdir()
        names = {link.readlink().name.removesuffix(" (deleted)") for link in links if link.is_symlink()}
        return {name for name in names if name.endswith(".duckdb")}


@contextmanager
def served(config: Path, *, port: int | None = None, secrets: Path | None = None) -> Iterator[Server]:
    """Serve the app of a configuration on loopback."""
    # By process: others on this machine may be about to take the first free one too.
    port = webapp.free_port(first=18701 + os.getpid() % 100, tries=100) if port is None else port
    script = Path(__file__).parents[2] / "app" / "serve.py"
    with subprocess.Popen(
        webapp.streamlit_command(script, address="127.0.0.1", port=port, secrets=secrets),
        env=os.environ | webapp.SETTINGS | {"GPULEDGER_CONFIG": str(config), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "URL: " in line:
                break
        else:
            pytest.fail("the server ended: " + "".join(said))
        # What it says later is read too, so that it never waits for a reader.
        reading = threading.Thread(target=process.stdout.read, daemon=True)
        reading.start()
        try:
            yield Server(f"http://127.0.0.1:{port}/", process.pid)
        finally:
            process.terminate()
            reading.join()


class Visit:
    """A browser of its own, with what it asked for and complained about."""

    def __init__(self, browser: Any, address: str, *, size: str = "wide", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.address = address
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)

    def open(self, path: str) -> None:
        """Go to a page and wait until it is drawn."""
        self.page.goto(self.address + path)
        self.settle()

    def settle(self) -> None:
        """Wait until the page is drawn."""
        self.page.wait_for_selector('[data-testid="stMain"] h1')
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        self.page.wait_for_function("!document.querySelector('[data-testid=stSkeleton], [data-stale=true]')")

    def title(self) -> str:
        """The page's heading."""
        return str(self.page.locator('[data-testid="stMain"] h1').inner_text())

    def _console(self, message: Any) -> None:
        probe = any(message.location.get("url", "").endswith(path) for path in PROBES)
        if message.type == "error" and not probe:
            self.complaints.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(request.url)
