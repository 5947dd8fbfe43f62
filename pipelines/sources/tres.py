"""GPUs in Slurm's TRES and GRES texts."""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from pipelines.sources.bounds import GPU_STEP, MAX_GPUS

# `gres/gpu:a100=2` and `gres/gpu=2` of TRES; gres/gpumem, gres/gpuutil and gres/shard are no GPUs.
_TRES: Final = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)", re.ASCII)
# `gpu:a100:2(S:0-1)` of AllocGRES.
_GRES: Final = re.compile(r"gpu(?::([^:(=]*[^\d:(=][^:(=]*))?:(\d+)(?:\([^)]*\))?", re.ASCII)
_GPU_ENTRY: Final = re.compile(r"(?:gres/)?gpu[:=]")
_SHARD: Final = re.compile(r"(?:gres/)?shard(?::([^=:(]*[^\d=:(][^=:(]*))?[=:](\d+)(?:\([^)]*\))?", re.ASCII)
_INDEX: Final = re.compile(r"\(IDX:([\d,-]+)\)", re.ASCII)
_NO_TYPE: Final = ":(null):"  # so Slurm writes a gres that slurm.conf gives no type
_COMMA: Final = re.compile(r",(?![^(]*\))")  # none of those in `(IDX:0,3)`


def gpus_by_type(text: str) -> dict[str | None, int]:
    """How many GPUs of each type a TRES or GRES text names; None is the type that it leaves open.

    The plain entry counts all GPUs and the typed ones are part of it: what they leave of it is of unknown type.

    Raises:
        ValueError: an entry for GPUs has no count, or one that no job has.
    """
    typed: dict[str | None, int] = {}
    plain = 0
    for entry in map(str.strip, _COMMA.split(text.replace(_NO_TYPE, ":"))):
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


def held_gpus(text: str, shards_per_gpu: int | None) -> dict[str | None, Decimal]:
    """How many GPUs of each type a run holds: whole ones, and shards of one (each type's of its own).

    Raises:
        ValueError: as `gpus_by_type`.
    """
    held = {kind: Decimal(count) for kind, count in gpus_by_type(text).items()}
    parts = shards(text)
    if parts and shards_per_gpu:
        share = (Decimal(parts) / shards_per_gpu).quantize(GPU_STEP, ROUND_FLOOR).normalize()
        held[None] = held.get(None, Decimal(0)) + share
    return held


def minors(text: str) -> list[int]:
    """Minor numbers of the GPUs in GRES detail: ``gpu:h100:3(IDX:0-1,5)`` → 0, 1, 5; none where it says N/A."""
    found: list[int] = []
    for entry in map(str.strip, _COMMA.split(text)):
        index = _INDEX.search(entry)
        if not _GPU_ENTRY.match(entry) or index is None:
            continue
        for piece in index[1].split(","):
            first, _, last = piece.partition("-")
            if first.isdecimal() and (last or first).isdecimal() and int(last or first) - int(first) < MAX_GPUS:
                found.extend(range(int(first), int(last or first) + 1))
    return found


def shards(text: str) -> int:
    """How many shards a TRES or GRES text names; typed entries are part of the plain one."""
    typed = plain = 0
    for entry in map(str.strip, _COMMA.split(text)):
        match = _SHARD.fullmatch(entry)
        if match is None:
            continue
        if match[1]:
            typed += int(match[2])
        else:
            plain += int(match[2])
    return max(typed, plain)
