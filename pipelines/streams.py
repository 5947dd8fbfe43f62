"""Several recordings of one device: the first by name counts, the next fill its holes.

Each sample of a later stream that falls in a hole is moved to the slot of the hole that it falls in, so that two
replicas that scrape at different seconds give one regular series.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.instants import DAY_MS

Times = npt.NDArray[np.int64]

DEFAULT_INTERVAL_MS: Final = 60_000  # of a series with under three samples in its UTC day
_DEVICE: Final = 1 << 44  # room for 500 years of ms below a device's number
REACH_INTERVALS: Final = 1.5  # a next sample within this many intervals continues the series


def intervals_at(times: Times, configured: int | None) -> Times:
    """Return the scrape interval in force at each of the (sorted, distinct) times of one series.

    It is the configured one, else the median spacing within the time's UTC day.
    """
    if configured is not None:
        return np.full(len(times), configured, np.int64)
    result = np.full(len(times), DEFAULT_INTERVAL_MS, np.int64)
    days = times // DAY_MS
    edges = np.flatnonzero(np.diff(days)) + 1
    for first, last in zip([0, *edges], [*edges, len(times)], strict=True):
        if last - first >= 3:
            result[first:last] = int(np.median(np.diff(times[first:last])))
    return result


def reach_of(times: Times, configured: int | None) -> Times:
    """Return until when each sample of one series (sorted, distinct times) stands."""
    interval = intervals_at(times, configured)
    reach = times + interval
    following = times[1:]
    near = following - times[:-1] <= REACH_INTERVALS * interval[:-1]
    reach[:-1] = np.where(near, following, reach[:-1])
    return reach


def fill_holes(base: Times, other: Times, configured: int | None) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Place the samples of `other` on the grid of `base`.

    Returns:
        the time on the grid of each sample of `other`, and whether it fills a hole (else `base` measured then).
    """
    if not len(base):
        return other, np.ones(len(other), np.bool_)
    interval = intervals_at(base, configured)
    reach = reach_of(base, configured)
    at = np.searchsorted(base, other, side="right") - 1
    before = at < 0
    left = np.maximum(at, 0)
    step = interval[left]
    covered = ~before & (other < reach[left])
    slot = np.where(before, -(-(base[0] - other) // step), (other - base[left]) // step)
    placed = np.where(before, base[0] - slot * step, base[left] + np.where(covered, 0, slot) * step)
    fills = ~covered
    # Of several samples in one slot the first counts.
    later = np.zeros(len(other), np.bool_)
    order = np.flatnonzero(fills)
    later[order[1:]] = placed[order[1:]] == placed[order[:-1]]
    return placed, fills & ~later


def merge_streams(rows: pl.DataFrame, configured: int | None) -> pl.DataFrame:
    """Return `rows` with ``grid_t`` set and each metric kept from one stream at a time.

    Args:
        rows: columns ``dev``, ``t``, ``grid_t``, ``stream`` (rank by name), numbers of labels, and value columns; a row
            of the result is a row of the input, or its values moved to another time.
    """
    metrics = [c for c, dtype in rows.schema.items() if dtype == pl.Float64]
    flags = ["busy_seen", "power_seen"]
    rows = rows.sort("dev", "t").with_row_index("row")
    grid = rows["t"].to_numpy().copy()
    stays = {column: np.zeros(rows.height, np.bool_) for column in (*metrics, *flags)}
    moved: list[pl.DataFrame] = []  # values of one metric that stand elsewhere than their row
    for group in rows.partition_by("card", maintain_order=True):
        index = group["row"].to_numpy()
        whole = _placed(group, configured)
        grid[index] = whole[0]
        for column, here in stays.items():
            present = (group[column] if column in flags else group[column].is_not_null()).to_numpy()
            if not present.any():
                continue
            at, keep = whole if present.all() else _placed(group.filter(pl.Series(present)), configured)
            of = index[present]
            alike = at == grid[of]
            here[of[keep & alike]] = True
            if (away := keep & ~alike).any():
                moved.append(pl.DataFrame({"row": of[away], "t": at[away], column: rows[column].gather(of[away])}))
    labels = rows.select(pl.exclude(*metrics, *flags, "t", "grid_t")).with_columns(pl.Series("grid_t", grid))
    values = rows.select(
        "row", pl.Series("t", grid), *(pl.when(pl.Series(here)).then(c).alias(c) for c, here in stays.items())
    )
    if moved:
        elsewhere = pl.concat(moved, how="diagonal").group_by("row", "t").agg(pl.all().drop_nulls().first())
        values = pl.concat([values, elsewhere], how="diagonal")
    values = values.with_columns(pl.col(flags).fill_null(value=False))
    return values.join(labels, on="row").select(rows.columns)


def _placed(group: pl.DataFrame, configured: int | None) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Place one card's rows on the grid of its first stream, then of the filled one, and so on.

    The grid is the card's, so that a scrape of its instances stays one scrape; a hole is a device's.

    Returns:
        the time on the grid of each row, and whether its device has no value of an earlier stream there.
    """
    times, stream, devs = group["t"].to_numpy(), group["stream"].to_numpy(), group["dev"].to_numpy()
    placed, keep = times.copy(), np.ones(len(times), np.bool_)
    base: Times = np.empty(0, np.int64)
    taken: Times = np.empty(0, np.int64)
    for name in group["stream"].unique().sort():
        mine = np.flatnonzero(stream == name)
        distinct, back = np.unique(times[mine], return_inverse=True)
        at, _ = fill_holes(base, distinct, configured)
        placed[mine] = at[back]
        keys = devs[mine].astype(np.int64) * _DEVICE + placed[mine]
        _, firsts = np.unique(keys, return_index=True)
        # Of several scrapes in one slot the first counts; rows of one scrape (several owners) count together.
        same = times[mine] == times[mine][firsts][np.searchsorted(keys[firsts], keys)]
        keep[mine] = same & ~_among(taken, keys)
        taken, base = _union(taken, keys), _union(base, at)
    return placed, keep


def _among(rising: Times, asked: Times) -> npt.NDArray[np.bool_]:
    """Return which of `asked` are among `rising`."""
    if not len(rising):
        return np.zeros(len(asked), np.bool_)
    found: npt.NDArray[np.bool_] = rising[np.minimum(np.searchsorted(rising, asked), len(rising) - 1)] == asked
    return found


def _union(one: Times, other: Times) -> Times:
    """Return what is in either, rising: times come almost sorted, which NumPy's own union makes no use of."""
    both = np.sort(np.concatenate([one, other]), kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both
