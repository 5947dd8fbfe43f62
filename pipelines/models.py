"""Names of GPU models, as different sources write them."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9]+")


def letters(text: str | None) -> str:
    """Return a name's letters and digits alone, in lower case."""
    return "".join(_WORD.findall((text or "").lower()))


def model_matches(wanted: str | None, model: str | None) -> bool:
    """Return whether a scheduler's or inventory's name ("h100") means a model ("NVIDIA H100 80GB HBM3")."""
    if wanted is None or model is None:
        return True
    return letters(wanted) in letters(model) or all(
        word in _WORD.findall(model.lower()) for word in _WORD.findall(wanted.lower())
    )
