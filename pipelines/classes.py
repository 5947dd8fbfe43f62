"""Which class a tenant's GPUs are, instant by instant: reserved, on demand, overflow or spot.

The rules stand in docs/numbers.md, "Money". Everything is exact: GPUs are fractions, times are ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Final, Literal

from pipelines.intervals import Interval
from pipelines.models import model_matches
from pipelines.selectors import glob_matches

Class = Literal["reserved", "on_demand", "overflow", "spot"]
CLASSES: Final[tuple[Class, ...]] = ("reserved", "on_demand", "overflow", "spot")


@dataclass(frozen=True)
class Segment:
    """A stretch of a lease with one weight, ordered among its tenant's by whole start, workload and device.

    Attributes:
        given: class that the lease's source states.
        spot: whether the configuration says that it is spot.
    """

    order: tuple[int, str, str]
    start: int
    end: int
    gpus: Fraction
    model: str | None
    given: str | None
    spot: bool


@dataclass(frozen=True)
class Reserved:
    """A reservation, as the sweep needs it."""

    id: str
    model: str
    gpus: int
    start: int
    end: int

    def takes(self, model: str | None) -> bool:
        """Return whether its glob matches a lease's model."""
        return glob_matches(self.model, model or "")


@dataclass(frozen=True)
class Outage:
    """GPUs of a tenant's reservations that are down."""

    start: int
    end: int
    gpus: Fraction
    model: str | None


@dataclass(frozen=True)
class Piece:
    """A part of a segment in one class; `reservation` where one covers it."""

    segment: int
    start: int
    end: int
    gpus: Fraction
    class_: Class
    reservation: str | None


@dataclass(frozen=True)
class ReservedStretch:
    """How much of a reservation was in use and how much was down over [start, end)."""

    reservation: str
    start: int
    end: int
    gpus: int
    used: Fraction
    down: Fraction


def classify(
    segments: Sequence[Segment],
    reservations: Sequence[Reserved],
    outages: Sequence[Outage],
    *,
    quota: int | None,
    cuts: Iterable[int],
    within: Interval,
) -> tuple[list[Piece], list[ReservedStretch]]:
    """Return the classes of one tenant's segments and the use of its reservations.

    Args:
        reservations: in file order.
        quota: GPUs beyond which use is overflow; None: none.
        cuts: times at which pieces and stretches must end (rates that change).
        within: the period; reservations count only there.
    """
    plain = quota is None and not reservations
    if plain:
        return [_plain_piece(n, s) for n, s in enumerate(segments)], []
    return _Sweep(segments, reservations, outages, quota, cuts, within).run()


def _plain_piece(number: int, segment: Segment) -> Piece:
    class_: Class = "spot" if segment.spot else "on_demand"
    given = next((c for c in CLASSES if c == segment.given), class_)
    return Piece(number, segment.start, segment.end, segment.gpus, given, None)


