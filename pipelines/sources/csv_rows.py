"""CSV files that people keep by hand: any column order, extra columns, BOM, CRLF, commas or semicolons."""

from __future__ import annotations

import collections
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from exporter.errors import SourceError
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.tally import Tally

_DELIMITERS: Final = (",", ";", "\t")
_OPEN: Final = "a quote is opened and never closed, so nothing after it can be told apart; close it, or take it out"


class BadRowError(ValueError):
    """A row can't be used; the message says why."""


def csv_rows(path: Path, tally: Tally, required: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row's line number and its fields by lower-case column name, stripped; "" where blank.

    A quoted field may hold line breaks: they never begin a row, so that no name can forge one. A row without the
    header's number of fields is counted as bad and left out; so is all that follows a quote that is never closed.

    Raises:
        SourceError: the file can't be read, or its header lacks a required column.
    """
    header: list[str] | None = None
    with open_source(path) as stream:
        for number, fields in _records(_lines(stream, tally), tally):
            if header is None:
                header = [name.lower() for name in fields]
                _check_header(path, header, required)
                continue
            if (len(fields) != len(header) and any(fields[len(header) :])) or len(fields) < len(header):
                tally.add("row without the columns of the header", number)
                continue
            yield number, dict(zip(header, fields, strict=False))


def _lines(stream: BinaryIO | io.BufferedIOBase, tally: Tally) -> Iterator[str]:
    for _, lines in line_blocks(stream, tally):
        for raw in lines:
            yield raw.decode("utf-8", errors="replace").strip("\r\n") + "\n"


def _records(lines: Iterator[str], tally: Tally) -> Iterator[tuple[int, list[str]]]:
    """Yield each record's first line and its fields; blank ones are left out."""
    number, delimiter, seen = 0, "", _Seen(lines)
    for line in seen:
        number += 1
        if line.strip(" ,;\t\n"):
            delimiter = max(_DELIMITERS, key=line.count)
            break
    else:
        return
    reader = csv.reader(chain([line], seen), delimiter=delimiter)
    while True:
        seen.since = []
        first = number + reader.line_num
        try:
            fields = next(reader, None)
        except csv.Error:  # a field over 128 KiB
            if any('"' in line for line in seen.since):
                tally.add(_OPEN, first, count=len(seen.since) + sum(1 for _ in lines))
                return
            tally.add("row without the columns of the header", first)
            continue
        if fields is None:
            return
        odd = sum(line.count('"') for line in seen.since) % 2
        if (len(seen.since) > 1 or odd) and _is_open(seen.since, delimiter):
            tally.add(_OPEN, first, count=len(seen.since))
            return
        if any(field.strip() for field in fields):
            yield first, [field.strip() for field in fields]


class _Seen:
    """Lines, and those that were taken since a record began."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.since = lines, list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.since.append(line)
            yield line


def _is_open(lines: Sequence[str], delimiter: str) -> bool:
    """Whether the last quote of a record was never closed: the reader takes the end of the file for its end."""
    try:
        collections.deque(csv.reader(lines, delimiter=delimiter, strict=True), maxlen=0)
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _check_header(path: Path, header: list[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        raise SourceError(
            str(path),
            f"its header has no column {', '.join(missing)}",
            f"start the file with a line that names its columns: {','.join(required)},…",
        )
