"""What an engine's workers do, a group of cards at a time: the very stages that a single machine runs.

A task comes as a name and a table in Arrow's IPC format, and what it gives goes back so. What cards show and how they
were used depends on their own samples alone, so tasks know nothing of each other, and can be done twice.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final
from uuid import uuid4

import polars as pl

from exporter.errors import EngineError, GpuLedgerError
from pipelines import lake
from pipelines.lake import Stored, Wanted
from pipelines.rollup import Instances, Stamps
from pipelines.series import DEVICE_KEY
from pipelines.shown import CARD_KEY, Reading, Shown, observed, show
from pipelines.sighting import measured_owners

FAILED: Final = "failed"
OWNERS: Final = "owners"
MEASURED: Final = "measured"
MADE_BY: Final = ("gpuledger", "numpy", "polars")
"""Packages whose releases are to be the same everywhere, so that results are."""

Named = Iterator[tuple[str, bytes]]
Work = Callable[[bytes], Named]


def releases() -> tuple[str, ...]:
    """Return the releases of MADE_BY here."""
    return tuple(f"{package} {version(package)}" for package in MADE_BY)


@dataclass(frozen=True)
class Looking:
    """Looks at the samples of a group of cards; yields shown.TABLES and, where that is asked for, OWNERS.

    Attributes:
        split: the configuration's sharing.split.
        made_by: `releases` of who asks.
        scratch: where observations are kept for `Measuring`, if this worker can write there.
    """

    stored: Stored
    reading: Reading
    split: str
    scheduled: pl.DataFrame
    made_by: tuple[str, ...]
    scratch: Path

    def __call__(self, task: bytes) -> Named:
        """Do a task: the CARD_KEY of cards of one cluster."""
        _same_releases(self.made_by)
        cards = unpacked(task)
        keeping = _Keeping(self.scratch, cards)
        for samples in lake.read(self.stored.folder, self.stored.paths, _wanted(cards)):
            shown = show(samples, self.reading, self.scheduled)
            keeping.add(shown)
            for name, table in shown.tables.items():
                yield name, packed(table)
            if self.split != "even":
                yield OWNERS, packed(measured_owners(shown.scrapes, self.split))
        keeping.done()


class _Keeping:
    """Keeps what a task observed for the next job, which would else make it again; where it can't, it lets it be."""

    def __init__(self, scratch: Path, cards: pl.DataFrame) -> None:
        self._final = _kept_at(scratch, cards)
        self._folder = self._final.with_name(f"{uuid4().hex}.tmp")  # a task may be done twice at once
        self._pieces = 0
        self._able = False
        with suppress(OSError):
            self._folder.mkdir()
            self._able = True

    def add(self, shown: Shown) -> None:
        """Keep a piece."""
        if not self._able:
            return
        keys = shown.scrapes.devices.select("dev", *DEVICE_KEY)
        try:
            for name, table in (("keys", keys), ("busy", shown.seen.busy), ("energy", shown.seen.energy)):
                table.write_ipc(self._folder / f"{self._pieces}-{name}", compression="lz4")
        except (OSError, pl.exceptions.PolarsError):
            self._able = False
            shutil.rmtree(self._folder, ignore_errors=True)
        self._pieces += 1

    def done(self) -> None:
        """All pieces are there."""
        if self._able:
            try:
                self._folder.rename(self._final)
            except OSError:  # another did the same task before
                shutil.rmtree(self._folder, ignore_errors=True)


def _kept(scratch: Path, cards: pl.DataFrame) -> Stamps | None:
    """Return what was observed of cards; None: it isn't kept where this worker sees it."""
    folder, stamps = _kept_at(scratch, cards), Stamps()
    try:
        for piece in range(len(list(folder.iterdir())) // 3):
            keys, busy, energy = (pl.read_ipc(folder / f"{piece}-{name}") for name in ("keys", "busy", "energy"))
            stamps.add(keys, busy, energy)
    except (OSError, pl.exceptions.PolarsError):
        return None
    return stamps


def _kept_at(scratch: Path, cards: pl.DataFrame) -> Path:
    named = cards.select(CARD_KEY).unique().sort(CARD_KEY).rows()
    return scratch / hashlib.sha256(repr(named).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Measuring:
    """Measures what was observed in spans of a group of cards; yields MEASURED."""

    stored: Stored
    reading: Reading
    made_by: tuple[str, ...]
    scratch: Path

    def __call__(self, task: bytes) -> Named:
        """Do a task of `measuring_task`."""
        _same_releases(self.made_by)
        spans, numbers, instances = _opened(unpacked(task))
        stamps = _kept(self.scratch, numbers)
        if stamps is None:
            stamps = self._made_again(numbers)
        yield MEASURED, packed(stamps.measured(spans, numbers, instances))

    def _made_again(self, cards: pl.DataFrame) -> Stamps:
        stamps = Stamps()
        for samples in lake.read(self.stored.folder, self.stored.paths, _wanted(cards)):
            scrapes, seen = observed(samples, self.reading)
            stamps.add(scrapes.devices.select("dev", *DEVICE_KEY), seen.busy, seen.energy)
        return stamps


def done(work: Work, task: bytes) -> Named:
    """Do a task; what this program has to say of a failure is yielded as FAILED, in UTF-8."""
    try:
        yield from work(task)
    except GpuLedgerError as error:
        yield FAILED, str(error).encode()


def measuring_task(spans: pl.DataFrame, numbers: pl.DataFrame, instances: Instances) -> bytes:
    """Pack the spans of some cards with the devices of these cards, also those that have no span.

    Args:
        numbers: ``dev``, ``card``, DEVICE_KEY.
    """
    order = {dev: nth for card in numbers["card"].unique() for nth, dev in enumerate(instances.get(card, ()))}
    nth = pl.Series("nth", [order.get(dev) for dev in numbers["dev"]], pl.Int32)
    return packed(numbers.with_columns(nth).join(spans, on="dev", how="left"))


def _opened(table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, dict[int, list[int]]]:
    key = ["dev", "card", *DEVICE_KEY]
    devices = table.select(*key, "nth").unique().sort("dev")
    instances: dict[int, list[int]] = {}
    for card, dev in devices.filter(pl.col("nth").is_not_null()).sort("card", "nth").select("card", "dev").iter_rows():
        instances.setdefault(card, []).append(dev)
    spans = table.filter(pl.col("start").is_not_null()).drop(*key[1:], "nth")
    return spans.sort("dev", "start", "end"), devices.select(key), instances


def _wanted(cards: pl.DataFrame) -> Sequence[Wanted]:
    named = cards.select(CARD_KEY).unique().sort(CARD_KEY).group_by("cluster", maintain_order=True).agg("device")
    return [Wanted(cluster, devices) for cluster, devices in named.iter_rows()]


def _same_releases(asked: tuple[str, ...]) -> None:
    for mine, theirs in zip(releases(), asked, strict=True):
        if mine != theirs:
            raise EngineError(f"a worker of the engine has {mine}, this is {theirs}; install the same release on both")


def packed(table: pl.DataFrame) -> bytes:
    """Return a table in Arrow's IPC format."""
    buffer = io.BytesIO()
    table.write_ipc(buffer, compression="zstd")
    return buffer.getvalue()


def unpacked(content: bytes) -> pl.DataFrame:
    """Return the table that was packed."""
    return pl.read_ipc(io.BytesIO(content))
