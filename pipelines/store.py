"""The one place that opens DuckDB, and the one lock on a ledger."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb

from exporter.errors import LedgerBusy, LedgerError

LOCK_WAIT_S: Final = 30.0
_POLL_S: Final = 0.1


@contextmanager
def opened(path: Path, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file in UTC, and close it.

    Raises:
        LedgerBusy: another process holds the file.
        LedgerError: it can't be opened, read or written.
    """
    try:
        connection = duckdb.connect(str(path), read_only=read_only)
    except duckdb.IOException as error:
        if "could not set lock" in str(error).lower():
            raise LedgerBusy(str(path), _named_in(str(error))) from None
        if "not a valid duckdb database" in str(error).lower():
            raise LedgerError(f"{path}: is no ledger of this program; move it away") from None
        raise LedgerError(f"{path}: can't be opened: {_one_line(error)}; mend its permissions, or make room") from None
    except duckdb.Error as error:
        raise LedgerError(f"{path}: is no ledger of this program: {_one_line(error)}; move it away") from None
    try:
        connection.execute("SET TimeZone = 'UTC'")
        # A table that isn't there is missing, and not a variable of that name in whatever calls.
        connection.execute("SET python_enable_replacements = false")
        yield connection
    except duckdb.OutOfMemoryException as error:
        raise LedgerError(f"{path}: out of memory: {_one_line(error)}; nothing was changed") from None
    except (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException) as error:
        raise LedgerError(
            f"{path}: can't be written: {_one_line(error)}; nothing was changed: make room and try again"
        ) from None
    finally:
        connection.close()


def make(path: Path) -> None:
    """Make a DuckDB file where there is none. Whoever calls this holds its folder.

    It has its name only once it is whole: DuckDB, killed while it makes a file, leaves one that it can't open again.

    Raises:
        LedgerError: it can't be written.
    """
    if path.exists() and path.stat().st_size:
        return
    temporary = path.with_name(f".{path.name}.tmp")
    discard(temporary)
    with opened(temporary, read_only=False):
        pass
    temporary.replace(path)


def discard(path: Path) -> None:
    """Remove a DuckDB file and its log."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)


def is_read(path: Path) -> bool:
    """Return whether another process has a DuckDB file open."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # DuckDB holds such a lock, shared among readers
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit all that is done inside, or nothing."""
    connection.begin()
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # after a failed write DuckDB may have rolled back by itself
            connection.rollback()
        raise
    connection.commit()


@contextmanager
def held(
    folder: Path, purpose: str, *, wait_s: float = LOCK_WAIT_S, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold the ledger in `folder` against other processes.

    Args:
        purpose: what it is held for, told to whoever waits.

    Raises:
        LedgerBusy: it is still held after `wait_s`; the message says by whom.
        LedgerError: the folder can't be written.
    """
    path = folder / "lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise LedgerError(
            f"{folder}: can't hold a ledger: {error.strerror}; choose a folder that can be written"
        ) from None
    try:
        waited = 0.0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waited >= wait_s:
                    raise LedgerBusy(str(folder), _holder(path)) from None
                sleep(_POLL_S)
                waited += _POLL_S
        _name_holder(folder, descriptor, purpose)
        yield
    finally:
        os.close(descriptor)


def _name_holder(folder: Path, descriptor: int, purpose: str) -> None:
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} ({purpose})".encode(), 0)
    except OSError as error:
        raise LedgerError(f"{folder}: can't be written: {error.strerror}; free space and try again") from None


def _holder(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip() or "another process"
    except OSError:
        return "another process"


def _named_in(message: str) -> str:
    # DuckDB says: "… Conflicting lock is held in <program> (PID <number>) …"
    _, found, rest = message.partition("is held in ")
    return rest.split(")")[0] + ")" if found and ")" in rest else "another process"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
