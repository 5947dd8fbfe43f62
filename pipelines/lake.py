"""The sample lake: Parquet by cluster and UTC day, as measured and nothing derived.

A part is written whole under a name made of its content, and counts only once the ledger lists it, so a crash leaves
at worst a file that nobody reads, and the same samples written again are the same part.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import quote

import polars as pl

from exporter.errors import LedgerError
from pipelines.tables import SAMPLE_LABELS

ORDER: Final = ["device", "instance", "time", "namespace", "pod", "slice", "replica"]


@dataclass(frozen=True)
class Part:
    """One Parquet file of the lake."""

    cluster: str
    day: date
    path: str
    """Relative to the lake's folder."""
    rows: int


def write(folder: Path, samples: pl.DataFrame) -> list[Part]:
    """Write samples into the lake and return its new parts; parts that are there already are returned too.

    Raises:
        LedgerError: the disk is full or the folder can't be written; what was written is not listed and counts nothing.
    """
    parts = []
    days = samples.with_columns(day=pl.col("time").dt.date()).partition_by(
        ["cluster", "day"], as_dict=True, include_key=False
    )
    for (cluster, day), rows in sorted(days.items(), key=lambda item: (str(item[0][0]), str(item[0][1]))):
        ordered = rows.with_columns(cluster=pl.lit(cluster, pl.String)).sort(
            ORDER, nulls_last=False, maintain_order=True
        )
        relative = f"cluster={quote(str(cluster), safe='')}/day={day}"
        path = _write_part(folder, relative, ordered)
        parts.append(Part(str(cluster), day, path, ordered.height))
    return parts


def _write_part(folder: Path, relative: str, rows: pl.DataFrame) -> str:
    target = folder / relative
    temporary = target / f".{os.getpid()}.tmp"
    try:
        target.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(temporary, compression="zstd", statistics=True)
        with temporary.open("rb") as written:
            name = hashlib.file_digest(written, "sha256").hexdigest()[:20]
            os.fsync(written.fileno())
        final = target / f"{name}.parquet"
        temporary.replace(final)
    except (OSError, pl.exceptions.PolarsError) as error:
        temporary.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise LedgerError(
            f"{target}: can't be written: {reason}; nothing was changed: free space or mend the permissions, and try again"
        ) from None
    return f"{relative}/{name}.parquet"


def read(folder: Path, paths: Iterable[str]) -> pl.DataFrame:
    """Return the samples of listed parts.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    files = [folder / path for path in paths]
    if not files:
        return pl.DataFrame(schema=SAMPLE_LABELS)
    for file in files:
        if not file.is_file():
            raise LedgerError(
                f"{file}: a part of the lake is missing; restore it from a backup, or import its source again"
            )
    try:
        return pl.concat((pl.read_parquet(file, hive_partitioning=False) for file in files), how="diagonal")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise LedgerError(f"{folder}: a part of the lake is damaged: {str(error).splitlines()[0]}") from None
