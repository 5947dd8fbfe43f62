"""A real Prometheus, filled with the past and with what rules would have recorded then."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

Series = tuple[dict[str, str], list[tuple[float, float]]]


@dataclass(frozen=True)
class Span:
    """The times that are stored: first, last, and the step between two."""

    start: float
    end: float
    step: int


class Prometheus:
    """A server over a folder of blocks; restarted when blocks are added.

    Args:
        lookback_seconds: for how long a sample counts. Back-filled data has no stale markers, so it must be just over
            the scrape interval.
    """

    def __init__(self, folder: Path, *, lookback_seconds: int = 300, config: str = "scrape_configs: []\n") -> None:
        self._folder, self._lookback = folder, lookback_seconds
        self._storage = folder / "storage"
        self._storage.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(config)
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(timeout=120)
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start, and wait until it is ready."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._storage}",
                "--storage.tsdb.retention.time=100y",
                f"--query.lookback-delta={self._lookback}s",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                if self._client.get(f"{self.url}/-/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, "prometheus ended while it started"
            time.sleep(0.05)
        raise AssertionError("prometheus isn't ready after half a minute")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server for good."""
        self.stop()
        self._client.close()

    def fill(self, text: Path) -> None:
        """Add blocks from OpenMetrics text, and start over so that they are seen."""
        running = self._process is not None
        self.stop()
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=48h", "openmetrics", text, self._storage],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        if running:
            self.start()

    def query(self, expression: str, at: float) -> list[Any]:
        """The result of an instant query."""
        return self._ask("query", {"query": expression, "time": at})

    def value(self, expression: str, at: float) -> float | None:
        """The one value of a result; None: it is empty."""
        found = self.query(expression, at)
        assert len(found) <= 1, f"{len(found)} series: {expression}"
        return float(found[0]["value"][1]) if found else None

    def range(self, expression: str, span: Span) -> list[Series]:
        """The series of a range query."""
        form = {"query": expression, "start": span.start, "end": span.end, "step": span.step}
        return [
            (series["metric"], [(t, float(v)) for t, v in series["values"]])
            for series in self._ask("query_range", form)
        ]

    def label_values(self, label: str, match: str) -> list[str]:
        """The values of a label."""
        answer = self._client.get(f"{self.url}/api/v1/label/{label}/values", params={"match[]": match})
        assert answer.status_code == 200, answer.text
        found: list[str] = answer.json()["data"]
        return found

    def metrics(self, name: str) -> dict[str, float]:
        """One of the server's own metrics by its labels, as text."""
        text = self._client.get(f"{self.url}/metrics").text
        return {m[1]: float(m[2]) for m in re.finditer(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE)}

    def cpu_seconds(self) -> float:
        """Processor time of the server since it started."""
        text = self._client.get(f"{self.url}/metrics").text
        found = re.search(r"^process_cpu_seconds_total (\S+)$", text, re.MULTILINE)
        assert found
        return float(found[1])

    def _ask(self, kind: str, form: Mapping[str, Any]) -> list[Any]:
        answer = self._client.post(f"{self.url}/api/v1/{kind}", data=form)
        assert answer.status_code == 200, f"{answer.text}: {form['query']}"
        result: list[Any] = answer.json()["data"]["result"]
        return result


def record_past(server: Prometheus, rules: Sequence[Mapping[str, Any]], span: Span, folder: Path) -> int:
    """Store what the recording rules would have recorded at each step of the span; returns the number of samples."""
    count = 0
    for number, layer in enumerate(layers(rules)):
        text = folder / f"layer-{number}.om"
        with text.open("w", encoding="utf-8") as file:
            for rule in layer:
                for labels, values in server.range(rule["expr"], span):
                    named = {k: v for k, v in labels.items() if k != "__name__"} | dict(rule.get("labels", {}))
                    inside = ",".join(f'{name}="{value}"' for name, value in sorted(named.items()))
                    file.writelines(f"{rule['record']}{{{inside}}} {value} {t}\n" for t, value in values)
                    count += len(values)
            file.write("# EOF\n")
        if text.stat().st_size > len("# EOF\n"):
            server.fill(text)
        text.unlink()
    return count


def record_instant(server: Prometheus, rules: Sequence[Mapping[str, Any]], at: float, folder: Path) -> None:
    """Store what rules would have recorded at one time, for those that a range query can't be asked for."""
    text = folder / "instant.om"
    with text.open("w", encoding="utf-8") as file:
        for rule in rules:
            for found in server.query(rule["expr"], at):
                named = {k: v for k, v in found["metric"].items() if k != "__name__"} | dict(rule.get("labels", {}))
                inside = ",".join(f'{name}="{value}"' for name, value in sorted(named.items()))
                file.write(f"{rule['record']}{{{inside}}} {found['value'][1]} {at}\n")
        file.write("# EOF\n")
    server.fill(text)
    text.unlink()


def layers(rules: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rules by how many others stand between them and the raw series; a later one of a record is never lower."""
    names = list(dict.fromkeys(rule["record"] for rule in rules))
    depth: dict[str, int] = {}
    found: list[list[Mapping[str, Any]]] = []
    for rule in rules:
        record, expr = rule["record"], rule["expr"]
        below = [depth[name] + 1 for name in names if name in depth and reads(expr, name)]
        depth[record] = max([0, depth.get(record, 0), *below])
        while len(found) <= depth[record]:
            found.append([])
        found[depth[record]].append(rule)
    return found


def reads(expression: str, name: str) -> bool:
    """Whether an expression reads a recorded series."""
    return re.search(rf"(?<![a-z0-9_:]){re.escape(name)}(?![a-z0-9_:])", expression) is not None


def copied(folder: Path, to: Path) -> Path:
    """A copy of a storage that another server may have."""
    shutil.copytree(folder, to)
    return to
