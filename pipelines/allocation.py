"""How memory is asked for while arrays of some megabytes are made and dropped by the thousand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

# Of glibc's malloc.h: options of mallopt(3), and their defaults.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DEFAULT_BYTES: Final = 128 << 10
_KEPT_BYTES: Final = 32 << 20  # the most that every release takes for _MMAP_THRESHOLD


@contextmanager
def reused() -> Iterator[None]:
    """Keep freed memory for what is made next; a decorator as well. All that is free goes back at the end.

    By itself glibc gives an array's pages back when it is dropped, and for the next one the kernel clears pages again:
    a seventh of the time that looking at samples takes (docs/decisions.md). Without glibc nothing is done.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_TRIM_THRESHOLD, 1 << 30)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_BYTES)
        libc.malloc_trim(0)


@cache
def _glibc() -> Any | None:
    """Return the process's C library where it is glibc."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "malloc_trim") else None
