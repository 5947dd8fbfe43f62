"""jobstats' summaries in Slurm's AdminComment: ``JS1:`` and the base64 of gzipped JSON.

They are written when a job ends, from the samples that Prometheus had then, and are read as evidence of how busy the
job's GPUs were where those samples are gone. A blob that is cut or lacks the numbers says nothing: unknown, never 0.
Format: https://github.com/PrincetonUniversity/jobstats.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from pipelines.sources.slurm_values import members_of
from pipelines.sources.tally import Tally

PREFIX: Final = "JS1:"
_NOTHING: Final = frozenset({"", "None", "Short"})  # no nodes, or too short a job to have samples
_MAX_BYTES: Final = 1 << 24  # of one summary, unpacked


@dataclass(frozen=True)
class Summary:
    """What one blob says: of how many GPUs, their mean utilisation and highest share of used memory, as ratios."""

    gpus: int
    utilization: float
    memory_ratio: float | None


def summaries(jobs: pl.DataFrame, cluster: str, tally: Tally) -> Iterator[dict[str, object]]:
    """Yield rows of ``facts.SUMMARY`` from ``shown``, ``start`` and ``AdminComment`` of runs."""
    told = jobs.filter(pl.col("AdminComment").str.starts_with(PREFIX).fill_null(value=False))
    for workload, start, comment, line in told.select("shown", "start", "AdminComment", "line").iter_rows():
        try:
            summary = read_summary(comment)
        except ValueError as error:
            tally.add(f"AdminComment: {error}", line)
            continue
        if summary is not None:
            yield {
                "cluster": cluster,
                "workload": workload,
                "start": start,
                "gpus": summary.gpus,
                "utilization": summary.utilization,
                "memory_ratio": summary.memory_ratio,
                "source": "jobstats",
            }


def read_summary(comment: str) -> Summary | None:
    """Read one blob; None where it speaks of no GPU.

    Raises:
        ValueError: it is cut or no summary; the message says why.
    """
    blob = comment.removeprefix(PREFIX).strip()
    if blob in _NOTHING:
        return None
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(base64.b64decode(blob, validate=True), _MAX_BYTES)
        if not unpacker.eof:
            raise ValueError("summary that breaks off")
        content = json.loads(text)
    except (binascii.Error, zlib.error, UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("summary that is no gzipped JSON") from None
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, dict):
        raise ValueError("summary without its nodes")  # noqa: TRY004  the caller's input, not its code
    busy: list[float] = []
    memory: list[float] = []
    for node in map(members_of, nodes.values()):
        busy += _numbers(node.get("gpu_utilization"), most=102.0).values()
        used = _numbers(node.get("gpu_used_memory"), most=math.inf)
        total = _numbers(node.get("gpu_total_memory"), most=math.inf)
        memory += [min(used[gpu] / size, 1.0) for gpu, size in total.items() if gpu in used and size > 0]
    if not busy:
        return None
    ratios = [min(percent / 100, 1.0) for percent in busy]
    return Summary(len(ratios), sum(ratios) / len(ratios), max(memory, default=None))


def _numbers(values: Any, *, most: float) -> dict[str, float]:
    """The possible ones of the numbers by GPU; what is no number says nothing."""
    return {
        str(gpu): float(value)
        for gpu, value in members_of(values).items()
        if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= most
    }
