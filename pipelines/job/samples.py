"""What samples in the lake add to what is published of a job: a finer time line, and peaks of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from pipelines import lake
from pipelines.analysis.readings import readings
from pipelines.instants import DAY_MS, from_ms

COLUMNS: Final = 60
LONGEST_MS: Final = 35 * DAY_MS
"""Of a longer job what is published has to do."""

Device = tuple[str | None, str | None]
"""UUID of the card, and the instance of it."""


@dataclass(frozen=True)
class Seen:
    """By device: how busy in each column of the time line, and bytes of memory at their highest and in all."""

    lines: dict[Device, tuple[float | None, ...]] = field(default_factory=dict)
    peaks: dict[Device, tuple[float | None, float | None]] = field(default_factory=dict)


def seen(folder: Path, holds: pl.DataFrame, start: int, end: int) -> Seen:
    """Return what the lake shows of a job's devices while it held them; nothing where it is gone.

    Args:
        folder: of the lake. All parts of the days count, as no content is in it twice.
        holds: ``cluster``, ``device``, ``instance``, ``start``, ``end`` (ms) of its leases.

    Raises:
        LedgerError: a part of the lake is damaged.
    """
    paths = _parts(folder, start, end)
    if not paths or end - start > LONGEST_MS:
        return Seen()
    wanted = [
        lake.Wanted(cluster, rows["device"].unique().sort().to_list())
        for (cluster,), rows in holds.filter(pl.col("device").is_not_null())
        .partition_by("cluster", as_dict=True)
        .items()
    ]
    inside = pl.col("time").dt.epoch("ms").is_between(start, end, closed="left")
    found = Seen()
    for table in lake.read(folder, paths, wanted):
        samples = table.filter(inside)
        if samples.height:
            found.lines.update(_lines(samples, holds, start, end))
            found.peaks.update(_peaks(samples, holds))
    return found


def step_of(start: int, end: int) -> int:
    """Return the ms of a column of the time line."""
    return max(-(-(end - start) // COLUMNS), 1)


def _parts(folder: Path, start: int, end: int) -> list[str]:
    days = {f"day={from_ms(t):%Y-%m-%d}" for t in range(start // DAY_MS * DAY_MS, end, DAY_MS)}
    return sorted(
        str(path.relative_to(folder)) for path in folder.glob("cluster=*/day=*/*.parquet") if path.parent.name in days
    )


def _held(rows: pl.DataFrame, holds: pl.DataFrame, t: str) -> pl.DataFrame:
    key = ["device", "instance"]
    joined = rows.join(holds.select(*key, "start", "end"), on=key, nulls_equal=True)
    return joined.filter((pl.col(t) >= pl.col("start")) & (pl.col(t) < pl.col("end")))


def _lines(
    samples: pl.DataFrame, holds: pl.DataFrame, start: int, end: int
) -> Iterator[tuple[Device, tuple[float | None, ...]]]:
    found = readings(samples)
    rows = found.rows.join(found.devices.select("dev", "device", "instance"), on="dev")
    busy = pl.coalesce("engine", "util")
    columns = (
        _held(rows.filter(busy.is_not_null()), holds, "t")
        .with_columns(column=(pl.col("t") - start) // step_of(start, end), busy=busy)
        .group_by("device", "instance", "column")
        .agg((pl.col("busy") * pl.col("ms")).sum() / pl.col("ms").sum())
    )
    for (device, instance), of in columns.partition_by("device", "instance", as_dict=True).items():
        yield (device, instance), spread(dict(of.select("column", "busy").iter_rows()))


def spread(columns: dict[int, float]) -> tuple[float | None, ...]:
    """Return a time line of its known columns."""
    return tuple(None if (value := columns.get(n)) is None else round(value, 4) for n in range(COLUMNS))


def _peaks(samples: pl.DataFrame, holds: pl.DataFrame) -> Iterator[tuple[Device, tuple[float | None, float | None]]]:
    names = ("memory_used_bytes", "memory_free_bytes", "memory_total_bytes")
    have = [name for name in names if name in samples.columns]
    rows = samples.select(
        "device",
        "instance",
        pl.col("time").dt.epoch("ms").alias("t"),
        *(pl.when(pl.col(name).is_finite() & (pl.col(name) >= 0)).then(name).alias(name) for name in have),
        *(pl.lit(None, pl.Float64).alias(name) for name in names if name not in have),
    )
    used, free, total = (pl.col(name) for name in names)
    peaks = (
        _held(rows, holds, "t")
        .group_by("device", "instance")
        .agg(used.max(), total=pl.coalesce(total, used + free).max())
    )
    for device, instance, most, whole in peaks.iter_rows():
        yield (device, instance), (most, whole)
