"""The sample lake: Parquet by cluster and UTC day, as measured and nothing derived.

A part is written whole under a name made of its content, and counts only once the ledger lists it, so a crash leaves
at worst a file that nobody reads, and the same samples written again are the same part.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import polars as pl

from exporter.errors import LedgerError
from pipelines.instants import HOUR_MS, from_ms

T = TypeVar("T")

ROWS_AT_ONCE: Final = 500_000
SCRATCH: Final = ".engine-"
"""Begins the name of a folder in the lake in which an engine's workers keep something during a pass."""
ROW_GROUP: Final = 16_000  # a day of 11 cards at 60 s: reading some cards skips the others' groups
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


def merge(folder: Path, cluster: str, day: date, paths: Sequence[str]) -> str:
    """Write the samples of listed parts of one cluster and day as one, and return its path.

    Raises:
        LedgerError: a part is missing or damaged, or the disk is full; the parts stay as they are.
    """
    relative = f"cluster={_folder_name(cluster)}/day={day}"
    return _write_file(folder, relative, lambda target: _write_tables(target, read(folder, paths)))


def _write_tables(target: Path, tables: Iterator[pl.DataFrame]) -> None:
    """Write tables of consecutive cards, one after the other: memory doesn't follow the day."""
    parts = []
    for number, table in enumerate(tables):
        parts.append(target.with_name(f"{target.name}.{number}"))
        table.sort(ORDER, nulls_last=False, maintain_order=True).write_parquet(parts[-1], compression="lz4")
    try:
        together = pl.concat([_scan(part) for part in parts], how="diagonal")
        together.sink_parquet(target, compression="zstd", statistics=True, row_group_size=ROW_GROUP)
    finally:
        for part in parts:
            part.unlink()


def _write_part(folder: Path, relative: str, rows: pl.DataFrame) -> str:
    def write_rows(target: Path) -> None:
        rows.write_parquet(target, compression="zstd", statistics=True, row_group_size=ROW_GROUP)

    return _write_file(folder, relative, write_rows, int(rows.estimated_size()))


def _write_file(folder: Path, relative: str, write_to: Callable[[Path], None], size: int = 0) -> str:
    """Write a part under a name made of its content; it has that name only once it is whole and on the disk."""
    target = folder / relative
    temporary = target / ".part.tmp"  # one writer holds the ledger; a killed one's leavings are written over
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_to(temporary)
        with temporary.open("rb") as written:
            name = hashlib.file_digest(written, "sha256").hexdigest()[:20]
            os.fsync(written.fileno())
        final = target / f"{name}.parquet"
        temporary.replace(final)
    except (OSError, pl.exceptions.PolarsError) as error:
        with suppress(OSError):
            temporary.unlink()
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        if isinstance(error, pl.exceptions.PolarsError) and shutil.disk_usage(folder).free < size:
            reason = os.strerror(errno.ENOSPC)  # polars doesn't say
        raise LedgerError(
            f"{target}: can't be written: {reason}; nothing was changed; free space or mend the permissions"
        ) from None
    return f"{relative}/{name}.parquet"


@dataclass(frozen=True)
class Wanted:
    """Cards to read, all of one cluster, and from which UTC day on."""

    cluster: str
    devices: Sequence[str]
    since: date = date.min


@dataclass(frozen=True)
class Stored:
    """Listed parts, and the lake's folder that their paths are relative to."""

    folder: Path
    paths: Sequence[str]

    def groups(self) -> list[Wanted]:
        """Return all cards in groups of one cluster and about ROWS_AT_ONCE samples.

        Raises:
            LedgerError: a listed part is missing or damaged.
        """
        key = ["cluster", "device"]
        found = _each(self.folder, self.paths, lambda file: _scan(file).group_by(key).len().collect())
        if not found:
            return []
        cards = pl.concat(found).group_by(key).agg(pl.col("len").sum()).sort(key)
        parted = cards.partition_by("cluster", maintain_order=True)
        return [Wanted(of["cluster"][0], group.to_list()) for of in parted for group in _groups(of)]


