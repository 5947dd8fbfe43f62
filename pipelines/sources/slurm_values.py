"""Values in Slurm's JSON, as any version writes them: numbers, times, texts, states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

# NO_VAL and INFINITE of slurm.h, in 32 and 64 bits.
_NO_VALUE: Final = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})


def states_of(value: Any) -> list[str]:
    """The base state and its flags; old versions write one text ("CANCELLED by 1000")."""
    texts = value if isinstance(value, list) else [value]
    return [text.split()[0].upper() for text in texts if isinstance(text, str) and text.strip()]


def number_of(value: Any) -> str | None:
    """A whole number as text; None where it is not set; what is no number as it stands, for later steps to refuse."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if value is None or value in ("", math.inf) or (isinstance(value, int) and value in _NO_VALUE):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def moment(value: Any) -> str | None:
    """Seconds since the epoch as text; None where it is not set or 0, which is how Slurm writes "never"."""
    number = number_of(value)
    return None if number == "0" else number


def text_of(value: Any) -> str | None:
    """Text without the blanks around it; a list joined by commas; None where there is none."""
    if isinstance(value, list):
        value = ",".join(each for each in value if isinstance(each, str))
    if isinstance(value, int):
        value = str(value)
    return value.strip() or None if isinstance(value, str) else None


def members_of(value: Any) -> Mapping[str, Any]:
    """The members of an object; of anything else none."""
    return value if isinstance(value, dict) else {}


def errors_in(value: Any) -> int:
    """How many errors an answer tells; that nothing was found (9003, ESLURM_REST_EMPTY_RESULT) is none."""
    listed = value if isinstance(value, list) else []
    return sum(not isinstance(each, dict) or number_of(each.get("error_number")) != "9003" for each in listed)
