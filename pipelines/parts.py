"""Parts of cards that a scheduler hands out without saying which: slices, fractions and MIG instances of pods.

Several parts stand on one card as long as they fit it together at each instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pipelines.intervals import Interval, covers_all, cut
from pipelines.mig import is_profile, weight
from pipelines.schedulers import Record


def parts_of(record: Record, gpus: Fraction) -> list[Fraction | str] | None:
    """Return a pod's parts of cards: shares, or MIG profiles; None: it holds whole cards."""
    if record.kind != "kubernetes":
        return None
    if is_profile(record.model):
        return [str(record.model)] * int(gpus)
    return [gpus] if 0 < gpus < 1 else None


class Parts:
    """Which parts stand where, and when; times in ms."""

    def __init__(self) -> None:
        self._open: dict[int, list[Interval]] = {}
        self._held: dict[int, list[tuple[int, int, Fraction]]] = {}
        self._grown = 0

    def open(self, place: int, free: list[Interval]) -> None:
        """Say where a card may be held in parts."""
        self._open[place] = list(free)

    def close(self, place: int, start: int, end: int) -> None:
        """Say that somebody has the whole card."""
        cut(self._open.setdefault(place, []), start, end)

    def take(
        self, cards: Mapping[int, str | None], part: Fraction | str, start: int, end: int, *, may_grow: bool = False
    ) -> tuple[int, Fraction] | None:
        """Take a part of the first card that has room for it throughout; return the card and the share.

        Args:
            cards: models by number, in the order in which they are tried.
            part: a share of a card, or a MIG profile, whose share follows from the card's model.
            may_grow: cards aren't known: there are as many as the parts need, numbered from 0.
        """
        for place, model in ((n, None) for n in range(self._grown + 1)) if may_grow else cards.items():
            share = weight(model, part, "max") if isinstance(part, str) else part
            if not may_grow and not covers_all(self._open.get(place, []), start, end):
                continue
            if self._peak(place, start, end) + share <= 1:
                self._held.setdefault(place, []).append((start, end, share))
                self._grown = max(self._grown, place + 1) if may_grow else 0
                return place, share
        return None

    def _peak(self, place: int, start: int, end: int) -> Fraction:
        """Return the most that is held of a card at one time within [start, end)."""
        held = [
            (max(a, start), min(b, end), share) for a, b, share in self._held.get(place, ()) if a < end and b > start
        ]
        return max((sum((s for a, b, s in held if a <= t < b), Fraction(0)) for t, _, _ in held), default=Fraction(0))
