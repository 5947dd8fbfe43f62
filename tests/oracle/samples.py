"""From lines of text to what stood when: one value of one metric of one unit at one time, and who was named then.

A unit is a card (by UUID) or a MIG instance of one (UUID, instance id, profile). A series is (unit, metric) from one
source, whatever its other labels: a pod label that comes or goes starts no new series.

Readings
  S1. A series is (unit, metric, source). Rejected: one per full label set, in which a pod with two samples would
      reach 60 s whatever the scrape interval is.
  S2. A dropped sample has no value, but it stands in its series (the one before it ends there), and its labels and
      its device's presence count: blanks lower coverage, not the bill (B43). Rejected: it is gone altogether.
  S3. "Of two, the smaller": among the valid values of one full label set at one time that differ; a repeat of the
      same value is no finding. Values of several label sets (time slices, instances repeating a board's metric) of
      one unit at one time: the smaller, silently.
  S4. Labels and presence come from the kept samples only (and at their slot's time); what the first source covers is
      not looked at in the others.
  S5. Frozen: counter equal to the one before at five scrapes or more in a row (five repeats), the last at least three
      minutes after the value first stood, power above 0 wherever it is known there (and known once); judged per board
      on the merged series; every sample of the board from the first repeat to (not including) the next change loses
      its value and its observation (a frozen device without a lease is unobserved), its labels still name the owner,
      and the counter's increase then runs from the last good sample to the next good one. Rejected: four repeats; only
      the counter is dropped; the owner is lost too; a blank power sample ends the run.
  S6. Busy: engine at 0 and GPU_UTIL above 0 standing together without a break for an hour or more: GPU_UTIL over all
      of that stretch. Count one finding a stretch.
  S7. INT32 blanks are 2147483632…2147483647. Negative values of any catalogue metric are dropped.
  S8. 0 °C counts as invalid where the board has a power sample above 0 at that very time.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import TypeVar

from tests.oracle.merging import Intervals, Source, reaches, slots_of
from tests.oracle.reading import Line
from tests.oracle.settings import FOREVER, HOUR, Settings

MINUTE = 60_000
Key = TypeVar("Key", bound=Hashable)
LIMITS = {"ratio": Fraction(102, 100), "percent": Fraction(100), "celsius": Fraction(200), "watts": Fraction(3000)}
METRICS = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("engine", "ratio", Fraction(1)),
    "DCGM_FI_DEV_GPU_UTIL": ("util", "percent", Fraction(1, 100)),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": ("util", "percent", Fraction(1, 100)),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm", "ratio", Fraction(1)),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("occupancy", "ratio", Fraction(1)),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor", "ratio", Fraction(1)),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram", "ratio", Fraction(1)),
    "DCGM_FI_DEV_POWER_USAGE": ("power", "watts", Fraction(1)),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy", "count", Fraction(1, 1000)),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", "celsius", Fraction(1)),
    "DCGM_FI_DEV_MEMORY_TEMP": ("memory_temperature", "celsius", Fraction(1)),
    "DCGM_FI_DEV_FB_USED": ("fb_used", "count", Fraction(2**20)),
    "DCGM_FI_DEV_FB_FREE": ("fb_free", "count", Fraction(2**20)),
    "DCGM_FI_DEV_XID_ERRORS": ("xid", "count", Fraction(1)),
}
BOARD_METRICS = ("energy", "power")
HOST_LABELS = ("Hostname", "hostname", "node", "host")
UID_LABELS = ("pod_uid", "exported_pod_uid", "uid")
REPLICA_LABELS = ("prometheus_replica", "replica", "__replica__")

Unit = tuple[str, str, str]


@dataclass(frozen=True)
class Claim:
    """Who a sample names: a pod (with its UID where known) or a Slurm job."""

    cluster: str
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    job: str = ""

    @property
    def workload(self) -> str:
        return self.job or f"{self.namespace}/{self.pod}"


@dataclass
class Reading:
    """What one series says at one time: its value, the slices whose series say it, and whom each of them names."""

    value: Fraction | None
    slices: set[tuple[str, Claim | None]] = field(default_factory=set)
    observed: bool = True


@dataclass(frozen=True)
class Standing:
    """A sample over its reach [start, end)."""

    start: int
    end: int
    reading: Reading


class Series:
    """Samples of one metric of one unit in order of time, each with its reach."""

    def __init__(self, standing: list[Standing]) -> None:
        self.standing = standing
        self._starts = [s.start for s in standing]

    def at(self, when: int) -> Standing | None:
        index = bisect_right(self._starts, when) - 1
        return self.standing[index] if index >= 0 and when < self.standing[index].end else None

    def value(self, when: int) -> Fraction | None:
        found = self.at(when)
        return found.reading.value if found else None

    def values(self) -> list[tuple[int, int, Fraction]]:
        """The valid samples, each as (start, end, value)."""
        return [(s.start, s.end, s.reading.value) for s in self.standing if s.reading.value is not None]


@dataclass
class Scrape:
    """All that stands in a unit's samples of one time: whom they name, on which slices, until when they reach."""

    at: int
    end: int
    owners: dict[Claim, set[str]]
    owner_end: dict[Claim, int]
    slices: set[str]


