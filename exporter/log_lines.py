"""New lines of a log: a file that grows and is rotated, the kernel's own buffer, or the journal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exporter.errors import SourceError
from exporter.kernel_log import Lines

_CHUNK: Final = 1 << 16
_JOURNAL: Final = ("journalctl", "--dmesg", "--follow", "--lines=0", "--output=cat", "--quiet")


def open_lines(source: str) -> Lines:
    """The lines of ``journal``, of a file or of ``/dev/kmsg``."""
    if source == "journal":
        return JournalLines()
    path = Path(source)
    return KmsgLines(path) if path.is_char_device() else FileLines(path)


class _Splitter:
    """Cuts bytes into whole lines; what has no end yet waits for the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


class FileLines:
    """Lines appended to a file from now on, whatever logrotate does to it."""

    def __init__(self, path: Path) -> None:
        self._path, self._splitter = path, _Splitter()
        self._descriptor = self._open()
        if self._descriptor is not None:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def read(self) -> Iterator[str]:
        """The new lines. Raises SourceError."""
        yield from self._drain()
        if self._descriptor is None or self._replaced(self._descriptor):
            self.close()
            self._descriptor, self._splitter = self._open(), _Splitter()
            if self._descriptor is None:
                raise SourceError(str(self._path), "can't be read", "mount the kernel's log, or give another")
            yield from self._drain()

    def _drain(self) -> Iterator[str]:
        while self._descriptor is not None and (data := os.read(self._descriptor, _CHUNK)):
            yield from self._splitter.feed(data)

    def _replaced(self, descriptor: int) -> bool:
        """Whether the file was rotated, or cut short in place."""
        ours = os.fstat(descriptor)
        try:
            named = self._path.stat()
        except OSError:
            return False  # between two files: the next call finds the new one
        cut = named.st_size < os.lseek(descriptor, 0, os.SEEK_CUR)
        return (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino) or cut

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
        return process

    def close(self) -> None:
        """End the reader."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
