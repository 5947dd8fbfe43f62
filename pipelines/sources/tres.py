"""GPUs in Slurm's TRES and GRES texts."""

from __future__ import annotations

import re
from typing import Final

# `gres/gpu:a100=2` of TRES; gres/gpumem and gres/gpuutil are no GPUs, and neither are shards.
_TRES: Final = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)", re.ASCII)
# `gpu:a100:2(S:0-1)`, `gres:gpu:2` of AllocGRES before Slurm 21.
_GRES: Final = re.compile(r"(?:gres[:/])?gpu(?::([A-Za-z_][^:,(=]*))?[:=](\d+)(?:\([^)]*\))?", re.ASCII)


def gpus_by_type(text: str) -> dict[str | None, int]:
    """How many GPUs of each type a TRES or GRES text names; None is the type that it leaves open.

    The plain entry counts all GPUs, the typed ones are part of it: what they leave of it is of unknown type.
    """
    found = _TRES.findall(text)
    if not found and "gres/gpu" not in text:
        found = [pair for entry in _entries(text) if (match := _GRES.fullmatch(entry)) for pair in [match.groups("")]]
    typed: dict[str | None, int] = {}
    plain = 0
    for kind, count in found:
        if kind:
            typed[kind] = typed.get(kind, 0) + int(count)
        else:
            plain += int(count)
    rest = plain - sum(typed.values())
    if rest > 0:
        typed[None] = rest
    return {kind: count for kind, count in typed.items() if count}


def _entries(text: str) -> list[str]:
    """The entries of a comma-separated list whose parentheses may hold commas."""
    return [entry.strip() for entry in re.split(r",(?![^(]*\))", text)]
