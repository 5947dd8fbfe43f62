"""Real servers for tests: the exporter's own on a thread, and a Prometheus that scrapes it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from exporter.server import Server


class Running:
    """A server on an event loop in a thread of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(10)
        self.port = server.port

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        await self.server.start("127.0.0.1", 0)
        started.set()
        await self._ended.wait()
        await self.server.stop()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
        assert not self._thread.is_alive()


class Prometheus:
    """A Prometheus that scrapes every second while the context lasts; rules are groups of a rules file."""

    def __init__(self, folder: Path, jobs: Sequence[dict[str, Any]], rules: Sequence[dict[str, Any]] = ()) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        (folder / "rules.yml").write_text(json.dumps({"groups": list(rules)}))
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yml")], "scrape_configs": list(jobs),
        }))  # fmt: skip
        self._command = [
            "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=error",
        ]  # fmt: skip

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)

    def get(self, path: str, **parameters: str) -> Any:
        """``data`` of an answer of the API; raises OSError while it hasn't started."""
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(address, timeout=5) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an expression now."""
        return list(self.get("query", query=expression)["result"])

    def until(self, expression: str, *, series: int) -> list[Any]:
        """The series of an expression as soon as there are that many; waits for half a minute at most."""
        found: list[Any] = []
        for _ in range(150):
            try:
                found = self.query(expression)
            except OSError:
                pass
            else:
                if len(found) == series:
                    return found
            time.sleep(0.2)
        raise AssertionError(f"{expression}: {len(found)} series, {series} were expected")
