"""Observations of single series, put together as the wide sample table.

Every source of samples goes through here: it names a series once, then appends (time, series, value) rows, and
asks for the table at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

import polars as pl

from exporter.catalog import Metric, resolve
from pipelines.sources.identities import Identities
from pipelines.sources.identity import INFO_SERIES, is_other_entity
from pipelines.sources.tally import Tally
from pipelines.tables import SAMPLE_LABELS, TIME

FOREIGN: Final = -1
"""A series that the catalogue doesn't know, or that is of no GPU."""
NO_DEVICE: Final = -2
"""A series of the catalogue whose labels name no device."""

# DCGM's blank values: no value, not found, not supported, no permission and their kin.
_INT32_BLANK: Final = (2147483632.0, 2147483647.0)
_FP64_BLANK: Final = 140737488355328.0
_INT64_BLANK: Final = 9.2e18
SMALLEST_BLANK: Final = _INT32_BLANK[0]
"""No value below it is one."""


class Observations:
    """Rows of (time in ms, series, value as exposed), held in 20 bytes each.

    Args:
        tally: counts duplicates.
        cluster: the source's.
    """

    def __init__(self, tally: Tally, cluster: str) -> None:
        self.times = array("q")
        self.series = array("i")
        self.values = array("d")
        self._tally = tally
        self._keys: dict[str, int] = {}
        self._identities = Identities(cluster)
        self._by_labels: dict[tuple[int, int, int], int] = {}
        self._known: list[tuple[int, int, float, bool, int]] = []  # metric, identity, scale, is DCGM's, rank of name

    def known(self, name: str) -> bool:
        """Whether series of this name are to be read at all."""
        return name in INFO_SERIES or resolve(name) is not None

    def series_of(self, name: str, labels: Mapping[str, str]) -> int:
        """The number of a series, ``FOREIGN`` or ``NO_DEVICE``."""
        if name in INFO_SERIES:
            self._identities.describe(name, labels)
            return FOREIGN
        resolved = resolve(name)
        if resolved is None or is_other_entity(labels):
            return FOREIGN
        which = self._identities.number(labels)
        if which is None:
            return NO_DEVICE
        metric, scale, origin = resolved
        key = self._keys.setdefault(metric.key, len(self._keys))
        rank = rank_of(metric, name)
        number = self._by_labels.setdefault((key, which, rank), len(self._known))
        if number == len(self._known):
            self._known.append((key, which, scale, origin == "dcgm", rank))
        return number

    def append(self, time_ms: int, series: int, value: float) -> None:
        """Add one row; ``series`` is what ``series_of`` gave, and not negative."""
        self.times.append(time_ms)
        self.series.append(series)
        self.values.append(value)

    def table(self) -> pl.DataFrame:
        """The wide sample table, sorted by time, then in the order in which label sets were first seen."""
        if not self.times:
            return pl.DataFrame(schema=SAMPLE_LABELS)
        rows = one_value_each(self._rows(), self._tally)
        wide = rows.pivot(on="metric", index=["time", "identity"], values="value", maintain_order=False)
        keys = [key for key, number in self._keys.items() if str(number) in wide.columns]
        wide = wide.sort("time", "identity")
        labels = self._identities.table()
        picked = wide["identity"]
        return pl.DataFrame(
            [wide["time"].cast(TIME)]
            + [labels[column].gather(picked) for column in labels.columns]
            + [wide[str(self._keys[key])].alias(key) for key in keys]
        )

    def _rows(self) -> pl.DataFrame:
        """time, metric, identity, value in base units, rank: one row per observation; blanks are NaN."""
        known = pl.DataFrame(
            self._known,
            schema={
                "metric": pl.Int32,
                "identity": pl.Int32,
                "scale": pl.Float64,
                "dcgm": pl.Boolean,
                "rank": pl.Int16,
            },
            orient="row",
        )
        series = pl.Series(self.series, dtype=pl.Int32)
        return pl.DataFrame(
            [
                pl.Series("time", self.times, dtype=pl.Int64),
                pl.Series("raw", self.values, dtype=pl.Float64),
                *(known[column].gather(series) for column in known.columns),
            ]
        ).select(
            "time",
            "metric",
            "identity",
            "rank",
            value=in_base_units(pl.col("raw"), pl.col("scale"), dcgm=pl.col("dcgm")),
        )


def in_base_units(raw: pl.Expr, scale: pl.Expr, *, dcgm: pl.Expr) -> pl.Expr:
    """Values as exposed → in base units; an exporter's blank codes become NaN.

    Args:
        dcgm: whether the name is DCGM's, whose blanks are more.
    """
    blank = (raw >= _INT64_BLANK) & raw.is_finite()
    dcgm_blank = (raw.is_between(*_INT32_BLANK) & (raw == raw.floor())) | raw.is_between(_FP64_BLANK, _FP64_BLANK + 3)
    return pl.when(blank | (dcgm & dcgm_blank)).then(float("nan")).otherwise(raw * scale)


def one_value_each(rows: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Of several values at one time the smallest finite one; where two names give one metric, the first name's.

    Args:
        rows: ``metric``, ``identity``, ``time``, ``rank`` (of the name), ``value``.
        tally: counts what is given up.
    """
    cell = ["metric", "identity", "time"]
    rows = rows.sort(cell)
    # Neighbours are compared, because hashing every cell takes ten times the memory of the rows.
    as_before = pl.all_horizontal(pl.col(column) == pl.col(column).shift() for column in cell)
    again = rows.select(as_before.fill_null(value=False)).to_series()
    repeated = again | again.shift(-1, fill_value=False)
    if not repeated.any():
        return rows
    doubtful = rows.filter(repeated)
    surplus = doubtful.height - doubtful.select(pl.struct(*cell, "rank").n_unique()).item()
    tally.add("more than one value of a series at one time; the smaller is kept", count=surplus,
                    code="duplicate_sample")  # fmt: skip
    settled = doubtful.sort(~pl.col("value").is_finite(), "rank", "value").unique(cell, keep="first")
    return pl.concat([rows.filter(~repeated), settled.select(rows.columns)])


def rank_of(metric: Metric, name: str) -> int:
    """Where ``name`` stands among the names of its metric: the catalogue lists the better one first."""
    names = [metric.name, *(n.name for n in metric.dcgm), *(n.name for n in metric.smi)]
    return names.index(name)
