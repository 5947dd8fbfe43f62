"""The sample lake: Parquet by cluster and UTC day, as measured and nothing derived.

A part is written whole under a name made of its content, and counts only once the ledger lists it, so a crash leaves
at worst a file that nobody reads, and the same samples written again are the same part.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import quote

import polars as pl

from exporter.errors import LedgerError

ROWS_AT_ONCE: Final = 1_000_000
ROW_GROUP: Final = 64_000  # a day of 44 cards at 60 s: reading some cards skips the others' groups
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
    dated = samples.with_columns(day=pl.col("time").dt.date())
    for cluster, day in dated.select("cluster", "day").unique().sort("cluster", "day").iter_rows():
        rows = dated.filter((pl.col("cluster") == cluster) & (pl.col("day") == day)).drop("day")
        relative = f"cluster={_folder_name(cluster)}/day={day}"
        path = _write_part(folder, relative, rows.sort(ORDER, nulls_last=False, maintain_order=True))
        parts.append(Part(cluster, day, path, rows.height))
    return parts


def _folder_name(cluster: str) -> str:
    """Return a name that every file system takes: at most 255 bytes, and no way out of the lake."""
    name = quote(cluster, safe="")
    return name if len(name) <= 200 else f"{name[:180]}-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"


def _write_part(folder: Path, relative: str, rows: pl.DataFrame) -> str:
    target = folder / relative
    temporary = target / ".part.tmp"  # one writer holds the ledger; a killed one's leavings are written over
    try:
        target.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(temporary, compression="zstd", statistics=True, row_group_size=ROW_GROUP)
        with temporary.open("rb") as written:
            name = hashlib.file_digest(written, "sha256").hexdigest()[:20]
            os.fsync(written.fileno())
        final = target / f"{name}.parquet"
        temporary.replace(final)
    except (OSError, pl.exceptions.PolarsError) as error:
        with suppress(OSError):
            temporary.unlink()
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        if isinstance(error, pl.exceptions.PolarsError) and shutil.disk_usage(folder).free < rows.estimated_size():
            reason = os.strerror(errno.ENOSPC)  # polars doesn't say
        raise LedgerError(
            f"{target}: can't be written: {reason}; nothing was changed; free space or mend the permissions"
        ) from None
    return f"{relative}/{name}.parquet"


def read(folder: Path, paths: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the samples of listed parts, all of one card in one table, in tables of about ROWS_AT_ONCE.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    files = [folder / path for path in paths]
    for file in files:
        if not file.is_file():
            raise LedgerError(f"{file}: a part of the lake is missing; restore it, or import its source again")
    if not files:
        return
    try:
        parts = [pl.scan_parquet(file, hive_partitioning=False) for file in files]
        cards = pl.concat(part.select("cluster", "device") for part in parts).group_by("cluster", "device").len()
        for group in _groups(cards.sort("cluster", "device").collect()):
            yield pl.concat(
                pl.collect_all([part.join(group.lazy(), on=["cluster", "device"], how="semi") for part in parts]),
                how="diagonal",
            )
    except (OSError, pl.exceptions.PolarsError) as error:
        damaged = next((file for file in files if not _is_whole(file)), folder)
        raise LedgerError(
            f"{damaged}: is a damaged part of the lake: {str(error).splitlines()[0]};"
            " restore it from a backup, or delete it and import its source again"
        ) from None


def _is_whole(file: Path) -> bool:
    try:
        pl.read_parquet(file, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError):
        return False
    return True


def _groups(cards: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Group cards (``cluster``, ``device``, ``len``) so that each group has about ROWS_AT_ONCE samples."""
    group = (pl.col("len").cum_sum() - 1) // ROWS_AT_ONCE
    for _, rows in cards.with_columns(group=group).group_by("group", maintain_order=True):
        yield rows.select("cluster", "device")
