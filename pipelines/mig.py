"""How much of a card a MIG instance is: the slice tables of NVIDIA's MIG user guide.

A card is cut into compute slices and memory slices (7 and 8 on A100, H100, H200 and B200; 4 and 4 on
A30). A profile ``3g.40gb`` is 3 compute slices and as many memory slices as 40 GB take.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal

Weighting = Literal["max", "compute", "memory"]

_PROFILE: Final = re.compile(r"(?:^|[^0-9])(\d+)g\.(\d+)gb")
_MEMORY_IN_MODEL: Final = re.compile(r"(\d+)\s?GB", re.IGNORECASE)

_CARDS: Final = (  # model pattern, compute slices, memory slices, nominal GB where the model's name doesn't say
    (re.compile(r"\bA30\b", re.IGNORECASE), 4, 4, 24),
    (re.compile(r"RTX PRO 6000|RTX 6000D", re.IGNORECASE), 4, 4, 96),
    (re.compile(r"\bG?B300\b", re.IGNORECASE), 7, 8, 270),
    (re.compile(r"\bG?B200\b", re.IGNORECASE), 7, 8, 180),
    (re.compile(r"\bGH200\b", re.IGNORECASE), 7, 8, 96),
    (re.compile(r"\bH200\b", re.IGNORECASE), 7, 8, 141),
    (re.compile(r"\bH100 NVL\b", re.IGNORECASE), 7, 8, 94),
    (re.compile(r"\bH100\b", re.IGNORECASE), 7, 8, 80),
    (re.compile(r"\bA100\b", re.IGNORECASE), 7, 8, 40),
)
_MEMORY_SLICES_BY_COMPUTE: Final = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}  # the plain profile of each size


def _card(model: str | None) -> tuple[int, int, int | None]:
    text = model or ""
    said = _MEMORY_IN_MODEL.search(text)
    for pattern, compute, memory, nominal in _CARDS:
        if pattern.search(text):
            # "GH200 480GB" names the processor's memory: no card has over twice its family's.
            gigabytes = int(said.group(1)) if said and int(said.group(1)) <= 2 * nominal else nominal
            return compute, memory, gigabytes
    return 7, 8, int(said.group(1)) if said else None


def slices(model: str | None, profile: str | None) -> tuple[Fraction, Fraction]:
    """Return the compute and the memory part of the card that `profile` takes.

    An instance whose profile is unknown counts as the smallest one.
    """
    compute_total, memory_total, card_gb = _card(model)
    found = _PROFILE.search((profile or "").lower())
    if not found:
        return Fraction(1, compute_total), Fraction(1, memory_total)
    compute, gigabytes = int(found.group(1)), int(found.group(2))
    if card_gb:
        memory = round(Fraction(gigabytes * memory_total, card_gb))
    else:
        memory = _MEMORY_SLICES_BY_COMPUTE.get(compute, compute)
    memory = min(max(memory, 1), memory_total)
    return Fraction(min(compute, compute_total), compute_total), Fraction(memory, memory_total)


def is_profile(name: str | None) -> bool:
    """Return whether a name is that of a MIG profile, such as ``1g.5gb``."""
    return _PROFILE.match(name or "") is not None


def weight(model: str | None, profile: str | None, by: Weighting) -> Fraction:
    """Return the instance's weight before the card's sum is looked at."""
    compute, memory = slices(model, profile)
    if by == "compute":
        return compute
    return memory if by == "memory" else max(compute, memory)


def card_weights(instances: Mapping[str, tuple[str | None, str | None]], by: Weighting) -> dict[str, Fraction]:
    """Weights of the instances present on one card, scaled down when they exceed the card.

    Args:
        instances: model and profile of each.
        by: ``mig.weight`` of the configuration.
    """
    plain = {key: weight(model, profile, by) for key, (model, profile) in instances.items()}
    total = sum(plain.values(), Fraction(0))
    return {key: w / total for key, w in plain.items()} if total > 1 else plain
