"""The physics of boards: power follows work, the energy counter integrates it, temperature follows with a lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.behaviours import Floats
from pipelines.simulate.scenario import Incident, Scenario

IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL = 1, 4, 8, 32, 64
"""Bits of the throttle reasons, as NVML has them."""

_LAG_SECONDS: Final = 90.0
_THROTTLED_CLOCK: Final = 0.62
_THROTTLED_KELVIN: Final = 34.0  # what the blocked air flow adds


@dataclass(frozen=True, slots=True)
class Load:
    """Use of boards: rows are boards, columns instants; each value a part of the whole board's maximum."""

    engine: Floats
    sm: Floats
    tensor: Floats
    dram: Floats
    memory: Floats
    clock: Floats
    held: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Readings:
    """What the board's own sensors say: rows are boards, columns instants.

    ``joules`` is what is drawn from an instant to the next; the counter's value is before it.
    """

    power_watts: Floats
    joules: Floats
    energy_joules_total: Floats
    temperature_celsius: Floats
    sm_clock_hertz: Floats
    throttle_reasons: Floats
    slowdown: Floats  # pace of the work against an unthrottled card


class Boards:
    """All boards of the fleet, with the state that one chunk of time hands to the next."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator) -> None:
        fleet = scenario.fleet
        cards = [device.card for device in fleet.devices]
        self._interval = scenario.window.interval
        self._idle = np.array([card.idle_watts for card in cards])
        self._limit = np.array([card.limit_watts for card in cards])
        self._idle_clock = np.array([card.idle_clock_mhz for card in cards], dtype=np.float64)
        self._max_clock = np.array([card.max_clock_mhz for card in cards], dtype=np.float64)
        self._kelvin = np.array([card.kelvin_per_watt for card in cards])
        self._inlet = 23.0 + np.array([device.index * 0.5 for device in fleet.devices]) + rng.random(len(cards)) * 2
        self._joined = np.array([fleet.nodes[device.node].joined or scenario.window.first for device in fleet.devices])
        self._energy = np.where(
            self._joined > scenario.window.first, 0.0, np.round(rng.random(len(cards)) * 4e9 + 5e8, 3)
        )
        self._temperature = self._inlet + self._kelvin * self._idle
        self._repairs = scenario.of_kind("repair")
        self._throttles = scenario.of_kind("throttle")
        self._resets = [(i.device, i.end) for i in self._repairs if i.device is not None]
        for reload in scenario.of_kind("driver_reload"):
            if reload.node is not None:
                self._resets += [(device, reload.start) for device in fleet.nodes[reload.node].devices]

    def read(self, rows: slice, times: NDArray[np.int64], load: Load, noise: Floats) -> Readings:
        """Readings of the boards ``rows`` at consecutive ``times``; call with times that follow each other."""
        throttled = self._during(rows, times, self._throttles)
        hot = throttled & (load.sm > 0.2)
        pace = np.where(hot, _THROTTLED_CLOCK, 1.0)
        work = np.clip(0.18 * load.engine + 0.40 * load.sm + 0.45 * load.tensor + 0.28 * load.dram, 0.0, 1.0)
        work = work * (pace * load.clock) ** 1.5 + 0.05 * load.held
        idle, limit = self._idle[rows, None], self._limit[rows, None]
        watts: Floats = np.minimum(idle + (limit - idle) * work, limit)
        off = self._during(rows, times, self._repairs) | (times[None, :] < self._joined[rows, None])
        watts = np.where(off, 0.0, watts)

        capped = watts >= 0.95 * limit
        clock = np.where(load.held | (work > 0.02), self._max_clock[rows, None], self._idle_clock[rows, None])
        clock = clock * np.where(work > 0.02, pace * load.clock * (1 - 0.1 * np.maximum(work - 0.5, 0)), 1.0)
        reasons = np.where(work < 0.02, IDLE, 0) | np.where(capped, POWER_CAP, 0)
        reasons |= np.where(hot, SW_THERMAL | HW_THERMAL, 0)
        reasons |= np.where((load.clock < 0.9) & (load.sm > 0.2), HW_SLOWDOWN, 0)

        joules = np.round(watts * self._interval, 3)
        return Readings(
            power_watts=np.round(np.minimum(watts * (1 + 0.01 * noise), limit), 3),
            joules=joules,
            energy_joules_total=self._count(rows, times, joules),
            temperature_celsius=self._warm(rows, times, watts, throttled),
            sm_clock_hertz=np.round(clock / 15) * 15e6,
            throttle_reasons=reasons.astype(np.float64),
            slowdown=pace,
        )

    def _during(self, rows: slice, times: NDArray[np.int64], incidents: tuple[Incident, ...]) -> NDArray[np.bool_]:
        inside = np.zeros((rows.stop - rows.start, len(times)), dtype=np.bool_)
        for incident in incidents:
            if incident.device is not None and rows.start <= incident.device < rows.stop:
                inside[incident.device - rows.start] |= (times >= incident.start) & (times < incident.end)
        return inside

    def _count(self, rows: slice, times: NDArray[np.int64], joules: Floats) -> Floats:
        """The energy counter; a driver that is loaded anew begins at what it has seen since."""
        after = self._energy[rows, None] + np.cumsum(joules, axis=1)
        counter = after - joules
        for device, time in self._resets:
            place = int((time - times[0]) // self._interval)
            if rows.start <= device < rows.stop and 0 <= place < len(times):
                row = device - rows.start
                seen = 0.3 * self._idle[device] * self._interval
                lost = counter[row, place] - seen
                counter[row, place:] -= lost
                after[row, place:] -= lost
        self._energy[rows] = after[:, -1]
        return np.round(counter, 3)

    def _warm(self, rows: slice, times: NDArray[np.int64], watts: Floats, throttled: NDArray[np.bool_]) -> Floats:
        """First-order lag behind what the power would settle at."""
        noon = 1.5 * np.sin(2 * np.pi * (times / 86_400 - 0.55))
        settled = self._inlet[rows, None] + noon[None, :] + self._kelvin[rows, None] * watts
        settled = settled + _THROTTLED_KELVIN * throttled * (watts > 0.4 * self._limit[rows, None])
        gain = 1 - np.exp(-self._interval / _LAG_SECONDS)
        warm = np.empty_like(settled)
        now = self._temperature[rows]
        for place in range(len(times)):
            now = now + gain * (settled[:, place] - now)
            warm[:, place] = now
        self._temperature[rows] = now
        return np.rint(warm)
