"""Methods of a framework's object, with something done around each call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

from gpuledger.training.meter import StepMeter


def wrap(
    meter: StepMeter, thing: Any, name: str, around: Callable[[], AbstractContextManager[Any, bool | None]]
) -> bool:
    """Run each call of ``thing.name`` inside what `around` returns; return whether there is such a method."""
    method = getattr(thing, name, None)
    if not callable(method):
        meter.complain(name, TypeError(f"{type(thing).__name__} has no method {name}"))
        return False

    @wraps(method)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with around():
            return method(*args, **kwargs)

    try:
        setattr(thing, name, inside)
    except AttributeError as error:
        meter.complain(name, error)
        return False
    return True
