"""The scenario as a GPU exporter sees it: the wide sample table, one day of some boards at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.simulate.behaviours import BEHAVIOURS, Floats, Moments
from pipelines.simulate.board import Boards, Load, Readings
from pipelines.simulate.labels import Labels
from pipelines.simulate.scenario import DAY, Scenario, local
from pipelines.simulate.truth import Evidence
from pipelines.tables import SAMPLE_LABELS, TIME

Ints = NDArray[np.int64]

METRICS: Final = (
    "engine_active_ratio",
    "gpu_util_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_total_bytes",
    "power_watts",
    "energy_joules_total",
    "temperature_celsius",
    "memory_temperature_celsius",
    "sm_clock_hertz",
    "pcie_receive_bytes_per_second",
    "pcie_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "throttle_reasons_bitmask",
    "xid_last_code",
)
"""Keys of the catalogue that the simulated exporter exposes."""

_PROFILING: Final = tuple(
    key
    for key in METRICS
    if key.startswith(("engine", "sm_active", "sm_occ", "tensor", "dram", "memory_temp", "pcie", "nvlink"))
)

SCHEMA: Final[dict[str, pl.DataType]] = {**SAMPLE_LABELS, **{key: pl.Float64() for key in METRICS}}

_BOARDS_AT_ONCE: Final = 128
_MIB: Final = 1 << 20
_ACTIVITY: Final = ("engine", "sm", "tensor", "dram", "memory", "receive", "transmit", "link", "clock")
_IMPOSSIBLE_UTILISATION: Final = 8_083_349.05  # what some driver versions answer now and then


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Boards ``rows``, their units ``units``, at ``times``."""

    rows: slice
    units: slice
    times: Ints


