"""`sacct -P` text → its rows as a table of text; rows that are broken are mended or counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from exporter.errors import SourceError
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.tally import Tally

COLUMNS: Final = (
    "JobID",
    "JobIDRaw",
    "Cluster",
    "Account",
    "User",
    "Partition",
    "QOS",
    "State",
    "Start",
    "End",
    "Elapsed",
    "ElapsedRaw",
    "NodeList",
    "AllocTRES",
    "AllocGRES",
    "ReqTRES",
    "AdminComment",
    "JobName",
)
"""What is read of a row; what a file lacks of them is null."""

_CANONICAL: Final = {name.lower(): name for name in COLUMNS}
_DELIMITER: Final = re.compile(r"[A-Za-z]+([^A-Za-z0-9]+)[A-Za-z]")
_MAX_BROKEN: Final = 100_000  # lines held for mending; beyond it they are only counted
_MAX_JOINED: Final = 64  # lines that one row may be broken over


def read_rows(path: Path, tally: Tally, fields: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of a file: ``line`` (UInt32, from 1) and ``COLUMNS`` (text as written; "" is null).

    Args:
        fields: the columns of a file without a header line.

    Raises:
        SourceError: it can't be read, has neither header nor ``fields``, or no row has the columns that they name.
    """
    table: _Table | None = None
    with open_source(path) as stream:
        for first, raw in line_blocks(stream, tally):
            lines = [line.decode("utf-8", errors="replace").rstrip("\r") for line in raw]
            number = first
            if table is None:
                header = _find_header(lines)
                if header is not None:
                    for skipped in range(header):
                        if lines[skipped].strip():
                            tally.add("line before the header", first + skipped)
                    table = _Table.of_header(lines[header])
                    lines, number = lines[header + 1 :], first + header + 1
                elif fields is not None:
                    table = _Table(list(fields), "|", named_by_user=True)
                elif any(line.strip() for line in lines):
                    raise SourceError(
                        str(path),
                        "no header line with JobID, as `sacct -P` writes it",
                        "run sacct without --noheader, or name its columns in `fields:`",
                    )
                else:
                    continue
            table.add(number, lines)
    if table is None:
        return _empty()
    return table.finish(path, tally)


class _Table:
    """Rows of one file, split into the columns that are wanted."""

    def __init__(self, names: list[str], delimiter: str, *, named_by_user: bool = False) -> None:
        self._delimiter = delimiter
        self._named_by_user = named_by_user
        self._names = [_CANONICAL.get(name.partition("%")[0].strip().lower(), name) for name in names]
        self._width = len(self._names)
        # Names of jobs are free text: as the last column, what looks like further fields is part of the name.
        self._open_end = self._names[-1].lower() == "jobname"
        self._frames: list[pl.DataFrame] = []
        self._broken: list[tuple[int, str]] = []
        self._too_many_broken = 0

    @classmethod
    def of_header(cls, header: str) -> _Table:
        found = _DELIMITER.match(header)
        delimiter = found[1] if found else "|"
        return cls(header.removesuffix(delimiter).split(delimiter), delimiter)

    def add(self, first_number: int, lines: list[str]) -> None:
        frame = pl.DataFrame({"text": lines}, schema={"text": pl.String}).with_row_index("line", first_number)
        frame = frame.filter(pl.col("text").str.strip_chars() != "")
        text = pl.col("text")
        extra = text.str.count_matches(self._delimiter, literal=True).cast(pl.Int64) + 1 - self._width
        if not self._open_end:
            # `sacct -p` ends each row with a delimiter of its own.
            ended = (extra == 1) & text.str.ends_with(self._delimiter)
            frame = frame.with_columns(pl.when(ended).then(text.str.strip_suffix(self._delimiter)).otherwise(text))
        whole = (extra >= 0) if self._open_end else (extra == 0)
        broken = frame.filter(~whole)
        room = max(_MAX_BROKEN - len(self._broken), 0)
        self._broken.extend(broken.head(room).iter_rows())
        self._too_many_broken += max(broken.height - room, 0)
        self._frames.append(self._split(frame.filter(whole)))

    def finish(self, path: Path, tally: Tally) -> pl.DataFrame:
        if self._named_by_user and self._broken and not any(frame.height for frame in self._frames):
            number, text = self._broken[0]
            raise SourceError(
                str(path),
                f"line {number} has {text.count(self._delimiter) + 1} fields, `fields` names {self._width}",
                "make `fields` name the columns that sacct was asked for",
            )
        mended = self._mend(tally)
        if mended:
            self._frames.append(
                self._split(pl.DataFrame(mended, schema={"line": pl.UInt32, "text": pl.String}, orient="row"))
            )
        if self._too_many_broken:
            tally.add("row without the columns of the header", count=self._too_many_broken)
        rows = pl.concat(self._frames) if self._frames else _empty()
        return rows.filter(pl.col("JobID").fill_null("") != "JobID")  # headers of files put together

    def _split(self, frame: pl.DataFrame) -> pl.DataFrame:
        parts = frame["text"].str.splitn(self._delimiter, self._width).struct.unnest()
        wanted = [
            (
                parts[f"field_{self._names.index(name)}"].str.strip_chars().replace("", None)
                if name in self._names
                else pl.Series(name, [None], dtype=pl.String).new_from_index(0, frame.height)
            ).alias(name)
            for name in COLUMNS
        ]
        return pl.DataFrame([frame["line"], *wanted])

    def _mend(self, tally: Tally) -> list[tuple[int, str]]:
        """Rows that a line break in a free text had broken; the other lines are counted."""
        mended = []
        position = 0
        while position < len(self._broken):
            number, text = self._broken[position]
            following = position + 1
            while (
                text.count(self._delimiter) + 1 < self._width
                and following < min(len(self._broken), position + _MAX_JOINED)
                and self._broken[following][0] == number + following - position
            ):
                text = f"{text} {self._broken[following][1]}"
                following += 1
            if text.count(self._delimiter) + 1 == self._width and following > position + 1:
                tally.add("row broken over several lines; it was joined again", number)
                mended.append((number, text))
                position = following
            else:
                tally.add("row without the columns of the header", number)
                position += 1
        return mended


def _find_header(lines: Sequence[str]) -> int | None:
    for position, line in enumerate(lines):
        found = _DELIMITER.match(line)
        if found and "jobid" in {name.lower() for name in line.split(found[1])}:
            return position
    return None


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema={"line": pl.UInt32, **dict.fromkeys(COLUMNS, pl.String)})