@dataclass
class Observations:
    series: dict[Unit, dict[str, Series]] = field(default_factory=dict)
    boards: dict[str, dict[str, Series]] = field(default_factory=dict)
    scrapes: dict[Unit, list[Scrape]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    clusters: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def observe(lines: Iterable[Line], settings: Settings) -> Observations:
    """Validity, duplicates, the merging of sources, reach and freezing, in this order."""
    seen = Observations()
    raw, board_raw = _gather([line for line in lines if _uuid(line) and line.metric in METRICS], settings, seen)
    merged = _merged(raw, lambda key: (key[0][0], key[1]), settings)
    boards = _merged(board_raw, lambda key: key, settings)
    for uuid in {uuid for uuid, _ in boards}:
        for start, end in _frozen_spans(boards.get((uuid, "energy"), []), boards.get((uuid, "power"), [])):
            seen.counts["frozen_series"] += 1
            for key, standing in [*merged.items(), *boards.items()]:
                if (key[0][0] if isinstance(key[0], tuple) else key[0]) == uuid:
                    for one in standing:
                        if start <= one.start < end:
                            one.reading.value, one.reading.observed = None, False
    for (unit, metric), standing in merged.items():
        seen.series.setdefault(unit, {})[metric] = Series(standing)
    for (uuid, metric), standing in boards.items():
        seen.boards.setdefault(uuid, {})[metric] = Series(standing)
    for unit, by_metric in seen.series.items():
        seen.scrapes[unit] = _scrapes(by_metric.values())
        seen.counts["gap"] += _holes(seen.scrapes[unit])
    return seen


def busy_stretches(by_metric: dict[str, Series]) -> list[tuple[int, int]]:
    """Where the engine reads 0 while GPU_UTIL is above 0, for an hour or more without a break."""
    if "engine" not in by_metric or "util" not in by_metric:
        return []
    engine, util = by_metric["engine"], by_metric["util"]
    edges = sorted({edge for series in (engine, util) for s in series.standing for edge in (s.start, s.end)})
    stretches: list[tuple[int, int]] = []
    for start, end in itertools.pairwise(edges):
        if engine.value(start) == 0 and (util.value(start) or 0) > 0:
            if stretches and stretches[-1][1] == start:
                stretches[-1] = (stretches[-1][0], end)
            else:
                stretches.append((start, end))
    return [(start, end) for start, end in stretches if end - start >= HOUR]


def busy(by_metric: dict[str, Series], contradicted: list[tuple[int, int]], when: int) -> Fraction | None:
    """The busy ratio of a unit at an instant; None where no valid sample stands."""
    engine = by_metric["engine"].value(when) if "engine" in by_metric else None
    util = by_metric["util"].value(when) if "util" in by_metric else None
    if engine is None or any(start <= when < end for start, end in contradicted):
        return util
    return engine


def observed(by_metric: dict[str, Series], when: int) -> bool:
    """Whether any sample of the unit that isn't frozen stands at an instant."""
    return any((s := series.at(when)) is not None and s.reading.observed for series in by_metric.values())


def _uuid(line: Line) -> str:
    return line.labels.get("UUID") or line.labels.get("uuid") or ""


def _gather(
    lines: list[Line], settings: Settings, seen: Observations
) -> tuple[
    dict[tuple[Unit, str], dict[Source, dict[int, Reading]]], dict[tuple[str, str], dict[Source, dict[int, Reading]]]
]:
    powered = {
        (_uuid(line), line.at)
        for line in lines
        if METRICS[line.metric][0] == "power" and _valid(line, set()) and (line.value or 0) > 0
    }
    values: dict[tuple[str, str, frozenset[tuple[str, str]], int], set[Fraction]] = defaultdict(set)
    first: dict[tuple[str, str, frozenset[tuple[str, str]], int], Line] = {}
    for line in lines:
        key = (line.cluster, line.metric, frozenset(line.labels.items()), line.at)
        first.setdefault(key, line)
        if _valid(line, powered):
            assert line.value is not None
            values[key].add(min(line.value, Fraction(1)) if METRICS[line.metric][1] == "ratio" else line.value)
        else:
            seen.counts["invalid_sample"] += 1
    units: dict[tuple[Unit, str], dict[Source, dict[int, Reading]]] = defaultdict(lambda: defaultdict(dict))
    boards: dict[tuple[str, str], dict[Source, dict[int, Reading]]] = defaultdict(lambda: defaultdict(dict))
    for key, line in first.items():
        seen.counts["duplicate_sample"] += max(0, len(values[key]) - 1)
        name, _, scale = METRICS[line.metric]
        uuid, labels = _uuid(line), line.labels
        value = min(values[key]) * scale if values[key] else None
        host = next((labels[k] for k in HOST_LABELS if labels.get(k)), "")
        replica = next((labels[k] for k in REPLICA_LABELS if labels.get(k)), "")
        source = (replica, labels.get("job", ""), host)
        unit = (uuid, labels.get("GPU_I_ID", ""), labels.get("GPU_I_PROFILE", ""))
        claim, piece = _claim(line, settings), labels.get("vgpu", "")
        _note(units[unit, name][source], line.at, value, piece, claim)
        if name in BOARD_METRICS:
            _note(boards[uuid, name][source], line.at, value, "", None)
        if model := labels.get("modelName") or labels.get("model"):
            seen.models[uuid] = model
        if host:
            seen.hosts[uuid].add(host)
        seen.clusters.setdefault(uuid, line.cluster)
    return units, boards


def _note(readings: dict[int, Reading], at: int, value: Fraction | None, piece: str, claim: Claim | None) -> None:
    reading = readings.setdefault(at, Reading(value))
    if value is not None and (reading.value is None or value < reading.value):
        reading.value = value
    if piece or claim:
        reading.slices.add((piece, claim))


def _claim(line: Line, settings: Settings) -> Claim | None:
    labels = line.labels
    if labels.get("hpc_job"):
        return Claim(line.cluster, job=labels["hpc_job"])
    prefix = "exported_" if labels.get("exported_pod") else ""
    pod = labels.get(f"{prefix}pod", "")
    if not pod or any(fnmatchcase(pod, glob) for glob in settings.exporter_pods):
        return None
    uid = next((labels[k] for k in UID_LABELS if labels.get(k)), "")
    return Claim(line.cluster, labels.get(f"{prefix}namespace", ""), pod, uid)


def _valid(line: Line, powered: set[tuple[str, int]]) -> bool:
    value, kind = line.value, METRICS[line.metric][1]
    if value is None or value < 0:
        return False
    if 2147483632 <= value <= 2147483647 or value >= Fraction(92, 10) * 10**18:
        return False
    if value in {140737488355328 + extra for extra in range(4)}:
        return False
    if kind == "celsius" and value == 0 and (_uuid(line), line.at) in powered:
        return False
    return kind not in LIMITS or value <= LIMITS[kind]


def _merged(
    series: dict[Key, dict[Source, dict[int, Reading]]], card_of: Callable[[Key], tuple[str, str]], settings: Settings
) -> dict[Key, list[Standing]]:
    """Each series out of its sources: the first by name, its holes filled by the next ones."""
    times: dict[tuple[str, str], dict[Source, set[int]]] = defaultdict(lambda: defaultdict(set))
    for key, sources in series.items():
        for source, readings in sources.items():
            times[card_of(key)][source] |= set(readings)
    slots = {card: slots_of(by_source, settings.scrape_interval) for card, by_source in times.items()}
    merged = {}
    for key, sources in series.items():
        kept: dict[int, Reading] = {}
        for source in sorted(sources):
            for at in sorted(sources[source]):
                slot = slots[card_of(key)][source].get(at)
                if slot is not None:
                    kept.setdefault(slot, sources[source][at])
        own_times = [sorted(sources[source]) for source in sorted(sources)]
        ends = reaches(sorted(kept), Intervals(own_times, settings.scrape_interval))
        merged[key] = [Standing(at, end, kept[at]) for at, end in ends if at in kept]
    return merged


def _frozen_spans(energy: list[Standing], power: list[Standing]) -> list[tuple[int, int]]:
    watts = Series(power)
    counter = [(s.start, s.reading.value) for s in energy if s.reading.value is not None]
    spans, index, moved = [], 0, False
    while index < len(counter):
        last = index
        while last + 1 < len(counter) and counter[last + 1][1] == counter[index][1]:
            last += 1
        repeats = counter[index + 1 : last + 1]
        known = {watts.value(at) for at, _ in repeats} - {None}
        powered = bool(known) and 0 not in known
        if moved and len(repeats) >= 5 and repeats[-1][0] - counter[index][0] >= 3 * MINUTE and powered:
            spans.append((repeats[0][0], counter[last + 1][0] if last + 1 < len(counter) else FOREVER))
        index, moved = last + 1, True
    return spans


def _scrapes(all_series: Iterable[Series]) -> list[Scrape]:
    scrapes: dict[int, Scrape] = {}
    for series in all_series:
        for one in series.standing:
            scrape = scrapes.setdefault(one.start, Scrape(one.start, one.end, {}, {}, set()))
            scrape.end = max(scrape.end, one.end)
            for piece, claim in one.reading.slices:
                if claim:
                    scrape.owners.setdefault(claim, set()).add(piece)
                    scrape.owner_end[claim] = max(scrape.owner_end.get(claim, one.end), one.end)
                elif piece:
                    scrape.slices.add(piece)
    for scrape in scrapes.values():
        _join_names(scrape)
        for claim, pieces in scrape.owners.items():
            # Without slice labels an owner stands for one slice of its own.
            scrape.owners[claim] = (pieces - {""}) or {f"slice of {claim}"}
            scrape.slices |= scrape.owners[claim]
    return [scrapes[at] for at in sorted(scrapes)]


def _join_names(scrape: Scrape) -> None:
    """In one scrape a pod named with and without its UID is one owner."""
    for claim in [c for c in scrape.owners if c.pod and not c.uid]:
        named = [c for c in scrape.owners if c.uid and (c.cluster, c.workload) == (claim.cluster, claim.workload)]
        if named:
            scrape.owners[named[0]] |= scrape.owners.pop(claim)
            scrape.owner_end[named[0]] = max(scrape.owner_end[named[0]], scrape.owner_end.pop(claim))


def _holes(scrapes: list[Scrape]) -> int:
    reach, holes = scrapes[0].end, 0
    for scrape in scrapes:
        holes += scrape.at > reach
        reach = max(reach, scrape.end)
    return holes