class Signals:
    """Makes the samples of a scenario, and adds up on the way what they say.

    Args:
        evidence: receives the sums over the billed period.
    """

    def __init__(self, scenario: Scenario, evidence: Evidence) -> None:
        self._scenario, self._evidence = scenario, evidence
        fleet = scenario.fleet
        self._labels = Labels(scenario)
        self._boards = Boards(scenario, np.random.default_rng([scenario.seed, 10]))
        self._board_of = np.array([unit.device for unit in fleet.units])
        self._profiled = np.array([device.card.profiling for device in fleet.devices])
        self._in_mig = np.zeros(len(fleet.devices), dtype=np.bool_)
        for unit in fleet.units:
            self._in_mig[unit.device] |= unit.instance is not None
        self._compute = np.array([float(unit.instance.compute) if unit.instance else 1.0 for unit in fleet.units])
        self._share = np.array([float(unit.share) for unit in fleet.units])
        self._slot = np.array([-1 if unit.slot is None else unit.slot for unit in fleet.units])
        cards = [fleet.devices[unit.device].card for unit in fleet.units]
        parts = [float(unit.instance.memory) if unit.instance else 1.0 for unit in fleet.units]
        self._memory_mib = np.array([round(c.memory_mib * p) for c, p in zip(cards, parts, strict=True)])
        self._reserved_mib = np.array([round(c.reserved_mib * p) for c, p in zip(cards, parts, strict=True)])
        self._pcie = np.array([device.card.pcie_bytes_per_second for device in fleet.devices])
        self._nvlink = np.array([device.card.nvlink_bytes_per_second for device in fleet.devices])

        leases = scenario.leases
        keys = list(BEHAVIOURS)
        self._lease_unit = np.array([lease.unit for lease in leases], dtype=np.int64)
        self._start = np.array([lease.start for lease in leases], dtype=np.int64)
        self._end = np.array([lease.end for lease in leases], dtype=np.int64)
        self._billed_end = np.array([lease.billed_end for lease in leases], dtype=np.int64)
        self._label_start = np.array([lease.label_start for lease in leases], dtype=np.int64)
        self._label_end = np.array([lease.label_end for lease in leases], dtype=np.int64)
        self._behaviour = np.array([keys.index(lease.behaviour) for lease in leases], dtype=np.int64)
        self._character = np.array([lease.character for lease in leases]).reshape(-1, 4)
        self._ranks = np.array([lease.ranks for lease in leases], dtype=np.float64)
        self._lags = np.array([lease.straggler == lease.rank for lease in leases], dtype=np.bool_)
        self._known = np.array([self._is_known(place) for place in range(len(leases))], dtype=np.bool_)

    def days(self) -> Iterator[Iterator[pl.DataFrame]]:
        """For each 24 hours, tables with the columns of `SCHEMA`; each sorted by device, then time."""
        window = self._scenario.window
        for start in range(window.first, window.last, DAY):
            times = np.arange(start, min(start + DAY, window.last), window.interval, dtype=np.int64)
            yield self._day(times)

    @property
    def day_count(self) -> int:
        """How many 24 hours `days` yields."""
        window = self._scenario.window
        return -(-(window.last - window.first) // DAY)

    def _day(self, times: Ints) -> Iterator[pl.DataFrame]:
        count = len(self._scenario.fleet.devices)
        for first in range(0, count, _BOARDS_AT_ONCE):
            rows = slice(first, min(first + _BOARDS_AT_ONCE, count))
            units = slice(*np.searchsorted(self._board_of, (rows.start, rows.stop)).tolist())
            rng = np.random.default_rng([self._scenario.seed, 11, int(times[0]), first])
            yield self._table(_Chunk(rows, units, times), rng)

    def _is_known(self, place: int) -> bool:
        """Whether samples can be said to be of the lease: by its labels, or since it has the whole node."""
        lease, fleet = self._scenario.leases[place], self._scenario.fleet
        node = fleet.nodes[fleet.devices[fleet.units[lease.unit].device].node]
        return lease.label_start < lease.label_end or lease.ranks == len(node.devices)

    def _table(self, chunk: _Chunk, rng: np.random.Generator) -> pl.DataFrame:
        leases = self._fill(chunk, self._start, self._end)
        owners = self._fill(chunk, self._label_start, self._label_end)
        self._flicker(chunk, owners)
        activity = self._activity(chunk, leases, rng)
        load = self._load(chunk, leases, activity)
        noise = rng.standard_normal(load.engine.shape)
        readings = self._boards.read(chunk.rows, chunk.times, load, noise)
        for name in ("tensor", "dram"):  # a throttled card gets less done while it looks as busy
            activity[name] = activity[name] * readings.slowdown[self._board_of[chunk.units] - chunk.rows.start]
        shown = self._shown(chunk, owners)
        unit_at, time_at = np.nonzero(shown)
        columns = self._columns(chunk, activity, load, readings, (unit_at, time_at), rng)
        self._testify(chunk, leases, (unit_at, time_at), columns, (activity["engine"], readings))
        units = unit_at + chunk.units.start
        labels = self._labels.frame(units, owners[unit_at, time_at])
        time = pl.Series("time", chunk.times[time_at] * 1000).cast(TIME)
        metrics = self._frame(columns, self._board_of[units])
        return pl.concat([labels.with_columns(time), metrics], how="horizontal").select(list(SCHEMA))

    def _fill(self, chunk: _Chunk, starts: Ints, ends: Ints) -> Ints:
        """By unit and time the place of the lease with starts <= time < ends; -1: none; of two, the later."""
        times, interval = chunk.times, self._scenario.window.interval
        filled = np.full((chunk.units.stop - chunk.units.start, len(times)), -1, dtype=np.int64)
        here = (self._lease_unit >= chunk.units.start) & (self._lease_unit < chunk.units.stop)
        here &= (starts < times[-1] + interval) & (ends > times[0])
        for place in np.nonzero(here)[0]:
            first = max(0, int((starts[place] - times[0]) // interval))
            last = int((ends[place] - times[0]) // interval)
            filled[self._lease_unit[place] - chunk.units.start, first:last] = place
        return filled

    def _flicker(self, chunk: _Chunk, owners: Ints) -> None:
        for incident in self._scenario.of_kind("flicker"):
            if incident.device is not None and chunk.rows.start <= incident.device < chunk.rows.stop:
                missing = (chunk.times >= incident.start) & (chunk.times < incident.end)
                owners[np.ix_(self._board_of[chunk.units] == incident.device, missing)] = -1

    def _activity(self, chunk: _Chunk, leases: Ints, rng: np.random.Generator) -> dict[str, Floats]:
        flat = leases.ravel()
        times = np.broadcast_to(chunk.times, leases.shape).ravel()
        hour = ((times + _utc_offset(int(chunk.times[0]))) / 3600) % 24
        noise = rng.standard_normal((flat.size, 3))
        activity = {name: np.zeros(flat.size) for name in _ACTIVITY}
        activity["clock"][:] = 1.0
        behaviour = np.where(flat >= 0, self._behaviour[flat] if len(self._behaviour) else -1, -1)
        for place, run in enumerate(BEHAVIOURS.values()):
            at = np.nonzero(behaviour == place)[0]
            if not at.size:
                continue
            who = flat[at]
            moments = Moments(
                age=(times[at] - self._start[who]).astype(np.float64),
                hour=hour[at],
                character=self._character[who],
                ranks=self._ranks[who],
                lags=self._lags[who],
                noise=noise[at],
            )
            made = run(moments)
            for name in _ACTIVITY:
                activity[name][at] = getattr(made, name)
        return {name: values.reshape(leases.shape) for name, values in activity.items()}

    def _load(self, chunk: _Chunk, leases: Ints, activity: dict[str, Floats]) -> Load:
        """What the units do together, as parts of their boards; slices take turns, so they add up to 1 at most."""
        first = np.searchsorted(self._board_of[chunk.units], np.arange(chunk.rows.start, chunk.rows.stop))
        compute = self._compute[chunk.units, None]

        def together(name: str, parts: Floats = compute) -> Floats:
            return np.minimum(np.add.reduceat(activity[name] * parts, first, axis=0), 1.0)

        return Load(
            engine=together("engine"),
            sm=together("sm"),
            tensor=together("tensor"),
            dram=together("dram"),
            memory=together("memory", self._share[chunk.units, None]),
            clock=np.minimum.reduceat(activity["clock"], first, axis=0),
            held=np.maximum.reduceat(leases >= 0, first, axis=0),
        )

    def _shown(self, chunk: _Chunk, owners: Ints) -> NDArray[np.bool_]:
        """Which units have a sample at which times."""
        scenario, times = self._scenario, chunk.times
        fleet = scenario.fleet
        shown = np.ones(owners.shape, dtype=np.bool_)
        boards = self._board_of[chunk.units]
        for row, unit in enumerate(fleet.units[chunk.units]):
            joined = fleet.nodes[fleet.devices[unit.device].node].joined
            for start in (joined, unit.start):
                if start is not None:
                    shown[row] &= times >= start
            if unit.end is not None:
                shown[row] &= times < unit.end
        for outage in scenario.of_kind("outage"):
            on_node = np.array([fleet.devices[board].node == outage.node for board in boards])
            shown[np.ix_(on_node, (times >= outage.start) & (times < outage.end))] = False
        for repair in scenario.of_kind("repair"):
            lingering = [lease.end for lease in scenario.leases if lease.cut == repair.start]
            silent = max([repair.start, *lingering])
            shown[np.ix_(boards == repair.device, (times >= silent) & (times < repair.end))] = False
        # Of a shared card, held slices are shown; where none is, the card is.
        sliced = self._slot[chunk.units] >= 0
        if sliced.any():
            slots = int(self._slot.max()) + 1
            held = (owners[sliced] >= 0).reshape(-1, slots, len(times))
            visible = held.copy()
            visible[:, 0] |= ~held.any(axis=1)
            shown[sliced] &= visible.reshape(-1, len(times))
        return shown

    def _columns(
        self,
        chunk: _Chunk,
        activity: dict[str, Floats],
        load: Load,
        readings: Readings,
        at: tuple[Ints, Ints],
        rng: np.random.Generator,
    ) -> dict[str, Floats]:
        """Metric columns of the rows ``at`` (units, times), rounded as DCGM prints them."""
        unit_at, time_at = at
        units = unit_at + chunk.units.start
        boards = self._board_of[units]
        board_at = boards - chunk.rows.start

        def of_unit(name: str) -> Floats:
            found: Floats = activity[name][unit_at, time_at]
            return found

        def of_board(values: Floats) -> Floats:
            found: Floats = values[board_at, time_at]
            return found

        # Every slice of a shared card repeats the whole card's values.
        sliced = self._slot[units] >= 0
        busy = np.where(sliced, of_board(load.engine), of_unit("engine"))
        memory = np.where(sliced, of_board(load.memory), of_unit("memory"))
        # GPU_UTIL counts the time in which any kernel ran: a little more than the engine's own ratio.
        util = np.where(busy > 0, np.clip(np.round(busy * 1.02, 2), 0.01, 1.0), 0.0)
        total, reserved = self._memory_mib[units], self._reserved_mib[units]
        used = np.minimum(np.rint(memory * (total - reserved)), total - reserved)
        link = np.rint(of_unit("link") * self._nvlink[boards])
        columns = {
            "engine_active_ratio": np.round(busy, 6),
            "gpu_util_ratio": util,
            "sm_active_ratio": np.round(of_unit("sm"), 6),
            "sm_occupancy_ratio": np.round(of_unit("sm") * 0.46, 6),
            "tensor_active_ratio": np.round(of_unit("tensor"), 6),
            "dram_active_ratio": np.round(of_unit("dram"), 6),
            "memory_used_bytes": used * _MIB,
            "memory_free_bytes": (total - reserved - used) * _MIB,
            "memory_total_bytes": total.astype(np.float64) * _MIB,
            "power_watts": of_board(readings.power_watts),
            "energy_joules_total": of_board(readings.energy_joules_total),
            "temperature_celsius": of_board(readings.temperature_celsius),
            "memory_temperature_celsius": of_board(readings.temperature_celsius) + np.rint(4 + 9 * of_unit("dram")),
            "sm_clock_hertz": of_board(readings.sm_clock_hertz),
            "pcie_receive_bytes_per_second": np.rint(of_unit("receive") * self._pcie[boards]),
            "pcie_transmit_bytes_per_second": np.rint(of_unit("transmit") * self._pcie[boards]),
            "nvlink_receive_bytes_per_second": link,
            "nvlink_transmit_bytes_per_second": link,
            "throttle_reasons_bitmask": of_board(readings.throttle_reasons),
            "xid_last_code": self._xids(boards, chunk.times[time_at]),
        }
        return self._misread(columns, self._profiled[boards] & ~self._in_mig[boards], rng)

    @staticmethod
    def _misread(columns: dict[str, Floats], where: NDArray[np.bool_], rng: np.random.Generator) -> dict[str, Floats]:
        """Twice a day a driver answers nonsense: an impossible utilisation, a blank temperature."""
        rows = np.nonzero(where)[0]
        if rows.size:
            impossible, blank = rng.integers(rows.size, size=2)
            columns["gpu_util_ratio"][rows[impossible]] = _IMPOSSIBLE_UTILISATION
            columns["memory_temperature_celsius"][rows[blank]] = np.nan
        return columns

    def _xids(self, boards: Ints, times: Ints) -> Floats:
        """The last XID of each row: it sticks until the driver is loaded anew."""
        codes = np.zeros(len(boards))
        interval = self._scenario.window.interval
        for incident in (*self._scenario.of_kind("xid"), *self._scenario.of_kind("repair")):
            if incident.code is not None:
                # A card that falls off the bus says so in its last sample.
                begins = incident.start - (interval if incident.kind == "repair" else 0)
                codes[(boards == incident.device) & (times >= begins) & (times < incident.end)] = incident.code
        return codes

    def _frame(self, columns: dict[str, Floats], boards: Ints) -> pl.DataFrame:
        """The metric columns as a table: null where the exporter has no such series."""
        profiled, whole = pl.Series(self._profiled[boards]), pl.Series(~self._in_mig[boards])
        return pl.DataFrame(columns).with_columns(
            *(pl.when(profiled).then(pl.col(key)).alias(key) for key in _PROFILING),
            pl.when(whole).then(pl.col("gpu_util_ratio")).alias("gpu_util_ratio"),
        )

    def _testify(
        self,
        chunk: _Chunk,
        leases: Ints,
        at: tuple[Ints, Ints],
        columns: dict[str, Floats],
        work: tuple[Floats, Readings],
    ) -> None:
        """Add what the rows say of each lease to the evidence, and what boards drew."""
        window, evidence = self._scenario.window, self._evidence
        times, interval = chunk.times, window.interval
        billed = (times >= window.start) & (times < window.end)
        held = (leases >= 0) & billed & (times < self._billed_end[leases] if len(self._billed_end) else False)
        engine, readings = work
        evidence.fleet_joules += float((readings.joules * billed).sum())

        unit_at, time_at = at
        seen = held[unit_at, time_at]
        who = leases[unit_at[seen], time_at[seen]]
        units = unit_at[seen] + chunk.units.start
        no_engine = ~self._profiled[self._board_of[units]]
        busy = np.where(no_engine, columns["gpu_util_ratio"][seen], columns["engine_active_ratio"][seen])
        known = self._known[who]
        size = len(self._start)
        for place, (seconds, whole) in enumerate(
            zip(
                np.bincount(who[known], weights=busy[known] * interval, minlength=size).tolist(),
                (np.bincount(who[known], minlength=size) * interval).tolist(),
                strict=True,
            )
        ):
            if whole:
                evidence.busy_seconds[place] += seconds
                evidence.seen_seconds[place] += whole

        joules = self._part_of_board(chunk, engine) * readings.joules[self._board_of[chunk.units] - chunk.rows.start]
        for place, drawn in enumerate(np.bincount(leases[held], weights=joules[held], minlength=size).tolist()):
            if drawn:
                evidence.joules[place] += drawn

    def _part_of_board(self, chunk: _Chunk, engine: Floats) -> Floats:
        """The part of its board's energy that falls to each unit: MIG by weight × activity, else by share."""
        share = self._share[chunk.units, None]
        boards = self._board_of[chunk.units]
        part = np.broadcast_to(share, engine.shape).copy()
        mig = self._in_mig[boards]
        if mig.any():
            first = np.searchsorted(boards, np.arange(chunk.rows.start, chunk.rows.stop))
            weighted = share * engine
            total = np.add.reduceat(weighted, first, axis=0)[boards - chunk.rows.start]
            part[mig] = np.where(total > 0, weighted / np.where(total > 0, total, 1.0), share)[mig]
        return part


def _utc_offset(time: int) -> int:
    offset = local(time).utcoffset()
    return int(offset.total_seconds()) if offset else 0
