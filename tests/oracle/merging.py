"""How long a sample stands, and which samples of several sources count.

Readings
  G1. The interval of a series on a UTC day is the median of the spacings within that day, of all its distinct times,
      those of dropped samples included. Rejected: valid samples only.
  G2. With several sources it is that of the first one with three samples that day, for the merged series too.
      Rejected: the median of the merged series.
  G3. A source is (replica, job, host name), compared in this order. Rejected: other orders.
  G4. The first source by name counts, and has its holes, metric by metric, over all units of a card together (so that
      the instances of one scrape move to one slot). Rejected: one source for all metrics of a card, which loses what
      only the second one has; unit by unit, which tears scrapes apart.
  G5. A hole is whatever the sources before don't reach, before their first and after their last sample too; slots
      are whole intervals counted from the sample before the hole (or back from the first one). Of two samples that
      fall in one slot the first is kept. Rejected: holes only between samples.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from tests.oracle.settings import FOREVER, HOUR

DAY = 24 * HOUR
DEFAULT = Fraction(60_000)

Source = tuple[str, str, str]


class Intervals:
    """A series' interval in milliseconds at any time; `times` are each source's own, in order of the sources."""

    def __init__(self, times: list[list[int]], configured: int | None) -> None:
        self.configured = configured
        self.by_day: dict[int, Fraction] = {}
        for own in times:
            for day, found in itertools.groupby(own, key=lambda at: at // DAY):
                inferred = _median_spacing(list(found))
                if inferred is not None:
                    self.by_day.setdefault(day, inferred)

    def at(self, when: int) -> int:
        if self.configured is not None:
            return self.configured
        return round(self.by_day.get(when // DAY, DEFAULT))


def reaches(times: list[int], intervals: Intervals) -> list[tuple[int, int]]:
    """Each sample with the end of its reach: the next sample if that comes within 1.5 intervals, else one interval."""
    found = []
    for at, following in itertools.pairwise([*times, FOREVER]):
        step = intervals.at(at)
        found.append((at, following if 2 * (following - at) <= 3 * step else at + step))
    return found


def slots_of(times: Mapping[Source, set[int]], configured: int | None) -> dict[Source, dict[int, int]]:
    """For each source, which of its times count, and as what time: the first's own, the next ones' in its holes."""
    intervals = Intervals([sorted(times[source]) for source in sorted(times)], configured)
    counted: dict[Source, dict[int, int]] = defaultdict(dict)
    kept: set[int] = set()
    for source in sorted(times):
        before = reaches(sorted(kept), intervals)
        starts = [at for at, _ in before]
        for at in sorted(times[source]):
            slot = at
            if before:
                index = bisect_right(starts, at) - 1
                if index >= 0 and at < before[index][1]:
                    continue
                origin = starts[max(index, 0)]
                step = intervals.at(origin)
                slot = origin + (at - origin) // step * step
            counted[source][at] = slot
            kept.add(slot)
    return counted


def _median_spacing(times: list[int]) -> Fraction | None:
    if len(times) < 3:
        return None
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    middle = len(gaps) // 2
    return Fraction(gaps[middle]) if len(gaps) % 2 else Fraction(gaps[middle - 1] + gaps[middle], 2)
