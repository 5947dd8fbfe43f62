"""Answers → the wide sample table, column by column.

An answer holds one metric's samples series by series, and the metrics of a device are mostly scraped together: so most
answers have the same rows, and each is a column as it stands. Only where an answer has other rows than the rest are its
values put in their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from exporter.catalog import CATALOG, resolve
from pipelines.sources.identities import Identities
from pipelines.sources.identity import INFO_SERIES, is_other_entity
from pipelines.sources.prometheus.answer import Answer, Floats, Ints, some_series
from pipelines.sources.tally import Tally
from pipelines.sources.wide import FOREIGN, NO_DEVICE, SMALLEST_BLANK, in_base_units, one_value_each, rank_of
from pipelines.tables import SAMPLE_LABELS, TIME

_ROOM_FOR_MS: Final = 44  # bits: 500 years


@dataclass(frozen=True, eq=False)
class _Rows:
    """Where samples stand: the label set and count of each series, the time of each sample."""

    numbers: Ints
    counts: Ints
    times: Ints

    def same(self, other: _Rows) -> bool:
        """Whether two answers have the same rows in the same order."""
        pairs = ((self.numbers, other.numbers), (self.counts, other.counts), (self.times, other.times))
        return all(np.array_equal(mine, its) for mine, its in pairs)

    def keys(self, place: Ints) -> Ints:
        """Each row's label set and time in one integer that sorts like both.

        Args:
            place: of each label set in the table.
        """
        keys: Ints = (np.repeat(place[self.numbers], self.counts) << _ROOM_FOR_MS) | self.times
        return keys


@dataclass(frozen=True)
class _Column:
    """One metric's values in base units, under one of its names.

    Args:
        rank: of the name; the catalogue lists the better one first.
    """

    rank: int
    rows: _Rows
    values: pl.Series


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Rows in the order of the table.

    Args:
        order: None: the rows are in order as they stand.
        once: no row comes twice.
    """

    keys: Ints
    order: npt.NDArray[np.int64] | None
    once: bool

    @classmethod
    def of(cls, rows: _Rows, place: Ints) -> _Sorted:
        """Put rows in order: mostly that is the order of their series, which are few.

        Args:
            place: of each label set in the table.
        """
        keys = rows.keys(place)
        if _rise(keys):
            return cls(keys, None, once=True)
        ends = np.cumsum(rows.counts)
        starts = ends - rows.counts  # of series, each of which has samples
        sequence = np.argsort(keys[starts], kind="stable")
        counts = rows.counts[sequence]
        shifts = starts[sequence] - (np.cumsum(counts) - counts)
        order = np.repeat(shifts, counts) + np.arange(len(keys))
        ordered = keys[order]
        if _rise(ordered):
            return cls(ordered, order, once=True)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        return cls(ordered, order, _rise(ordered))

    def put(self, values: pl.Series) -> pl.Series:
        """Return values in this order."""
        return values if self.order is None else values.gather(self.order)


def _rise(keys: Ints) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


