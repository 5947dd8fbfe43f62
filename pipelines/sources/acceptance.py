"""Source `acceptance`: results of acceptance tests: `dcgmi diag -j` (DCGM 2 to 4), and nccl-tests' bandwidth tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from exporter.errors import SourceError
from pipelines.facts import rows_of
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.slurm_values import members_of, text_of
from pipelines.sources.tally import Tally
from pipelines.tables import Batch

Row = dict[str, object]

_DIAG: Final = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_OUTCOMES: Final = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip", "not run": "skip"}
_RANK: Final = re.compile(r"#\s+Rank\s+\d+\b.* on\s+(\S+) device\s+(\d+)")
_COLLECTIVE: Final = re.compile(r"#\s*Collective test (?:starting|concluded): (\w+)")
_COMMAND: Final = re.compile(r"\b(\w+_perf)\b")
_AVERAGE: Final = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([\d.]+)")
_BOUNDS: Final = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s*(\w+)")
_SIZE: Final = re.compile(r"\s*(\d+)\s+\d+\s+\w+\s")
_BUS_COLUMNS: Final = (
    7,
    11,
)  # of size, count, type, redop, root, time, algbw, busbw, #wrong, time, algbw, busbw, #wrong


def read_acceptance(
    path: Path, *, cluster: str | None, at: datetime | None, node: str | None = None, name: str | None = None
) -> Batch:
    """One row of ``facts.ACCEPTANCE`` per test and device (DCGM), or per measure and node (NCCL).

    Args:
        cluster: of the nodes; None: any.
        at: when the tests ran.
        node: that they ran on, where the file doesn't say.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, holds no such results, or nobody says when or where they were made.
    """
    tally = Tally(name or path.name)
    with open_source(path) as stream:
        text = b"\n".join(line for _, block in line_blocks(stream, tally) for line in block).decode("utf-8", "replace")
    if at is None:
        raise SourceError(str(path), "its results have no time", "say when the tests ran: add `at` to this source")
    if any(f'"{title}"' in text for title in _DIAG):
        rows = list(_diag(path, text, node, tally))
    elif "bus bandwidth" in text or "busbw" in text:
        rows = list(_nccl(text, node))
    else:
        raise SourceError(
            str(path), "holds no test results that are known", "give the output of `dcgmi diag -j` or of nccl-tests"
        )
    if not rows:
        tally.add("acceptance test without a result")
    common = {"cluster": cluster, "at": at}
    return Batch(facts=rows_of("acceptance", ({**common, **row} for row in rows)), findings=tally.findings())


def _diag(path: Path, text: str, node: str | None, tally: Tally) -> Iterator[Row]:
    try:
        # dcgmi prints a line before its JSON where the host engine has something to say.
        content, _ = json.JSONDecoder(strict=False).raw_decode(text[text.index("{") :])
    except ValueError:
        raise SourceError(str(path), "is JSON that breaks off", "run `dcgmi diag -j` again, or copy it whole") from None
    if node is None:
        raise SourceError(str(path), "doesn't say which node it is of", "add `node` to this source")
    diag = next((members_of(content.get(title)) for title in _DIAG if title in content), {})
    for category in _dicts(diag.get("test_categories")):
        for test in _dicts(category.get("tests")):
            for result in _dicts(test.get("results")):
                outcome = _OUTCOMES.get(str(result.get("status", "")).lower())
                if outcome is None:
                    tally.add("result of an acceptance test without an outcome")
                    continue
                for device in _devices(result, node):
                    yield {
                        "node": node,
                        "device": device,
                        "test": str(test.get("name")),
                        "outcome": outcome,
                        "detail": _said(result.get("warnings")) or _said(result.get("info")),
                        "source": "dcgm",
                    }


def _devices(result: Mapping[str, Any], node: str) -> list[str | None]:
    """The GPUs that a result is of, as ``node/index``; None: of the node."""
    ids = text_of(result.get("gpu_ids")) or text_of(result.get("gpu_id"))
    if ids is None and str(result.get("entity_group", "")).upper() == "GPU":
        ids = text_of(result.get("entity_id"))
    return [f"{node}/{each.strip()}" for each in ids.split(",") if each.strip()] if ids else [None]


def _said(value: Any) -> str | None:
    """Warnings or information: text, or a list of texts or of objects that hold it."""
    entries = value if isinstance(value, list) else [value]
    texts = [text_of(members_of(each).get("warning") if isinstance(each, dict) else each) for each in entries]
    return "; ".join(text for text in texts if text) or None


def _nccl(text: str, node: str | None) -> Iterator[Row]:
    ranks: dict[str, set[str]] = {}
    average: float | None = None
    peak: float | None = None
    outcome, detail = "pass", None
    named = _COLLECTIVE.search(text) or _COMMAND.search(text)
    for line in text.splitlines():
        if rank := _RANK.match(line):
            ranks.setdefault(rank[1], set()).add(rank[2])
        elif found := _AVERAGE.match(line):
            average = float(found[1])
        elif bounds := _BOUNDS.match(line):
            if bounds[1] != "0" or bounds[2].upper() != "OK":
                outcome, detail = "fail", f"{bounds[1]} values out of bounds"
        elif _SIZE.match(line):
            peak = max(filter(None, (peak, *_bandwidths(line.split()))), default=None)
    test = named[1] if named else "nccl"
    where = f"{sum(map(len, ranks.values()))} GPUs on {len(ranks)} nodes" if ranks else None
    hosts: list[str | None] = [*sorted(ranks)] or [node]
    for host in hosts:
        for measure, value in (("average bus bandwidth", average), ("peak bus bandwidth", peak)):
            if value is not None:
                yield {
                    "node": host,
                    "device": None,
                    "test": f"{test}: {measure}",
                    "outcome": outcome,
                    "value": value,
                    "unit": "GB/s",
                    "detail": detail or where,
                    "source": "nccl",
                }


def _bandwidths(fields: list[str]) -> Iterator[float | None]:
    for column in _BUS_COLUMNS:
        if column < len(fields):
            try:
                yield float(fields[column])
            except ValueError:
                yield None


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
