"""Keeps the sample lake: lists its parts, proves them, merges small ones, lets old days go.

A part that is merged or let go leaves the ledger first, in one transaction, and the disk after: a crash in between
leaves files that nothing lists, and the next prune removes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

import polars as pl

from exporter.errors import UsageError
from pipelines import lake
from pipelines.book.reckoning import open_period
from pipelines.book.shelf import FOLDER, shelf
from pipelines.config import Config
from pipelines.instants import from_ms, to_ms
from pipelines.ledger import LAKE_NAME, Ledger, Listed
from pipelines.looking import DAYS_BACK
from pipelines.periods import parse_period

CONTEXT: Final = timedelta(days=2 * max(back for back in DAYS_BACK if back is not None))
"""Samples before an open period that are kept, so that its first days are known as they were."""


@dataclass(frozen=True)
class LakeDay:
    """A day of a cluster in the lake."""

    cluster: str
    day: date
    parts: int
    samples: int
    size: int
    """Bytes on disk; of a part that is missing none."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file of the lake, and what mends it."""

    path: Path
    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.mend}"


@dataclass(frozen=True)
class Merged:
    """What a compaction came to."""

    days: int
    before: int
    after: int


@dataclass(frozen=True)
class Pruned:
    """What was let go, or would be.

    Attributes:
        kept_from: nothing from this day on is let go; None: no period is closed, so nothing is.
    """

    days: list[LakeDay]
    strays: list[Path]
    kept_from: date | None


def list_days(ledger: Ledger) -> list[LakeDay]:
    """Return the lake by cluster and day."""
    days: dict[tuple[str, date], list[Listed]] = {}
    for part in ledger.parts():
        days.setdefault((part.cluster, part.day), []).append(part)
    return [_day(ledger, cluster, day, parts) for (cluster, day), parts in sorted(days.items())]


def _day(ledger: Ledger, cluster: str, day: date, parts: Sequence[Listed]) -> LakeDay:
    files = {ledger.folder / LAKE_NAME / part.path for part in parts}
    size = sum(file.stat().st_size for file in files if file.is_file())
    return LakeDay(cluster, day, len(files), _rows(ledger, parts), size)


def _rows(ledger: Ledger, parts: Sequence[Listed]) -> int:
    """Return the samples of parts. One that several imports list is merged of theirs, or all had the same in it."""
    by_path: dict[str, list[Listed]] = {}
    for part in parts:
        by_path.setdefault(part.path, []).append(part)
    rows = 0
    for path, listed in by_path.items():
        file = ledger.folder / LAKE_NAME / path
        same = len(listed) > 1 and _fault(file, _alike(listed)) is None
        rows += _alike(listed) if same else sum(part.rows for part in listed)
    return rows


def _alike(listed: Sequence[Listed]) -> int:
    """Return the samples of a part whose imports all had the same in it; -1: they hadn't."""
    return listed[0].rows if len({part.rows for part in listed}) == 1 else -1


def verify(ledger: Ledger) -> Iterator[Fault]:
    """Yield what is wrong: parts that are missing, changed or short, each with its mend; files that nothing lists."""
    sources: dict[str, list[Listed]] = {}
    for part in ledger.parts():
        sources.setdefault(part.path, []).append(part)
    for path, listed in sorted(sources.items()):
        file = ledger.folder / LAKE_NAME / path
        what = _fault(file, sum(part.rows for part in listed))
        if what is not None and len(listed) > 1 and _fault(file, _alike(listed)) is None:
            continue  # not merged: several imports had the very same samples of this day
        if what is not None:
            names = " and ".join(sorted({part.source for part in listed}))
            yield Fault(file, what, f"restore it from a backup, or delete the ledger and import {names} again")
    for stray in _strays(ledger):
        yield Fault(stray, "is listed nowhere: a write was killed", "`gpuledger lake prune` removes it")


def _fault(file: Path, rows: int) -> str | None:
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if not digest.startswith(file.stem):
        return "is damaged: its content isn't what its name says"
    try:
        found = lake.count(file.parent, [file.name])
    except Exception as error:  # noqa: BLE001 - whatever a reader makes of it, it is the file's fault
        return f"is damaged: {str(error).splitlines()[0]}"
    return None if found == rows else f"holds {found} samples where {rows} were written"


def _strays(ledger: Ledger) -> list[Path]:
    """Return files of the lake that nothing lists."""
    folder = ledger.folder / LAKE_NAME
    listed = {folder / part.path for part in ledger.parts()}
    return sorted(f for f in folder.rglob("*") if f.is_file() and f not in listed)


def compact(ledger: Ledger, *, before: date | None = None, at_least: int = 2) -> Merged:
    """Merge the parts of each cluster and day into one; whose import they are stays known.

    Args:
        before: only days before this one; None: all.
        at_least: of how many parts a day is worth it.

    Raises:
        LedgerError: a part is missing or damaged, or the disk is full; days that are done stay done.
    """
    days: dict[tuple[str, date], list[Listed]] = {}
    for part in ledger.parts():
        if before is None or part.day < before:
            days.setdefault((part.cluster, part.day), []).append(part)
    merged = Merged(0, 0, 0)
    for (cluster, day), parts in sorted(days.items()):
        paths = sorted({part.path for part in parts})
        if len(paths) < at_least:
            continue
        path = lake.merge(ledger.folder / LAKE_NAME, cluster, day, paths)
        ledger.replace_parts(paths, path)
        _remove(ledger, [p for p in paths if p != path])
        merged = Merged(merged.days + 1, merged.before + len(paths), merged.after + 1)
    return merged


def prune(ledger: Ledger, config: Config, *, keep: timedelta, now: datetime, dry: bool = False) -> Pruned:
    """Let go of days older than `keep`, never of one that an open period may still ask for.

    What those days showed stays in the ledger; only their samples go.

    Args:
        dry: say what would go, and leave it.
    """
    if keep <= timedelta(0):
        raise UsageError("--keep: expected more than zero; write it as 400d")
    floor = _floor(ledger, config)
    strays = _strays(ledger)
    old = [] if floor is None else [p for p in ledger.parts() if p.day < min(floor, (now - keep).date())]
    days: dict[tuple[str, date], list[Listed]] = {}
    for part in old:
        days.setdefault((part.cluster, part.day), []).append(part)
    going = [_day(ledger, cluster, day, parts) for (cluster, day), parts in sorted(days.items())]
    if not dry:
        paths = sorted({part.path for part in old})
        if paths:
            ledger.forget_parts(paths, max(part.day for part in old) + timedelta(days=1))
        _remove(ledger, paths)
        for stray in strays:
            with suppress(OSError):
                stray.unlink()
    return Pruned(going, strays, floor)


def _floor(ledger: Ledger, config: Config) -> date | None:
    """Return the first day that an open period may still ask for; None: no period is closed."""
    closed = shelf(config.ledger / FOLDER)
    metered = ledger.metered()
    if not closed or metered is None:
        return None
    name = open_period(config, metered, closed)
    if name is None:
        return None
    start = parse_period(name, config.timezone).start
    reaching = metered.leases.filter(pl.col("end") > to_ms(start))
    first = min([to_ms(start), *reaching["whole_start"]])
    return (from_ms(first) - CONTEXT).date()


def _remove(ledger: Ledger, paths: Sequence[str]) -> None:
    for path in paths:
        file = ledger.folder / LAKE_NAME / path
        with suppress(OSError):  # nothing lists it any more; the next prune removes it
            file.unlink()
            file.parent.rmdir()