class _Sweep:
    """The sweep over one tenant's edges, in whole units of a GPU: the largest that all amounts are multiples of."""

    def __init__(
        self,
        segments: Sequence[Segment],
        reservations: Sequence[Reserved],
        outages: Sequence[Outage],
        quota: int | None,
        cuts: Iterable[int],
        within: Interval,
    ) -> None:
        self._segments, self._outages, self._within = segments, outages, within
        self._reservations = reservations
        self._unit = lcm(1, *{s.gpus.denominator for s in segments}, *{o.gpus.denominator for o in outages})
        self._gpus = [self._units(s.gpus) for s in segments]
        self._quota = None if quota is None else quota * self._unit
        self._cuts = frozenset(cuts)
        edges = {*within, *(x for s in segments for x in (s.start, s.end))}
        edges.update(x for r in reservations for x in (r.start, r.end))
        edges.update(x for o in outages for x in (o.start, o.end))
        edges.update(self._cuts)
        self._edges = sorted(e for e in edges if within[0] <= e <= within[1])
        self._takes = {(r.id, model): r.takes(model) for r in reservations for model in {s.model for s in segments}}
        self._pieces: list[Piece] = []
        self._stretches: list[ReservedStretch] = []
        # The last piece of each segment, class and reservation, and the last stretch of each reservation.
        self._last_piece: dict[tuple[int, Class, str | None], int] = {}
        self._last_stretch: dict[str, int] = {}
        self._fractions: dict[int, Fraction] = {}

    def _units(self, gpus: Fraction) -> int:
        return gpus.numerator * (self._unit // gpus.denominator)

    def _in_gpus(self, units: int) -> Fraction:
        if units not in self._fractions:
            self._fractions[units] = Fraction(units, self._unit)
        return self._fractions[units]

    def run(self) -> tuple[list[Piece], list[ReservedStretch]]:
        cuts = self._edges
        waiting = sorted(range(len(self._segments)), key=lambda n: self._segments[n].start, reverse=True)
        active: list[int] = []
        for start, end in pairwise(cuts):
            active = [n for n in active if self._segments[n].end > start]
            joined = False
            while waiting and self._segments[waiting[-1]].start <= start:
                active.append(waiting.pop())
                joined = True
            if joined:
                active.sort(key=lambda n: self._segments[n].order)
            self._instant(active, start, end)
        return self._pieces, self._stretches

    def _instant(self, active: list[int], start: int, end: int) -> None:
        live = [r for r in self._reservations if r.start <= start < r.end]
        left = {r.id: r.gpus * self._unit for r in live}
        rest: dict[int, int] = {}
        reserved = 0
        # What a source calls reserved is reserved before anything is computed to be.
        for wanted in ("reserved", None):
            for n in active:
                segment = self._segments[n]
                if segment.given != wanted or (wanted is None and segment.spot):
                    continue
                open_units = self._gpus[n]
                for r in live:
                    if open_units and left[r.id] and self._takes[r.id, segment.model]:
                        take = min(open_units, left[r.id])
                        left[r.id] -= take
                        open_units -= take
                        reserved += take
                        self._emit(n, start, end, take, "reserved", r.id)
                if open_units and wanted == "reserved":
                    reserved += open_units
                    self._emit(n, start, end, open_units, "reserved", None)
                else:
                    rest[n] = open_units
        quota_left = None if self._quota is None else self._quota - reserved
        for n in active:
            segment = self._segments[n]
            if segment.given == "spot" or (segment.given is None and segment.spot):
                self._emit(n, start, end, self._gpus[n], "spot", None)
            elif segment.given == "overflow":
                self._emit(n, start, end, self._gpus[n], "overflow", None)
            elif segment.given == "on_demand":
                self._emit(n, start, end, self._gpus[n], "on_demand", None)
                quota_left = None if quota_left is None else quota_left - self._gpus[n]
            elif rest.get(n):
                quota_left = self._unreserved(n, rest[n], live, quota_left, start, end)
        self._note_use(live, left, start, end)

    def _unreserved(
        self, n: int, units: int, live: list[Reserved], quota_left: int | None, start: int, end: int
    ) -> int | None:
        if quota_left is None:
            exceeds = any(self._takes[r.id, self._segments[n].model] for r in live)
            self._emit(n, start, end, units, "overflow" if exceeds else "on_demand", None)
            return None
        fits = min(units, max(quota_left, 0))
        self._emit(n, start, end, fits, "on_demand", None)
        self._emit(n, start, end, units - fits, "overflow", None)
        return quota_left - fits

    def _emit(self, n: int, start: int, end: int, units: int, class_: Class, reservation: str | None) -> None:
        if not units:
            return
        gpus = self._in_gpus(units)
        key = (n, class_, reservation)
        at = self._last_piece.get(key)
        before = None if at is None else self._pieces[at]
        # A segment lies between cuts already, so what goes on unchanged is one piece.
        if at is not None and before is not None and before.end == start and before.gpus is gpus:
            self._pieces[at] = Piece(n, before.start, end, gpus, class_, reservation)
            return
        self._last_piece[key] = len(self._pieces)
        self._pieces.append(Piece(n, start, end, gpus, class_, reservation))

    def _note_use(self, live: list[Reserved], left: dict[str, int], start: int, end: int) -> None:
        out = [(self._units(o.gpus), o.model) for o in self._outages if o.start <= start < o.end]
        for r in live:
            down = 0
            for i, (units, model) in enumerate(out):
                if model is None or r.takes(model) or model_matches(model, r.model.strip("*?")):
                    take = min(left[r.id] - down, units)
                    out[i] = (units - take, model)
                    down += take
            used = self._in_gpus(r.gpus * self._unit - left[r.id])
            self._note_stretch(ReservedStretch(r.id, start, end, r.gpus, used, self._in_gpus(down)))

    def _note_stretch(self, stretch: ReservedStretch) -> None:
        at = self._last_stretch.get(stretch.reservation)
        before = None if at is None else self._stretches[at]
        if (
            at is not None
            and before is not None
            and before.end == stretch.start
            and stretch.start not in self._cuts
            and (before.used, before.down) == (stretch.used, stretch.down)
        ):
            self._stretches[at] = ReservedStretch(
                before.reservation, before.start, stretch.end, before.gpus, before.used, before.down
            )
            return
        self._last_stretch[stretch.reservation] = len(self._stretches)
        self._stretches.append(stretch)
