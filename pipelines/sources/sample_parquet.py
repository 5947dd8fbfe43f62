"""Source `samples`: Parquet of the wide sample table, one file, a folder of them or a glob."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

from exporter.catalog import BY_KEY
from exporter.errors import SourceError
from pipelines.sources.bounds import EARLIEST, LATEST
from pipelines.sources.tally import Tally
from pipelines.tables import SAMPLE_LABELS, TIME, Batch

_NEEDED: Final = ("time", "device")
_TEXT: Final = (pl.String, pl.Categorical, pl.Enum, pl.Null)
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
    tally = Tally(name or path.name)
    tables = [_read_file(file, cluster) for file in _files(path)]
    table = pl.concat(tables, how="diagonal")
    whole = table.drop_nulls(list(_NEEDED))
    if whole.height < table.height:
        tally.add("row without time or device", count=table.height - whole.height)
    possible = whole.filter(pl.col("time").is_between(EARLIEST, LATEST, closed="left"))
    if possible.height < whole.height:
        tally.add("row whose time is before 1970 or after 2099", count=whole.height - possible.height)
    metrics = [key for key in possible.columns if key not in SAMPLE_LABELS]
    return Batch(samples=possible.select(*SAMPLE_LABELS, *metrics), findings=tally.findings())


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


def _read_file(path: Path, cluster: str) -> pl.DataFrame:
    try:
        with path.open("rb"):
            pass
        schema = pl.read_parquet_schema(path)
        wanted = [column for column in schema if column in SAMPLE_LABELS or column in BY_KEY]
        _check_schema(path, schema)
        table = pl.read_parquet(path, columns=wanted)
    except FileNotFoundError:
        raise SourceError(str(path), "no such file", "correct the path in `sources`, or write the file first") from None
    except PermissionError:
        raise SourceError(str(path), "may not be read by this user", "give read permission to it") from None
    except (PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise SourceError(str(path), f"is no whole Parquet file ({reason})", "write or copy it again") from None
    return table.select(
        [_label(table, column, kind) for column, kind in SAMPLE_LABELS.items()]
        + [pl.col(column).cast(pl.Float64) for column in wanted if column in BY_KEY]
    ).with_columns(pl.col("cluster").fill_null(cluster))


def _check_schema(path: Path, schema: pl.Schema | dict[str, pl.DataType]) -> None:
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


def _label(table: pl.DataFrame, column: str, kind: pl.DataType) -> pl.Expr:
    if column not in table.columns:
        return pl.lit(None, kind).alias(column)
    if column != "time":
        return pl.col(column).cast(pl.String).replace("", None)
    stored = table.schema["time"]
    if isinstance(stored, pl.Datetime) and stored.time_zone is None:
        return pl.col("time").dt.replace_time_zone("UTC").cast(TIME)
    return pl.col("time").dt.convert_time_zone("UTC").cast(TIME)