def read(folder: Path, paths: Sequence[str], wanted: Sequence[Wanted] | None = None) -> Iterator[pl.DataFrame]:
    """Yield the samples of listed parts, all of one card in one table, in tables of about ROWS_AT_ONCE.

    Args:
        wanted: None reads all cards from their first day on.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    files = [folder / path for path in paths]
    for file in files:
        if not file.is_file():
            raise LedgerError(f"{file}: a part of the lake is missing; restore it, or import its source again")
    try:
        for cluster, parts in sorted(_by_cluster(files).items()):
            mine = [w for w in wanted if w.cluster == cluster] if wanted is not None else [None]
            for some in mine:
                yield from _of_cluster([f for f in parts if some is None or day_of(f) >= some.since], some)
    except (OSError, pl.exceptions.PolarsError) as error:
        damaged = next((file for file in files if not _is_whole(file)), folder)
        raise LedgerError(
            f"{damaged}: is a damaged part of the lake: {str(error).splitlines()[0]};"
            " restore it from a backup, or delete it and import its source again"
        ) from None


def _by_cluster(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return parts by their cluster, which one of each folder is asked for: a folder's name may be cut."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent.parent, []).append(file)
    named = ((_scan(parts[0]).select("cluster").head(1).collect().item(), parts) for parts in folders.values())
    return dict(named)


def day_of(file: Path) -> date:
    """Return the UTC day of a part."""
    return date.fromisoformat(file.parent.name.removeprefix("day="))


def _scan(file: Path) -> pl.LazyFrame:
    return pl.scan_parquet(file, hive_partitioning=False)


def _of_cluster(files: Sequence[Path], wanted: Wanted | None) -> Iterator[pl.DataFrame]:
    """Read parts by ranges of cards: they are sorted by card, so that a range is in few row groups of each."""
    if not files:
        return
    parts = [_scan(file) for file in files]
    if wanted is not None:
        names = pl.Series("device", list(wanted.devices), pl.String)
        parts = [part.filter(pl.col("device").is_in(names.implode())) for part in parts]
    cards = pl.concat(part.select("device") for part in parts).group_by("device").len().sort("device").collect()
    for group in _groups(cards):
        first, last = (pl.lit(group[at]) for at in (0, -1))
        some = [part.filter(pl.col("device").is_between(first, last)) for part in parts]
        yield pl.concat(pl.collect_all(some), how="diagonal")


def _is_whole(file: Path) -> bool:
    try:
        pl.read_parquet(file, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError):
        return False
    return True


def between(folder: Path, paths: Sequence[str], columns: Sequence[str], start: int, end: int) -> pl.DataFrame:
    """Return the samples of listed parts over [start, end) ms, of `columns` those that are there.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    inside = pl.col("time").dt.epoch("ms").is_between(start, end, closed="left")
    wanted = set(columns)

    def some(file: Path) -> pl.DataFrame:
        part = pl.scan_parquet(file, hive_partitioning=False)
        return part.filter(inside).select(c for c in part.collect_schema().names() if c in wanted).collect()

    return pl.concat([pl.DataFrame(), *_each(folder, paths, some)], how="diagonal")


def newest(folder: Path, paths: Sequence[str]) -> datetime | None:
    """Return the time of the newest sample of listed parts; None: there is none.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    found = _each(folder, paths, lambda file: _scan(file).select(pl.col("time").max()).collect().item())
    return max((time for time in found if time is not None), default=None)


def hours(folder: Path, paths: Sequence[str]) -> set[int]:
    """Return the UTC hours (their starts in ms) that listed parts hold samples of.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    hour = pl.col("time").dt.epoch("ms") // HOUR_MS * HOUR_MS
    found = _each(
        folder,
        paths,
        lambda file: pl.scan_parquet(file, hive_partitioning=False).select(hour.unique()).collect().to_series(),
    )
    return {start for part in found for start in part}


def cards(folder: Path, paths: Sequence[str]) -> Iterator[tuple[date, pl.DataFrame]]:
    """Yield of each listed part its UTC day and its cards: ``cluster``, ``device``.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    found = _each(folder, paths, lambda file: _scan(file).select("cluster", "device").unique().collect())
    yield from ((day_of(folder / path), part) for path, part in zip(paths, found, strict=True))


def of_days(paths: Sequence[str], days: Sequence[int]) -> list[str]:
    """Return those of some parts that are of UTC days, given by their starts in ms."""
    names = {f"day={from_ms(day):%Y-%m-%d}" for day in days}
    return [path for path in paths if Path(path).parent.name in names]


def count(folder: Path, paths: Sequence[str]) -> int:
    """Return how many samples listed parts hold.

    Raises:
        LedgerError: a listed part is missing or damaged.
    """
    found = _each(folder, paths, lambda file: pl.scan_parquet(file, hive_partitioning=False).select(pl.len()).collect())
    return sum(part.item() for part in found)


def _each(folder: Path, paths: Sequence[str], ask: Callable[[Path], T]) -> list[T]:
    answers = []
    for path in paths:
        file = folder / path
        if not file.is_file():
            raise LedgerError(f"{file}: a part of the lake is missing; restore it, or import its source again")
        try:
            answers.append(ask(file))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise LedgerError(f"{file}: a part of the lake is damaged: {str(error).splitlines()[0]}") from None
    return answers


def _groups(cards: pl.DataFrame) -> Iterator[pl.Series]:
    """Group cards (``device``, ``len``) so that each group has about ROWS_AT_ONCE samples."""
    group = (pl.col("len").cum_sum() - 1) // ROWS_AT_ONCE
    for _, rows in cards.with_columns(group=group).group_by("group", maintain_order=True):
        yield rows["device"]
