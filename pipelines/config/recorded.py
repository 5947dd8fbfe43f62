"""Entries that have two times: when they hold, and when they were recorded.

Of entries about the same thing, the one recorded later counts where both hold; nothing is ever written over. So a card
can be read as it was known on any day, and a price agreed on afterwards stands beside the one that it replaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, TypeVar

from pipelines.config.section import Recorded

R = TypeVar("R", bound=Recorded)

EVER: Final = datetime.min.replace(tzinfo=UTC)
FOR_EVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class InForce:
    """Where an entry counts: over [start, end).

    Attributes:
        place: where the counting entry stands in the file.
        at: the place in the file whose turn it takes; a replacement takes that of what it replaces.
    """

    place: int
    at: int
    start: datetime
    end: datetime


def span(entry: Recorded) -> tuple[datetime, datetime]:
    """Return when an entry holds."""
    return entry.from_ or EVER, entry.to or FOR_EVER


def since(entry: Recorded) -> datetime:
    """Return when an entry was recorded; one without a date was there from the start."""
    return entry.recorded or EVER


def in_force(entries: Sequence[R], about: Callable[[R], Hashable]) -> list[InForce]:
    """Return which entry counts when, in file order.

    Args:
        about: what an entry is about; only entries about the same thing replace each other.
    """
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place, entry in enumerate(entries):
        alike[about(entry)].append(place)
    found: list[InForce] = []
    for at, entry in enumerate(entries):
        start, end = span(entry)
        later = [
            place
            for place in alike[about(entry)]
            if since(entries[place]) > since(entry)
            and span(entries[place])[0] < end
            and span(entries[place])[1] > start
        ]
        edges = sorted({start, end, *(t for place in later for t in span(entries[place]) if start < t < end)})
        for first, last in pairwise(edges):
            holding = [p for p in later if span(entries[p])[0] <= first < span(entries[p])[1]]
            place = max(holding, key=lambda p: (since(entries[p]), -p), default=at)
            before = found[-1] if found else None
            if before is not None and (before.place, before.at, before.end) == (place, at, first):
                found[-1] = InForce(place, at, before.start, last)
            else:
                found.append(InForce(place, at, first, last))
    return found


def counting(entries: Sequence[R], about: Callable[[R], Hashable]) -> tuple[R, ...]:
    """Return entries cut to the time in which they count, for lists of which the first match wins."""
    return tuple(_cut(entries[stretch.place], stretch) for stretch in in_force(entries, about))


def adding_up(entries: Sequence[R], about: Callable[[R], Hashable]) -> tuple[R, ...]:
    """Return entries cut to the time in which they count, each once, for lists of which all matches count."""
    return tuple(_cut(entries[s.place], s) for s in in_force(entries, about) if s.place == s.at)


def known_at(entries: Iterable[R], at: datetime) -> tuple[R, ...]:
    """Return the entries that were recorded by a time."""
    return tuple(entry for entry in entries if since(entry) <= at)


def _replaces(one: Recorded, other: Recorded) -> bool:
    """Whether an entry counts in place of another in some of its time."""
    (start, end), (other_start, other_end) = span(one), span(other)
    return since(one) > since(other) and start < other_end and end > other_start


def _cut(entry: R, stretch: InForce) -> R:
    if (stretch.start, stretch.end) == span(entry):
        return entry
    start = None if stretch.start == EVER else stretch.start
    return entry.model_copy(update={"from_": start, "to": None if stretch.end == FOR_EVER else stretch.end})
