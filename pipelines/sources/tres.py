"""GPUs in Slurm's TRES and GRES texts."""

from __future__ import annotations

import re
from typing import Final

from pipelines.sources.bounds import MAX_GPUS

# `gres/gpu:a100=2` and `gres/gpu=2` of TRES; gres/gpumem, gres/gpuutil and gres/shard are no GPUs.
_TRES: Final = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)", re.ASCII)
# `gpu:a100:2(S:0-1)` of AllocGRES.
_GRES: Final = re.compile(r"gpu(?::([^:(=]*[^\d:(=][^:(=]*))?:(\d+)(?:\([^)]*\))?", re.ASCII)
_GPU_ENTRY: Final = re.compile(r"(?:gres/)?gpu[:=]")
_COMMA: Final = re.compile(r",(?![^(]*\))")  # none of those in `(IDX:0,3)`


def gpus_by_type(text: str) -> dict[str | None, int]:
    """How many GPUs of each type a TRES or GRES text names; None is the type that it leaves open.

    The plain entry counts all GPUs and the typed ones are part of it: what they leave of it is of unknown type.

    Raises:
        ValueError: an entry for GPUs has no count, or one that no job has.
    """
    typed: dict[str | None, int] = {}
    plain = 0
    for entry in map(str.strip, _COMMA.split(text)):
        if not _GPU_ENTRY.match(entry):
            continue
        match = _TRES.fullmatch(entry) or _GRES.fullmatch(entry)
        if match is None:
            raise ValueError("GPU entry without a count")
        if match[1]:
            typed[match[1]] = typed.get(match[1], 0) + int(match[2])
        else:
            plain += int(match[2])
    rest = plain - sum(typed.values())
    if rest > 0:
        typed[None] = rest
    if sum(typed.values()) > MAX_GPUS:
        raise ValueError("more GPUs than any job has")
    return {kind: count for kind, count in typed.items() if count}
