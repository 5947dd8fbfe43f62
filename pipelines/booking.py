"""Reservations against capacity and against each other: what fits, and what is booked twice.

Whether several reservations fit together is a question of flow: each may take cards of several models, and a card can
be given to one of them. What doesn't fit is named with those that it collides with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pipelines.models import model_matches
from pipelines.selectors import glob_matches


@dataclass(frozen=True)
class Booking:
    """GPUs promised over [start, end).

    Attributes:
        id: its name; unique with `source`.
        source: who promises: "configuration", or a scheduler's name for itself.
        tenant: whom it is promised to; None: nobody, it takes capacity away.
        model: glob (configuration), or a scheduler's name of a model; None: any.
        nodes: it takes cards of these alone; empty: of any.
        cluster: it takes cards of this one alone; None: of any.
    """

    id: str
    source: str
    tenant: str | None
    model: str | None
    gpus: int
    start: datetime
    end: datetime
    nodes: frozenset[str] = field(default_factory=frozenset)
    cluster: str | None = None

    def takes(self, place: Place) -> bool:
        """Return whether it may be given cards of a place."""
        if self.nodes and place.node not in self.nodes:
            return False
        if self.cluster is not None and place.cluster not in (None, self.cluster):
            return False
        if self.model is None:
            return True
        if self.source == "configuration":
            return glob_matches(self.model, place.model or "")
        return model_matches(self.model, place.model)


@dataclass(frozen=True)
class Place:
    """Where cards stand that are alike: a node and a model."""

    cluster: str | None
    node: str | None
    model: str | None


@dataclass(frozen=True)
class Conflict:
    """A booking that doesn't fit over [start, end): `missing` of its GPUs are nowhere, beside `others`."""

    booking: Booking
    start: datetime
    end: datetime
    missing: int
    others: tuple[str, ...]

    def __str__(self) -> str:
        wanted = self.booking.gpus
        of = f" of {self.booking.model}" if self.booking.model else ""
        beside = f" beside {', '.join(self.others)}" if self.others else ""
        when = f"from {self.start:%Y-%m-%dT%H:%MZ} to {self.end:%Y-%m-%dT%H:%MZ}"
        there = f"{wanted - self.missing} are there; take fewer, another time or another model"
        return f"{self.booking.id}: {wanted} GPUs{of} {when} don't fit{beside}: {there}"


def given(bookings: Sequence[Booking], capacity: Mapping[Place, int]) -> dict[Booking, dict[Place, int]]:
    """Return how many cards of which place each booking gets, first come first served, moving earlier ones if it helps.

    Args:
        bookings: in order of who comes first.
        capacity: cards of each place.
    """
    got: dict[Booking, dict[Place, int]] = {booking: {} for booking in bookings}
    left = dict(capacity)
    for booking in bookings:
        wanted = booking.gpus
        while wanted > 0 and (moved := _augment(booking, wanted, got, left, set())) > 0:
            wanted -= moved
    return got


def _augment(
    booking: Booking, wanted: int, got: dict[Booking, dict[Place, int]], left: dict[Place, int], tried: set[Place]
) -> int:
    """Find some cards for a booking, at the cost of others only where those find as many elsewhere."""
    for place in sorted(left, key=lambda p: (-left[p], str(p))):
        if place in tried or not booking.takes(place):
            continue
        tried.add(place)
        take = min(wanted, left[place])
        if take > 0:
            left[place] -= take
            got[booking][place] = got[booking].get(place, 0) + take
            return take
        for other, theirs in got.items():
            if other is booking or theirs.get(place, 0) <= 0:
                continue
            freed = _augment(other, min(wanted, theirs[place]), got, left, tried)
            if freed > 0:
                theirs[place] -= freed
                got[booking][place] = got[booking].get(place, 0) + freed
                return freed
    return 0


def active_over(bookings: Iterable[Booking], start: datetime, end: datetime) -> list[Booking]:
    """Return what is promised throughout [start, end), each promise once.

    What a scheduler sets aside for a tenant keeps the configuration's promise to it, and is no second one.
    """
    active = [b for b in bookings if b.start <= start and b.end >= end]
    set_aside: dict[str, int] = {}
    for booking in active:
        if booking.source != "configuration" and booking.tenant is not None:
            set_aside[booking.tenant] = set_aside.get(booking.tenant, 0) + booking.gpus
    netted = []
    for booking in active:
        kept = min(set_aside.get(booking.tenant or "", 0), booking.gpus) if booking.source == "configuration" else 0
        if kept:
            set_aside[str(booking.tenant)] -= kept
        netted.append(replace(booking, gpus=booking.gpus - kept))
    return [booking for booking in netted if booking.gpus]


def conflicts(
    bookings: Iterable[Booking], capacity_at: Mapping[tuple[datetime, datetime], Mapping[Place, int]]
) -> list[Conflict]:
    """Return what doesn't fit, joined over stretches in which the same is missing.

    Args:
        bookings: in order of who comes first.
        capacity_at: cards by stretch of time, in order; no booking begins or ends within one.
    """
    listed = list(bookings)
    found: list[Conflict] = []
    for (start, end), capacity in capacity_at.items():
        active = active_over(listed, start, end)
        got = given(active, capacity)
        for booking in active:
            missing = booking.gpus - sum(got[booking].values())
            if missing <= 0:
                continue
            rivals = tuple(
                other.id
                for other in active
                if other is not booking and any(booking.takes(place) for place, count in got[other].items() if count)
            )
            last = next((c for c in reversed(found) if c.booking == booking and c.end == start), None)
            if last is not None and (last.missing, last.others) == (missing, rivals):
                found[found.index(last)] = Conflict(booking, last.start, end, missing, rivals)
            else:
                found.append(Conflict(booking, start, end, missing, rivals))
    return found
