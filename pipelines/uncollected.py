"""A pause of the cyclic garbage collector, for work that makes millions of objects and drops hardly any."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collector, which would look through all that was made again and again; a decorator as well.

    What nothing refers to goes all the same, by its count; only cycles wait.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
