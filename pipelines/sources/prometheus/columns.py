"""Answers → the wide sample table, column by column.

An answer holds one metric's samples series by series, and the metrics of a device are mostly scraped together: so most
answers have the same rows, and each is a column as it stands. Only where an answer has other rows than the rest are its
values put in their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    def of(cls, keys: Ints) -> _Sorted:
        steps = np.diff(keys)
        order = None
        if (steps < 0).any():
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            steps = np.diff(keys)
        return cls(keys, order, bool((steps > 0).all()))


@dataclass
class Columns:
    """The answers of one window.

    Args:
        tally: counts what can't be kept.
        identities: of the source, kept from window to window.
    """

    tally: Tally
    identities: Identities
    _numbers: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)  # by labels, as they are written
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
        numbers = np.array([self._number(labels) for labels in answer.labels], np.int64)
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
        standing = {id(rows): _Sorted.of(rows.keys(place)) for rows in self._rows}
        settled = {key: self._settled(columns, standing) for key, columns in self._columns.items()}
        self._columns.clear()
        keys = _union(keys for keys, _ in settled.values())
        table = pl.DataFrame(
            [
                pl.Series("time", keys & ((1 << _ROOM_FOR_MS) - 1)).cast(TIME),
                *(_placed(metric.key, *settled[metric.key], keys) for metric in CATALOG if metric.key in settled),
            ]
        )
        labels = _labels(self.identities.table()[order], pl.Series(keys >> _ROOM_FOR_MS))
        return table.with_columns(labels).select(*SAMPLE_LABELS, *table.columns[1:])

    def _number(self, labels: Mapping[str, str]) -> int:
        written = tuple(labels.items())
        number = self._numbers.get(written)
        if number is None:
            number = self._numbers[written] = self._new_number(labels)
        if number == NO_DEVICE:
            self.tally.add("series that names no device (no UUID, no node with a GPU index)")
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

    def _settled(self, columns: list[_Column], standing: Mapping[int, _Sorted]) -> tuple[Ints, pl.Series]:
        """One value for each row of a metric: keys, rising, and values."""
        if len(columns) == 1:
            rows, values = standing[id(columns[0].rows)], columns[0].values
            if rows.once:
                return rows.keys, values if rows.order is None else values.gather(rows.order)
        doubtful = pl.concat(
            pl.DataFrame(
                {
                    "metric": pl.zeros(len(rows.keys), pl.Int8, eager=True),
                    "identity": rows.keys >> _ROOM_FOR_MS,
                    "time": rows.keys,
                    "rank": pl.repeat(column.rank, len(rows.keys), dtype=pl.Int16, eager=True),
                    "value": column.values if rows.order is None else column.values.gather(rows.order),
                }
            )
            for column in columns
            for rows in [standing[id(column.rows)]]
        )
        settled = one_value_each(doubtful, self.tally).sort("time")
        return settled["time"].to_numpy(), settled["value"]


def _labels(distinct: pl.DataFrame, which: pl.Series) -> list[pl.Expr]:
    """The label columns; what is the same in every row takes no room."""
    return [
        pl.lit(column[0], column.dtype).alias(column.name) if column.n_unique() == 1 else pl.lit(column.gather(which))
        for column in distinct
    ]


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
