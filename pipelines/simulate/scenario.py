"""What happens in the simulated fleet: exact intervals, from which samples and truth are both made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from pipelines.simulate.fleet import Fleet
from pipelines.simulate.terms import TIMEZONE, Terms

ZONE: Final = ZoneInfo(TIMEZONE)
DAY: Final = 86_400
MARGIN: Final = 2 * 3600
"""Seconds of samples before and after the billed period: its edges cut leases, as they do in life."""


@dataclass(frozen=True, slots=True)
class Window:
    """Times in UTC seconds.

    Args:
        start, end: the billed period.
        first, last: [first, last) holds the samples.
        grid: every edge of a lease is a multiple of it, and so is every sample.
        interval: seconds between samples.
        month: "2026-11" where the period is a local month, else None.
    """

    start: int
    end: int
    first: int
    last: int
    grid: int
    interval: int
    month: str | None

    def at(self, fraction: float) -> int:
        """The grid point at this fraction of the period."""
        return self.snap(self.start + fraction * (self.end - self.start))

    def snap(self, time: float) -> int:
        """The grid point before or at a time."""
        return int(time // self.grid) * self.grid

    @property
    def days(self) -> float:
        """Length of the period."""
        return (self.end - self.start) / DAY

    def local_months(self) -> list[tuple[int, int]]:
        """[start, end) of every local month that overlaps the period."""
        month = local(self.start).date().replace(day=1)
        months = []
        while (begin := _midnight(month)) < self.end:
            month = _next_month(month)
            months.append((begin, _midnight(month)))
        return months


@dataclass(frozen=True, slots=True)
class Lease:
    """A workload's hold on one unit, [start, end) in UTC seconds.

    Args:
        workload: ``namespace/pod``, or the Slurm job id.
        tenant: who pays; None: nobody that the terms know.
        label_start, label_end: when samples carry the workload's labels; equal: never.
        cut: from when the device was down under the lease: billing stops, labels don't.
        run: the run of the workload that the lease belongs to (a requeued job has several).
        rank: place among the run's units.
        behaviour: key of ``behaviours.BEHAVIOURS``.
        character: four numbers in [0, 1), the run's own.
    """

    unit: int
    start: int
    end: int
    workload: str
    tenant: str | None
    run: int
    rank: int
    ranks: int
    behaviour: str
    character: tuple[float, float, float, float]
    label_start: int
    label_end: int
    cut: int | None = None
    spot: bool = False
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    straggler: int | None = None  # the rank that lags

    @property
    def billed_end(self) -> int:
        """End of what is billed."""
        return self.end if self.cut is None else min(self.end, self.cut)


@dataclass(frozen=True, slots=True)
class Job:
    """One row of Slurm's accounting."""

    id: int
    name: str
    account: str
    user: str
    partition: str
    qos: str
    state: str
    submit: int
    start: int
    end: int
    nodes: tuple[int, ...]
    gpus: int
    gres: str | None  # None: a job without GPUs


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that went wrong, or was made to, over [start, end)."""

    kind: str  # outage | repair | driver_reload | throttle | flicker | xid | layout_change | node_joined | …
    start: int
    end: int
    node: int | None = None
    device: int | None = None
    workload: str | None = None
    tenant: str | None = None  # of a repair: whose reservation it hits
    code: int | None = None  # of an XID


@dataclass(frozen=True, slots=True)
class Scenario:
    """The whole story: the fleet, the terms, who held what, and what went wrong."""

    window: Window
    fleet: Fleet
    terms: Terms
    leases: tuple[Lease, ...]
    jobs: tuple[Job, ...]
    incidents: tuple[Incident, ...]
    seed: int

    def of_kind(self, kind: str) -> tuple[Incident, ...]:
        """Incidents of one kind, in order of their start."""
        return tuple(sorted((i for i in self.incidents if i.kind == kind), key=lambda i: (i.start, i.device or -1)))


def make_window(start: date, days: int, interval: int) -> Window:
    """The window of ``days`` local days from ``start``; the first whole local month in it, if any, is billed.

    Raises:
        ValueError: an interval that doesn't divide the hour or is longer than five minutes, or no days.
    """
    if days < 1:
        raise ValueError(f"days: {days} is not at least 1")
    if interval < 1 or 3600 % interval or interval > 300:
        raise ValueError(f"interval: {interval} s is not a divisor of the hour of at most 300 s")
    begin, end = _midnight(start), _midnight(start + timedelta(days=days))
    month = start if start.day == 1 else _next_month(start)
    month_start, month_end = _midnight(month), _midnight(_next_month(month))
    first, last = begin - MARGIN, end + MARGIN
    grid = 60
    while grid % interval:
        grid += 60
    if begin <= month_start and month_end <= end:
        return Window(month_start, month_end, first, last, grid, interval, f"{month:%Y-%m}")
    return Window(begin, end, first, last, grid, interval, None)


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=ZONE).timestamp())


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def local(time: int) -> datetime:
    """A time in UTC seconds as local wall time."""
    return datetime.fromtimestamp(time, ZONE)
