"""What is compiled by numba, the extra `fast`. Imported only where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile, keep the machine code on disk, and let other threads run meanwhile."""
    try:
        return cast("Function", numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder to keep it in
        return cast("Function", numba.njit(nogil=True)(function))
