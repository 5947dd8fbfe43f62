"""CSV files that people keep by hand: any column order, extra columns, BOM, CRLF, commas or semicolons."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from exporter.errors import SourceError
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.tally import Tally

_DELIMITERS: Final = (",", ";", "\t")


class BadRowError(ValueError):
    """A row can't be used; the message says why."""


def csv_rows(path: Path, tally: Tally, required: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row's line number and its fields by lower-case column name, stripped; "" where blank.

    A row is one line. One without the header's number of fields is counted as bad and left out.

    Raises:
        SourceError: the file can't be read, or its header lacks a required column.
    """
    header: list[str] | None = None
    delimiter = ","
    with open_source(path) as stream:
        for first, lines in line_blocks(stream, tally):
            for number, raw in enumerate(lines, first):
                line = raw.decode("utf-8", errors="replace").strip("\r\n")
                if not line.strip(" ,;\t"):
                    continue
                if header is None:
                    delimiter = max(_DELIMITERS, key=line.count)
                    header = [name.lower() for name in _split(line, delimiter)]
                    _check_header(path, header, required)
                    continue
                fields = _split(line, delimiter)
                if (len(fields) != len(header) and any(fields[len(header) :])) or len(fields) < len(header):
                    tally.add("row without the columns of the header", number)
                    continue
                yield number, dict(zip(header, fields, strict=False))


def _split(line: str, delimiter: str) -> list[str]:
    try:
        (fields,) = csv.reader([line], delimiter=delimiter)
    except csv.Error:  # a field over 128 KiB
        return []
    return [field.strip() for field in fields]


def _check_header(path: Path, header: list[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        raise SourceError(
            str(path),
            f"its header has no column {', '.join(missing)}",
            f"start the file with a line that names its columns: {','.join(required)},…",
        )
