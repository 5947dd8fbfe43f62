"""New lines of a log: a file that grows and is rotated, the kernel's own buffer, or the journal."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exporter.errors import SourceError, UsageError
from exporter.kernel_log import Lines

_CHUNK: Final = 1 << 16
_MEND: Final = "mount the kernel's log, or give another"
# A journalctl without a journal ends at once.
_FIRST_SECONDS: Final = 0.2
_JOURNAL: Final = ("journalctl", "--dmesg", "--follow", "--lines=0", "--output=cat", "--quiet")


def open_lines(source: str) -> Lines:
    """The lines of ``journal``, of a file or of ``/dev/kmsg``. Raises UsageError."""
    if source == "journal":
        return JournalLines()
    path = Path(source)
    if path.is_char_device():
        return KmsgLines(path)
    if path.exists() and not path.is_file():
        raise UsageError(f"--kernel-log {source}: a file, /dev/kmsg or journal was expected; this is none of them")
    return FileLines(path)


class _Splitter:
    """Cuts bytes into whole lines; what has no end yet waits for the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


class FileLines:
    """Lines appended to a file from now on, whatever logrotate does to it.

    A daemon goes on writing into the old file until it is told of the new one, so the old one is read once more.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._splitter = path, _Splitter()
        self._descriptor = self._open()
        self._old: tuple[int, _Splitter] | None = None
        self._gone = False
        if self._descriptor is not None:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None

    def read(self) -> Iterator[str]:
        """The new lines. Raises SourceError."""
        try:
            yield from self._read()
        except OSError as error:
            raise SourceError(str(self._path), f"can't be read ({error.strerror})", _MEND) from error

    def _read(self) -> Iterator[str]:
        if self._old is not None:
            (descriptor, splitter), self._old = self._old, None
            yield from _drain(descriptor, splitter)
            os.close(descriptor)
        named = self._stat()
        if self._descriptor is not None:
            if named is None and self._gone:
                raise SourceError(str(self._path), "is gone", _MEND)
            self._gone = named is None
            if named is not None and self._cut_short(self._descriptor, named):
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                self._splitter = _Splitter()
            yield from _drain(self._descriptor, self._splitter)
            if named is None or os.path.samestat(named, os.fstat(self._descriptor)):
                return  # without a file there, this is the moment between two of a rotation
            self._old = self._descriptor, self._splitter
        self._descriptor, self._splitter = self._open(), _Splitter()
        if self._descriptor is None:
            raise SourceError(str(self._path), "can't be read", _MEND)
        yield from _drain(self._descriptor, self._splitter)

    def _stat(self) -> os.stat_result | None:
        try:
            return self._path.stat()
        except OSError:
            return None

    def _cut_short(self, descriptor: int, named: os.stat_result) -> bool:
        same = os.path.samestat(named, os.fstat(descriptor))
        return same and named.st_size < os.lseek(descriptor, 0, os.SEEK_CUR)

    def close(self) -> None:
        """Close the file."""
        for descriptor in (self._descriptor, self._old[0] if self._old else None):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor, self._old = None, None


def _drain(descriptor: int, splitter: _Splitter) -> Iterator[str]:
    while data := os.read(descriptor, _CHUNK):
        yield from splitter.feed(data)


class KmsgLines:
    """Records of ``/dev/kmsg``, the kernel's own buffer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> Iterator[str]:
        """The new records. Raises SourceError."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
                os.lseek(self._descriptor, 0, os.SEEK_END)
            while True:
                try:
                    record = os.read(self._descriptor, _CHUNK)
                except BrokenPipeError:
                    continue  # records were overwritten before they were read
                if not record:
                    return
                yield record.decode("utf-8", "replace")
        except BlockingIOError:
            return  # the end, for now
        except OSError as error:
            raise SourceError(str(self._path), f"{error.strerror}", "run as root or with CAP_SYSLOG") from error

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class JournalLines:
    """The kernel's messages as journald has them, by ``journalctl --follow``."""

    def __init__(self, command: tuple[str, ...] = _JOURNAL) -> None:
        self._command, self._splitter = command, _Splitter()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self) -> Iterator[str]:
        """The new lines. Raises SourceError."""
        if self._process is None:
            self._process = self._start()
        output = self._process.stdout
        if output is None:
            return
        while True:
            try:
                data = os.read(output.fileno(), _CHUNK)
            except BlockingIOError:
                return
            if not data:
                break
            yield from self._splitter.feed(data)
        status = self._process.wait()
        self.close()
        raise SourceError("journalctl", f"ended with status {status}", "mount the journal, or give a log file")

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(  # noqa: S603  a fixed command line
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise SourceError(self._command[0], f"{error.strerror}", "install systemd, or give a log file") from error
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
            select.select([process.stdout], [], [], _FIRST_SECONDS)
        return process

    def close(self) -> None:
        """End the reader."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
