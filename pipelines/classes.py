"""Which class a tenant's GPUs are, instant by instant: reserved, on demand, overflow or spot.

The rules stand in docs/numbers.md, "Money". Everything is exact: GPUs are fractions, times are ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Final, Literal, NamedTuple

from pipelines.intervals import Interval
from pipelines.models import model_matches
from pipelines.selectors import glob_matches

Class = Literal["reserved", "on_demand", "overflow", "spot"]
CLASSES: Final[tuple[Class, ...]] = ("reserved", "on_demand", "overflow", "spot")


class Segment(NamedTuple):
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


class Piece(NamedTuple):
    """A part of a segment in one class; `reservation` where one covers it."""

    segment: int
    start: int
    end: int
    gpus: Fraction
    class_: Class
    reservation: str | None


class ReservedStretch(NamedTuple):
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


@dataclass(slots=True)
class _OpenPiece:
    """A piece in the making, in units."""

    segment: int
    start: int
    end: int
    units: int
    class_: Class
    reservation: str | None


@dataclass(slots=True)
class _OpenStretch:
    """A stretch in the making, in units."""

    reservation: Reserved
    start: int
    end: int
    used: int
    down: int


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
        takers = {m: frozenset(r.id for r in reservations if r.takes(m)) for m in {s.model for s in segments}}
        self._takers = [takers[s.model] for s in segments]
        self._given = ["spot" if s.given is None and s.spot else s.given for s in segments]
        # Pieces and stretches in the making: a sweep makes each longer many times, and a record of it once.
        self._pieces: list[_OpenPiece] = []
        self._stretches: list[_OpenStretch] = []
        # The last piece of each segment, class and reservation, and the last stretch of each reservation.
        self._last_piece: dict[tuple[int, Class, str | None], _OpenPiece] = {}
        self._last_stretch: dict[str, _OpenStretch] = {}
        self._fractions: dict[int, Fraction] = {}

    def _units(self, gpus: Fraction) -> int:
        return gpus.numerator * (self._unit // gpus.denominator)

    def _in_gpus(self, units: int) -> Fraction:
        if units not in self._fractions:
            self._fractions[units] = Fraction(units, self._unit)
        return self._fractions[units]

    def run(self) -> tuple[list[Piece], list[ReservedStretch]]:
        segments = self._segments
        waiting = sorted(range(len(segments)), key=lambda n: segments[n].start, reverse=True)
        joining = list(reversed(waiting))
        rank = {n: at for at, n in enumerate(sorted(joining, key=lambda n: segments[n].order))}
        starts, ends = [s.start for s in segments], [s.end for s in segments]
        active: list[int] = []
        fitted = False
        for start, end in pairwise(self._edges):
            active = [n for n in active if ends[n] > start]
            joined: list[int] = []
            while waiting and starts[waiting[-1]] <= start:
                joined.append(waiting.pop())
            if joined:
                joined.sort(key=rank.__getitem__)
                active.extend(joined)
                active.sort(key=rank.__getitem__)
            fits = self._fit(active)
            if fits:
                # Until that changes, each is on demand to its own end.
                for n in joined if fitted else active:
                    self._emit(n, start, min(ends[n], self._edges[-1]), self._gpus[n], "on_demand", None)
            else:
                if fitted:
                    self._cut_short(active, start)
                self._instant(active, start, end)
            fitted = fits
        gpus = self._in_gpus
        pieces = [Piece(p.segment, p.start, p.end, gpus(p.units), p.class_, p.reservation) for p in self._pieces]
        stretches = [
            ReservedStretch(s.reservation.id, s.start, s.end, s.reservation.gpus, gpus(s.used), gpus(s.down))
            for s in self._stretches
        ]
        return pieces, stretches

    def _fit(self, active: list[int]) -> bool:
        """Return whether there is but a quota, and all of it fits."""
        if self._quota is None or self._reservations:
            return False
        units = 0
        for n in active:
            if self._given[n] is not None:
                return False
            units += self._gpus[n]
        return units <= self._quota

    def _cut_short(self, active: list[int], end: int) -> None:
        for n in active:
            piece = self._last_piece.get((n, "on_demand", None))
            if piece is not None:
                piece.end = min(piece.end, end)

    def _instant(self, active: list[int], start: int, end: int) -> None:
        live = [r for r in self._reservations if r.start <= start < r.end]
        left = {r.id: r.gpus * self._unit for r in live}
        reserved = 0
        # What a source calls reserved is reserved before anything is computed to be.
        for n in active:
            if self._given[n] == "reserved":
                reserved += self._gpus[n]
                self._emit(n, start, end, self._reserve(n, live, left, start, end), "reserved", None)
        rest: dict[int, int] = {}
        for n in active:
            if self._given[n] is None:
                rest[n] = self._reserve(n, live, left, start, end)
                reserved += self._gpus[n] - rest[n]
        quota_left = None if self._quota is None else self._quota - reserved
        for n in active:
            given = self._given[n]
            if given is None:
                quota_left = self._unreserved(n, rest[n], live, quota_left, start, end)
            elif given == "on_demand":
                self._emit(n, start, end, self._gpus[n], "on_demand", None)
                quota_left = None if quota_left is None else quota_left - self._gpus[n]
            elif given == "spot":
                self._emit(n, start, end, self._gpus[n], "spot", None)
            elif given == "overflow":
                self._emit(n, start, end, self._gpus[n], "overflow", None)
        self._note_use(live, left, start, end)

    def _reserve(self, n: int, live: list[Reserved], left: dict[str, int], start: int, end: int) -> int:
        """Take what is left of the reservations for a segment; return what of it stays open."""
        units = self._gpus[n]
        for r in live:
            if units and left[r.id] and r.id in self._takers[n]:
                take = min(units, left[r.id])
                left[r.id] -= take
                units -= take
                self._emit(n, start, end, take, "reserved", r.id)
        return units

    def _unreserved(
        self, n: int, units: int, live: list[Reserved], quota_left: int | None, start: int, end: int
    ) -> int | None:
        if quota_left is None:
            exceeds = any(r.id in self._takers[n] for r in live)
            self._emit(n, start, end, units, "overflow" if exceeds else "on_demand", None)
            return None
        fits = min(units, max(quota_left, 0))
        self._emit(n, start, end, fits, "on_demand", None)
        self._emit(n, start, end, units - fits, "overflow", None)
        return quota_left - fits

    def _emit(self, n: int, start: int, end: int, units: int, class_: Class, reservation: str | None) -> None:
        if not units:
            return
        key = (n, class_, reservation)
        before = self._last_piece.get(key)
        # A segment lies between cuts already, so what goes on unchanged is one piece.
        if before is not None and before.end == start and before.units == units:
            before.end = end
            return
        self._last_piece[key] = piece = _OpenPiece(n, start, end, units, class_, reservation)
        self._pieces.append(piece)

    def _note_use(self, live: list[Reserved], left: dict[str, int], start: int, end: int) -> None:
        out = [(self._units(o.gpus), o.model) for o in self._outages if o.start <= start < o.end]
        for r in live:
            down = 0
            for i, (units, model) in enumerate(out):
                if model is None or r.takes(model) or model_matches(model, r.model.strip("*?")):
                    take = min(left[r.id] - down, units)
                    out[i] = (units - take, model)
                    down += take
            self._note_stretch(r, start, end, r.gpus * self._unit - left[r.id], down)

    def _note_stretch(self, reservation: Reserved, start: int, end: int, used: int, down: int) -> None:
        before = self._last_stretch.get(reservation.id)
        same = before is not None and before.end == start and (before.used, before.down) == (used, down)
        if before is not None and same and start not in self._cuts:
            before.end = end
            return
        self._last_stretch[reservation.id] = stretch = _OpenStretch(reservation, start, end, used, down)
        self._stretches.append(stretch)
