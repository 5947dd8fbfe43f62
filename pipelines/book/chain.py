"""Hash-chained lines: each names the hash of the one before, so that none can change, go or come between unseen.

A line is canonical JSON. Its ``hash`` is the SHA-256 of the same line without it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Final

from exporter.errors import LedgerError

START: Final = "0" * 64

Json = dict[str, Any]


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces: one spelling for one meaning."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(content: bytes) -> str:
    """Return the SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()


def linked(content: Mapping[str, Any], before: Sequence[Json]) -> Json:
    """Return a line that follows others."""
    line = {**content, "sequence": len(before) + 1, "previous": before[-1]["hash"] if before else START}
    return {**line, "hash": sha256(canonical(line).encode())}


def append(path: Path, line: Json) -> None:
    """Write a line to the end of a file, and to the disk.

    Raises:
        LedgerError: it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as stream:
            whole = stream.tell()
            try:
                _write(stream, canonical(line).encode() + b"\n")
                os.fsync(stream.fileno())
            except OSError:
                # Half a line on a full disk would keep the whole chain from being read.
                stream.truncate(whole)
                raise
    except OSError as error:
        raise LedgerError(f"{path}: can't be written: {error.strerror}; nothing was booked") from None


def _write(stream: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def lines(path: Path) -> list[Json]:
    """Return the lines of a file; none where there is no file.

    Raises:
        LedgerError: the chain is broken; the message names the line.
    """
    found, problems = examined(path)
    if problems:
        raise LedgerError(f"{problems[0]}; see `gpuledger verify`, and restore the file from a backup")
    return found


def examined(path: Path) -> tuple[list[Json], list[str]]:
    """Return the lines of a file that could be read, and what is wrong with it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{path}: can't be read: {error.strerror}"]
    found: list[Json] = []
    problems = [] if not content or content.endswith(b"\n") else [f"{path}: its last line is cut off"]
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], start=1):
        line = _parsed(raw)
        if line is None:
            problems.append(f"{path}:{number}: is not what was written: no line of a chain")
            continue
        problems += [f"{path}:{number}: {fault}" for fault in _faults(line, raw, found, number)]
        found.append(line)
    return found, problems


def _parsed(raw: bytes) -> Json | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("hash"), str) else None


def _faults(line: Json, raw: bytes, before: Sequence[Json], number: int) -> Iterator[str]:
    bare = {key: value for key, value in line.items() if key != "hash"}
    if canonical(line).encode() != raw or sha256(canonical(bare).encode()) != line["hash"]:
        yield "was changed: its content doesn't give its hash"
    if line.get("previous") != (before[-1]["hash"] if before else START):
        yield "doesn't follow the line before it: a line was changed, taken out or put in"
    if line.get("sequence") != number:
        yield f"is number {line.get('sequence')}, expected {number}"