@dataclass
class Columns:
    """The answers of one window.

    Args:
        pool: puts columns in order side by side.
        tally: counts what can't be kept.
        identities: of the source, kept from window to window.
    """

    tally: Tally
    identities: Identities
    pool: Executor
    _numbers: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)  # by labels, as they are written
    _by_object: dict[int, int] = field(default_factory=dict)  # by id of labels that are kept
    _kept: list[Mapping[str, str]] = field(default_factory=list)
    _rows: list[_Rows] = field(default_factory=list)
    _columns: dict[str, list[_Column]] = field(default_factory=dict)  # by key of the catalogue

    def add(self, name: str, answer: Answer) -> None:
        """Take in the answer about the metric of this (exposed) name."""
        if name in INFO_SERIES:
            for labels in answer.labels:
                self.identities.describe(name, labels)
            return
        resolved = resolve(name)
        if resolved is None:
            return
        metric, scale, origin = resolved
        numbers = self._numbered(answer.labels)
        if nameless := int((numbers == NO_DEVICE).sum()):
            self.tally.add("series that names no device (no UUID, no node with a GPU index)", count=nameless)
        usable = (numbers >= 0) & (answer.counts > 0)
        if not usable.all():
            answer, numbers = some_series(answer, usable), numbers[usable]
        if len(answer.times):
            values = _in_base_units(answer.values, scale, dcgm=origin == "dcgm")
            rows = self._known_rows(_Rows(numbers, answer.counts, answer.times))
            self._columns.setdefault(metric.key, []).append(_Column(rank_of(metric, name), rows, values))

    def table(self) -> pl.DataFrame:
        """The wide sample table, sorted by label set, then time; metrics stand in the catalogue's order."""
        if not self._columns:
            return pl.DataFrame(schema=SAMPLE_LABELS)
        order = self.identities.in_order()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        standing = dict(
            zip(map(id, self._rows), self.pool.map(lambda r: _Sorted.of(r, place), self._rows), strict=True)
        )
        settled = self._settled(standing)
        self._columns.clear()
        keys = _union(keys for keys, _ in settled.values())
        listed = [metric.key for metric in CATALOG if metric.key in settled]
        table = pl.DataFrame(
            [
                pl.Series("time", keys & ((1 << _ROOM_FOR_MS) - 1)).cast(TIME),
                *self.pool.map(lambda key: _placed(key, *settled[key], keys), listed),
            ]
        )
        labels = _labels(self.identities.table()[order], pl.Series(keys >> _ROOM_FOR_MS), self.pool)
        return table.with_columns(labels).select(*SAMPLE_LABELS, *table.columns[1:])

    def _numbered(self, series: Sequence[Mapping[str, str]]) -> Ints:
        # Answers about several metrics of a device have the very same object, which is found without being looked at.
        numbers = list(map(self._by_object.get, map(id, series)))
        return np.array(
            [self._number(labels) if n is None else n for n, labels in zip(numbers, series, strict=True)], np.int64
        )

    def _number(self, labels: Mapping[str, str]) -> int:
        written = tuple(labels.items())
        number = self._numbers.get(written)
        if number is None:
            number = self._numbers[written] = self._new_number(labels)
        self._by_object[id(labels)] = number
        self._kept.append(labels)
        return number

    def _new_number(self, labels: Mapping[str, str]) -> int:
        if is_other_entity(labels):
            return FOREIGN
        number = self.identities.number(labels)
        return NO_DEVICE if number is None else number

    def _known_rows(self, rows: _Rows) -> _Rows:
        """Return equal rows that are known already, so that these can be let go."""
        for known in self._rows:
            if known.same(rows):
                return known
        self._rows.append(rows)
        return rows

    def _settled(self, standing: Mapping[int, _Sorted]) -> dict[str, tuple[Ints, pl.Series]]:
        """One value for each row of each metric: keys, rising, and values."""
        plain = {
            key: (standing[id(of[0].rows)], of[0].values)
            for key, of in self._columns.items()
            if len(of) == 1 and standing[id(of[0].rows)].once
        }
        settled = dict(
            zip(plain, self.pool.map(lambda of: (of[0].keys, of[0].put(of[1])), plain.values()), strict=True)
        )
        return settled | {key: self._one_each(of, standing) for key, of in self._columns.items() if key not in plain}

    def _one_each(self, columns: list[_Column], standing: Mapping[int, _Sorted]) -> tuple[Ints, pl.Series]:
        doubtful = pl.concat(
            pl.DataFrame(
                {
                    "metric": pl.zeros(len(rows.keys), pl.Int8, eager=True),
                    "identity": rows.keys >> _ROOM_FOR_MS,
                    "time": rows.keys,
                    "rank": pl.repeat(column.rank, len(rows.keys), dtype=pl.Int16, eager=True),
                    "value": rows.put(column.values),
                }
            )
            for column in columns
            for rows in [standing[id(column.rows)]]
        )
        settled = one_value_each(doubtful, self.tally).sort("time")
        return settled["time"].to_numpy(), settled["value"]


def _labels(distinct: pl.DataFrame, which: pl.Series, pool: Executor) -> list[pl.Expr]:
    """The label columns; what is the same in every row takes no room."""

    def column_of(column: pl.Series) -> pl.Expr:
        if column.n_unique() == 1:
            return pl.lit(column[0], column.dtype).alias(column.name)
        return pl.lit(column.gather(which))

    return list(pool.map(column_of, distinct))


def _in_base_units(exposed: Floats, scale: float, *, dcgm: bool) -> pl.Series:
    if not exposed.max(initial=-np.inf) < SMALLEST_BLANK:  # NaN: nobody knows
        raw = pl.lit(pl.Series(exposed))
        return pl.select(in_base_units(raw, pl.lit(scale), dcgm=pl.lit(dcgm))).to_series()
    return pl.Series(exposed if scale == 1.0 else exposed * scale)


def _union(parts: Iterable[Ints]) -> Ints:
    """All keys, rising; the very array where there is only one."""
    different = list({id(keys): keys for keys in parts}.values())
    return different[0] if len(different) == 1 else np.unique(np.concatenate(different))


def _placed(name: str, own: Ints, values: pl.Series, keys: Ints) -> pl.Series:
    """A column of the table; null where the metric has no row."""
    if own is keys or len(own) == len(keys):
        return values.alias(name)
    at = np.searchsorted(keys, own)
    filled, there = np.zeros(len(keys)), np.zeros(len(keys), np.bool_)
    filled[at], there[at] = values.to_numpy(), True
    return pl.select(pl.when(pl.Series(there)).then(pl.Series(filled)).alias(name)).to_series()
