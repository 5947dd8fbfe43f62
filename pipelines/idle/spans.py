"""Rows cut by when something else was the case, for many things at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]

_SHIFT: Final = 44  # room for 500 years of ms below a key
_OFFSET: Final = 1 << 43
_EVER: Final = _OFFSET - 1


def split(rows: pl.DataFrame, covers: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the parts of rows that lie in a cover of their key, and those that lie in none.

    Args:
        rows, covers: ``key`` (small whole numbers), ``start``, ``end`` (ms). Covers may overlap.
    """
    joined = _joined(covers.select("key", "start", "end"))
    keys = rows.select("key").unique()
    return _cut(rows, joined), _cut(rows, _gaps(joined, keys))


def runs(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Join rows of one key that follow each other without a gap.

    Args:
        rows: `key`, ``start``, ``end``; disjoint within a key.

    Returns:
        `key`, ``start``, ``end``; sorted by them.
    """
    ordered = rows.sort(*key, "start", nulls_last=True)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in key)
    follows = same & (pl.col("start") == pl.col("end").shift(1))
    return (
        ordered.with_columns(run=(~follows).fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(*(pl.col(c).first() for c in key), pl.col("start").first(), pl.col("end").last())
        .drop("run")
    )


def _joined(covers: pl.DataFrame) -> pl.DataFrame:
    """Join covers of one key that touch or overlap."""
    ordered = covers.sort("key", "start")
    new = pl.col("start") > pl.col("end").cum_max().shift(1).over("key")
    return (
        ordered.with_columns(run=new.fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.col("key").first(), pl.col("start").first(), pl.col("end").max())
        .select("key", "start", "end")
    )


def _gaps(joined: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Return what lies between the covers of each key, before the first and after the last."""
    edges = [
        keys.select("key", start=pl.lit(-_EVER, pl.Int64), end=pl.lit(-_EVER, pl.Int64)),
        joined.join(keys, on="key", how="semi"),
        keys.select("key", start=pl.lit(_EVER, pl.Int64), end=pl.lit(_EVER, pl.Int64)),
    ]
    ordered = pl.concat(edges).sort("key", "start")
    return (
        ordered.with_columns(start=pl.col("end").shift(1).over("key"), end="start")
        .filter(pl.col("start") < pl.col("end"))
        .select("key", "start", "end")
    )


def _cut(rows: pl.DataFrame, covers: pl.DataFrame) -> pl.DataFrame:
    """Cut rows to disjoint covers, sorted by key and start: one row for each cover that it meets."""
    starts, ends = _at(covers, "start"), _at(covers, "end")
    left, right = _at(rows, "start"), _at(rows, "end")
    first = np.searchsorted(ends, left, side="right")
    last = np.searchsorted(starts, right, side="left")
    pieces = np.maximum(last - first, 0)
    of = np.repeat(np.arange(rows.height), pieces)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cover = first[of] + nth
    cut = rows[of.tolist()] if len(of) else rows.clear()
    return cut.with_columns(
        start=pl.max_horizontal("start", pl.Series(covers["start"].to_numpy()[cover], dtype=pl.Int64)),
        end=pl.min_horizontal("end", pl.Series(covers["end"].to_numpy()[cover], dtype=pl.Int64)),
    )


def _at(frame: pl.DataFrame, column: str) -> Ints:
    keys: Ints = (frame["key"].to_numpy().astype(np.int64) << _SHIFT) + frame[column].to_numpy() + _OFFSET
    return keys
