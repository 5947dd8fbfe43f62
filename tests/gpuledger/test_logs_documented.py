"""docs/logs.md names every logger and every field of what is logged."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpuledger.reading_progress import ReadingProgress

ROOT = Path(__file__).parents[2]
LOGS = (ROOT / "docs" / "logs.md").read_text()
PACKAGES = ("exporter", "pipelines", "alerts", "dashboards", "app", "gpuledger")
OTHERS = {"pyspark"}
"""Loggers of libraries, which are set and not written to."""


def loggers() -> set[str]:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name in re.findall(r"getLogger\(([^)]+)\)|log_line\([^\n]*logger=([^,)]+)", path.read_text()):
                found.add(module if "__name__" in name else "".join(name).strip("\"'"))
    return found - OTHERS


def test_every_logger_is_documented() -> None:
    assert {"gpuledger.run", "exporter.sampler"} <= loggers()  # the pattern finds both ways
    assert {name for name in loggers() if f"`{name}`" not in LOGS} == set()


def test_every_field_of_run_is_documented() -> None:
    daemon = (ROOT / "gpuledger" / "daemon.py").read_text()
    said = re.findall(r"_say\([^\n]*|return \{\"samples\"[^\n]*", daemon)
    fields = {key for line in said for key in re.findall(r"\"(\w+)\":", line)}
    now = datetime(2026, 12, 1, tzinfo=UTC)
    told: list[str] = []
    ReadingProgress(io.StringIO(), lambda _, given: told.extend(given), lambda: now)("p", now - timedelta(days=3))
    assert fields == {"result", "samples", "records", "findings", "seconds", "error"}
    assert told == ["source", "until"]
    assert {name for name in (*fields, *told) if f"`{name}`" not in LOGS} == set()
