"""Names of GPU models, as different sources write them."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9]+")


def letters(text: str | None) -> str:
    """Return a name's letters and digits alone, in lower case."""
    return "".join(_WORD.findall((text or "").lower()))


def model_matches(wanted: str | None, model: str | None) -> bool:
    """Return whether a scheduler's or inventory's name ("h100") means a model ("NVIDIA H100 80GB HBM3").

    All of its words stand in the model's name, or it stands there in one piece, however it is spaced; but neither in
    the middle of a number nor short of a suffix: an A10 is no A100, an L40 no L40S, an H200 no GH200.
    """
    if wanted is None or model is None:
        return True
    want, words = letters(wanted), _WORD.findall(model.lower())
    return all(word in words for word in _WORD.findall(wanted.lower())) or _in_one_piece(want, words)


def _in_one_piece(want: str, words: list[str]) -> bool:
    have, edges = "".join(words), {0, *accumulate(len(word) for word in words)}
    found = (match.start() for match in re.finditer(f"(?={re.escape(want)})", have))
    return any(_begins(have, at, edges) and _ends(have, at + len(want), edges) for at in found)


def _begins(have: str, at: int, edges: set[int]) -> bool:
    return at in edges or have[at - 1].isdigit() != have[at].isdigit()


def _ends(have: str, at: int, edges: set[int]) -> bool:
    if at in edges:
        return True
    rest = have[at : min(edge for edge in edges if edge > at)]
    if have[at - 1].isdigit():
        return rest == "gb"  # "a100-80" leaves out the unit alone
    return rest[0].isdigit()
