"""Opening the files that sources name: plain or gzip, in bounded memory, with one-line errors."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from exporter.errors import SourceError
from pipelines.sources.tally import Tally

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_source(path: Path) -> Iterator[BinaryIO]:
    """The bytes of ``path``, unpacked where they are gzip (told by its magic, whatever the name).

    Raises:
        SourceError: the file is missing, a directory, unreadable, or broken gzip.
    """
    try:
        with path.open("rb") as raw:
            magic = raw.peek(2)[:2]
            if magic == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast("BinaryIO", unpacked)
            else:
                yield raw
    except FileNotFoundError:
        raise SourceError(str(path), "no such file", "correct the path in `sources`, or write the file first") from None
    except IsADirectoryError:
        raise SourceError(str(path), "is a directory, a file was expected", "name the file in it") from None
    except PermissionError:
        raise SourceError(str(path), "may not be read by this user", "give read permission to it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(str(path), f"is broken gzip ({error})", "copy the file again") from None
    except OSError as error:
        raise SourceError(str(path), f"could not be read ({error.strerror or error})", "check the disk") from None


def line_blocks(stream: BinaryIO | io.BufferedIOBase, tally: Tally) -> Iterator[tuple[int, list[bytes]]]:
    """Blocks of whole lines without their newline, each with the number of its first line (from 1).

    A line over ``MAX_LINE_BYTES`` is counted as bad and never held whole, so that memory stays bounded.
    """
    number, carry, skipping, first = 1, b"", False, True
    while chunk := stream.read(CHUNK_BYTES):
        if first:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            first = False
        if skipping:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk, skipping = chunk[end + 1 :], False
            number += 1
        lines = (carry + chunk).split(b"\n")
        carry = lines.pop()
        if lines and len(lines[0]) > MAX_LINE_BYTES:
            tally.add("line longer than 1 MiB", number)
            lines[0] = b""
        if lines:
            yield number, lines
            number += len(lines)
        if len(carry) > MAX_LINE_BYTES:
            tally.add("line longer than 1 MiB", number)
            carry, skipping = b"", True
    if carry:
        yield number, [carry]
