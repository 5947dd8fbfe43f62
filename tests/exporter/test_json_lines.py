from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.json_lines import JsonFormatter, log_line

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 10, 5, 12, 0, 4, 310_999, tzinfo=UTC)
REQUIRED = {"@timestamp", "log.level", "message", "ecs.version", "service.name", "log.logger"}


def test_a_line_has_the_names_of_the_elastic_common_schema() -> None:
    line: dict[str, Any] = json.loads(log_line("read", at=AT, level="warn", fields={"samples": 3, "path": Path("a")}))
    assert line.keys() == REQUIRED | {"gpuledger"}
    assert (line["@timestamp"], line["log.level"]) == ("2026-10-05T12:00:04.310Z", "warn")
    assert line["gpuledger"] == {"samples": 3, "path": "a"}


def test_a_line_is_one_line_of_text_whatever_is_in_it() -> None:
    text = log_line('a "b"\n\x00 é \ud800', at=AT)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["message"] == 'a "b"\n\x00 é \ud800'


@pytest.mark.parametrize(
    ("level", "expected"), [("DEBUG", "debug"), ("INFO", "info"), ("WARNING", "warn"), ("CRITICAL", "fatal")]
)
def test_levels_are_those_of_the_schema(level: str, expected: str) -> None:
    record = logging.LogRecord("exporter.x", getattr(logging, level), "", 0, "%s lost", ("GPU-a",), None)
    line = json.loads(JsonFormatter().format(record))
    assert (line["log.level"], line["message"], line["log.logger"]) == (expected, "GPU-a lost", "exporter.x")


def test_a_fault_of_the_program_comes_with_where_it_was() -> None:
    try:
        1 // [0][0]
    except ZeroDivisionError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert (line["error.type"], line["error.message"]) == ("ZeroDivisionError", "integer division or modulo by zero")
    assert "test_json_lines.py" in line["error.stack_trace"]


def test_the_documents_example_is_such_a_line() -> None:
    document = (ROOT / "docs/logs.md").read_text()
    examples = re.findall(r"```json\n(.*)\n```", document)
    assert examples
    for line in map(json.loads, examples):
        assert line.keys() == json.loads(log_line("x", fields={"a": 1})).keys()
        assert all(f"`{key}`" in document for key in line)


def test_a_running_exporter_says_everything_in_json(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(
        "gpus: [{model: Tesla T4, faults: [{kind: lost, at: 0.3}]}, {model: Tesla T4}]\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter.main", "--fake", tmp_path / "fleet.yaml", "--listen", "127.0.0.1:0",
         "--interval", "200ms", "--log-format", "json"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, "NODE_NAME": "n1"},
    )  # fmt: skip
    assert process.stderr is not None
    lines = [json.loads(process.stderr.readline()) for _ in range(2)]
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=20)
    lines += [json.loads(line) for line in rest.splitlines()]
    assert process.returncode == 0
    assert all(line.keys() >= REQUIRED for line in lines)
    assert lines[0]["message"].startswith("serving http://127.0.0.1:")
    assert (lines[1]["log.level"], lines[1]["log.logger"]) == ("warn", "exporter.sampler")
    assert re.match(r"GPU-[-0-9a-f]+: (?!GPU-)", lines[1]["message"])
