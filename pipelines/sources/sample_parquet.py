"""Source `samples`: Parquet of the wide sample table, one file, a folder of them or a glob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

from exporter.catalog import BY_KEY
from exporter.errors import SourceError
from pipelines.sources.bounds import EARLIEST, LATEST
from pipelines.sources.strays import REASON, stray_days
from pipelines.sources.tally import Tally
from pipelines.tables import SAMPLE_LABELS, TIME, Batch, Finding

_NEEDED: Final = ("time", "device")
_TEXT: Final = (pl.String, pl.Categorical, pl.Enum, pl.Null)
_AT_ONCE: Final = 2_000_000
_MEND: Final = "write it as `gpuledger simulate` does: label columns as text, times as timestamps, metrics as numbers"


def read_samples(path: Path, *, cluster: str, name: str | None = None) -> Batch:
    """The samples of one Parquet file, of every ``*.parquet`` below a folder, or of a glob.

    Label columns that are missing are null, columns that neither ``SAMPLE_LABELS`` nor the catalogue knows are
    left out. Times without a zone are UTC.

    Args:
        cluster: of rows that don't say.
        name: what findings call the source.

    Raises:
        SourceError: nothing is there, it is no Parquet, or a column has another type than the sample table's.
    """
    name = name or path.name
    try:
        table = pl.concat([_scan(file, cluster) for file in _files(path)], how="diagonal")
        days = _days(table)
        findings, kept = _judged(days, name)
        pieces = _pieces(kept.select("day", "len"), table.drop_nulls(list(_NEEDED)))
        if kept.height and kept["len"].sum() > _AT_ONCE:
            return Batch(samples=table.limit(0).collect(), findings=findings, more=pieces)
        return Batch(samples=pl.concat([table.limit(0).collect(), *pieces]), findings=findings)
    except (PolarsError, OSError) as error:
        raise _broken(path, error) from None


def _days(table: pl.LazyFrame) -> pl.DataFrame:
    """Return ``day``, ``len`` and the times of the ``first`` and ``last`` sample; null: no time or device."""
    whole = pl.all_horizontal(pl.col(c).is_not_null() for c in _NEEDED)
    return (
        table.select(*_NEEDED)
        .group_by(day=pl.when(whole).then(pl.col("time").dt.date()))
        .agg(pl.len(), first=pl.col("time").min(), last=pl.col("time").max())
        .collect(engine="streaming")
        .sort("day")
    )


def _judged(days: pl.DataFrame, name: str) -> tuple[list[Finding], pl.DataFrame]:
    """Return what is wrong with the days of a source, and those that are left."""
    whole = days.drop_nulls("day")
    possible = whole.filter(pl.col("day").is_between(EARLIEST.date(), LATEST.date(), closed="left"))
    kept = possible.filter(~pl.col("day").is_in(stray_days(possible)))
    samples = [int(table["len"].sum()) for table in (days, whole, possible, kept)]
    reasons = ("row without time or device", "row whose time is before 2000 or after 2099", REASON)
    tally = Tally(name)
    for reason, (before, after) in zip(reasons, pairwise(samples), strict=True):
        tally.add(reason, count=before - after)
    if not kept.height:
        return tally.findings(), kept
    start, end = kept.select(pl.col("first").min().dt.epoch("ms"), pl.col("last").max().dt.epoch("ms")).row(0)
    return [replace(f, start=start, end=end + 1) for f in tally.findings()], kept


def _pieces(days: pl.DataFrame, table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield whole days, as many together as are no more than _AT_ONCE samples."""
    grouped = days.with_columns(piece=(pl.col("len").cum_sum() - 1) // _AT_ONCE)
    for _, piece in grouped.group_by("piece", maintain_order=True):
        yield table.filter(pl.col("time").dt.date().is_in(piece["day"].implode())).collect(engine="streaming")


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            files = sorted(path.rglob("*.parquet"))
        elif path.is_file() or not any(c in path.name for c in "*?["):
            files = [path]
        else:
            files = sorted(Path(found) for found in glob(str(path), recursive=True))  # noqa: PTH207  (absolute pattern)
    except PermissionError:
        raise SourceError(str(path), "may not be read by this user", "give read permission to it") from None
    if not files:
        raise SourceError(str(path), "no Parquet file there", "correct the path in `sources`")
    return files


def _scan(path: Path, cluster: str) -> pl.LazyFrame:
    try:
        with path.open("rb"):
            pass
        schema = pl.read_parquet_schema(path)
    except FileNotFoundError:
        raise SourceError(str(path), "no such file", "correct the path in `sources`, or write the file first") from None
    except PermissionError:
        raise SourceError(str(path), "may not be read by this user", "give read permission to it") from None
    except (PolarsError, OSError) as error:
        raise _broken(path, error) from None
    _check_schema(path, schema)
    table = pl.scan_parquet(path, hive_partitioning=False)
    metrics = [column for column in schema if column in BY_KEY]
    return table.select(
        [_label(schema, column, kind) for column, kind in SAMPLE_LABELS.items()]
        + [pl.col(column).cast(pl.Float64) for column in metrics]
    ).with_columns(pl.col("cluster").fill_null(cluster))


def _broken(path: Path, error: Exception) -> SourceError:
    reason = str(error).partition("\n")[0]
    return SourceError(str(path), f"is no whole Parquet file ({reason})", "write or copy it again")


def _check_schema(path: Path, schema: Mapping[str, pl.DataType]) -> None:
    for column in _NEEDED:
        if column not in schema:
            raise SourceError(str(path), f"no column {column}", _MEND)
    for column, kind in schema.items():
        if column == "time":
            good, expected = isinstance(kind, pl.Datetime), "a timestamp"
        elif column in SAMPLE_LABELS:
            good, expected = isinstance(kind, _TEXT) or kind.is_integer(), "text"
        elif column in BY_KEY:
            good, expected = kind.is_numeric() or kind == pl.Null, "a number"
        else:
            continue
        if not good:
            raise SourceError(str(path), f"column {column} is {kind}, {expected} was expected", _MEND)


def _label(schema: Mapping[str, pl.DataType], column: str, kind: pl.DataType) -> pl.Expr:
    if column not in schema:
        return pl.lit(None, kind).alias(column)
    if column != "time":
        return pl.col(column).cast(pl.String).replace("", None)
    stored = schema["time"]
    if isinstance(stored, pl.Datetime) and stored.time_zone is None:
        return pl.col("time").dt.replace_time_zone("UTC").cast(TIME)
    return pl.col("time").dt.convert_time_zone("UTC").cast(TIME)
