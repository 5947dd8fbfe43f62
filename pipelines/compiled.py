"""What is compiled by numba, the extra `fast`. Imported only where it is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])
_log: Final = logging.getLogger("gpuledger.compiled")


def compiled(function: Function) -> Function:
    """Compile, keep the machine code on disk where that goes, and let other threads run meanwhile."""
    try:
        made = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder to keep it in
        made = numba.njit(nogil=True)(function)
    if hasattr(made, "_cache"):
        made._cache = _Forgiving(made._cache)  # noqa: SLF001 - numba has no other way to say what a failure is worth
    return cast("Function", made)


class _Forgiving:
    """Numba's files of machine code, for which no call fails: a disk may be full, a file cut by a loss of power."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Return what was kept; None: it is compiled again."""
        try:
            return self._files.load_overload(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a damaged file makes numba say
            _log.warning("machine code can't be read (%s); it is compiled again", error)
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Keep what was compiled, if that goes."""
        try:
            self._files.save_overload(*arguments)
        except Exception as error:  # noqa: BLE001 - it was compiled, and runs
            _log.warning("machine code can't be kept (%s); the next process compiles it again", error)
