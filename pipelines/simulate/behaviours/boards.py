"""What DCGM and NVML would read while a trace runs.

- Profiling fields are means over the time since the scrape before (DCGM averages over its update interval).
- NVML's utilisation, clocks, power and throttle reasons speak for the last second before the scrape only.
- Energy and violation times are counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.behaviours.shapes import Floats
from pipelines.simulate.behaviours.trace import Trace, Work
from pipelines.simulate.cards import Card

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NVML_SECONDS: Final = 1.0
IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 1, 4, 8, 32, 64, 128
"""Bits of the throttle reasons, as NVML has them."""
HOT_CELSIUS: Final = 86.0
_LAG_SECONDS: Final = 90.0
_CLOCK_DROPS_AFTER: Final = 20.0  # seconds without work
_MIB: Final = float(1 << 20)


@dataclass(frozen=True)
class Slowing:
    """Clocks held down over [start, end) seconds."""

    start: float
    end: float
    clock: float  # of the highest
    reasons: int


@dataclass(frozen=True)
class Board:
    """One rank's card.

    Attributes:
        memory: (from second, share of the card) steps.
        limit_watts: None: the card's own.
        clock: of the highest, where somebody has locked it lower.
        profiling: whether the exporter has the profiling fields.
    """

    card: Card
    memory: Sequence[tuple[float, float]]
    slowings: Sequence[Slowing] = ()
    limit_watts: float | None = None
    clock: float = 1.0
    inlet_celsius: float = 24.0
    profiling: bool = True


def dynamic_part(work: Work) -> float:
    """The part of the power between idle and limit that work asks for at full clock; above 1 the limit bites."""
    return float(_demand(np.array(work.engine), np.array(work.sm), np.array(work.tensor), np.array(work.dram)))


def clock_within(card: Card, work: Work, watts: float) -> float:
    """The clock, of the highest, at which the work draws no more than some power; power goes with clock squared."""
    room = (watts - card.idle_watts) / (card.limit_watts - card.idle_watts)
    return float(np.clip((room / max(dynamic_part(work), 1e-6)) ** 0.5, 0.3, 1.0))


def _demand(engine: Floats, sm: Floats, tensor: Floats, dram: Floats) -> Floats:
    # Weights that give Acme's busy A100s (SM 0.7, tensor 0.2, DRAM 0.3) their 300 to 400 W.
    return np.asarray(0.12 * engine + 0.42 * sm + 0.95 * tensor + 0.38 * dram)


def readings(trace: Trace, board: Board, times: Floats, interval: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Catalogue metrics at scrapes (seconds since the trace began), by their keys."""
    card = board.card
    mean = trace.means(times - interval, times)
    for name in ("engine", "sm", "tensor", "dram", "fp64", "fp32"):
        mean[name] = np.clip(mean[name] * _wobble(len(times), rng), 0.0, 1.0)
    last = trace.means(times - NVML_SECONDS, times)
    slowed, clock = _slowed(board, times)
    limit = board.limit_watts or card.limit_watts
    watts = _watts(card, last, clock, limit) * (1 + 0.012 * rng.standard_normal(len(times)))
    mean_watts = _watts(card, mean, clock, limit)
    busy = last["engine"] > 0.02
    ran_lately = trace.means(times - _CLOCK_DROPS_AFTER, times)["engine"] > 0.001
    hot = (slowed & (SW_THERMAL | HW_THERMAL)) > 0
    columns: dict[str, Floats] = {
        "engine_active_ratio": np.round(mean["engine"], 6),
        "gpu_util_ratio": np.round(last["engine"], 2),
        "memory_copy_util_ratio": np.round((last["dram"] * 1.1).clip(0.0, 1.0), 2),
        "memory_used_bytes": np.asarray(np.rint(_memory(board, times) * card.memory_mib) * _MIB),
        "memory_total_bytes": np.full(len(times), card.memory_mib * _MIB),
        "power_watts": np.round(watts, 3),
        "power_limit_enforced_watts": np.full(len(times), limit, dtype=np.float64),
        "energy_joules_total": np.round(np.cumsum(mean_watts * interval) + 1e6, 3),
        "temperature_celsius": _temperature(board, mean_watts, hot & (mean["engine"] > 0.3), interval, rng),
        "sm_clock_hertz": _clock(card, np.where(busy, clock, 1.0), busy | ran_lately, rng),
        "sm_clock_maximum_hertz": np.full(len(times), card.max_clock_mhz * 1e6),
        "throttle_reasons_bitmask": np.where(busy, slowed, np.where(ran_lately, 0, IDLE)).astype(np.float64),
        "throttle_power_seconds_total": _counted(slowed & (POWER_CAP | POWER_BRAKE), mean["engine"], interval),
        "throttle_thermal_seconds_total": _counted(slowed & (SW_THERMAL | HW_THERMAL), mean["engine"], interval),
    }
    if board.profiling:
        columns |= {
            "sm_active_ratio": np.round(mean["sm"], 6),
            "tensor_active_ratio": np.round(mean["tensor"], 6),
            "dram_active_ratio": np.round(mean["dram"], 6),
            "fp64_active_ratio": np.round(mean["fp64"], 6),
            "fp32_active_ratio": np.round(mean["fp32"], 6),
            "pcie_receive_bytes_per_second": np.rint(mean["receive"] + 2e7 * mean["engine"]),  # launches
            "pcie_transmit_bytes_per_second": np.rint(mean["transmit"] + 8e6 * mean["engine"]),
        }
        if card.nvlink_bytes_per_second:
            columns["nvlink_receive_bytes_per_second"] = np.rint(mean["link"])
            columns["nvlink_transmit_bytes_per_second"] = np.rint(mean["link"])
    else:
        del columns["engine_active_ratio"]
    return columns


def _wobble(count: int, rng: np.random.Generator) -> Floats:
    """Slow drift and jitter of a measured ratio, a percent or so."""
    drift = np.empty(count)
    now = 0.0
    for place, step in enumerate(rng.standard_normal(count) * 0.004):
        now = 0.95 * now + step
        drift[place] = now
    return np.asarray(1 + drift + 0.005 * rng.standard_normal(count))


def _slowed(board: Board, times: Floats) -> tuple[Ints, Floats]:
    reasons, clock = np.zeros(len(times), dtype=np.int64), np.full(len(times), board.clock)
    for slowing in board.slowings:
        inside = (times >= slowing.start) & (times < slowing.end)
        reasons[inside] |= slowing.reasons
        clock[inside] = np.minimum(clock[inside], slowing.clock)
    return reasons, clock


def _watts(card: Card, work: dict[str, Floats], clock: Floats, limit: float) -> Floats:
    demand = _demand(work["engine"], work["sm"], work["tensor"], work["dram"]) * clock**2
    return np.asarray(np.minimum(card.idle_watts + (card.limit_watts - card.idle_watts) * demand, limit))


def _memory(board: Board, times: Floats) -> Floats:
    since = np.array([start for start, _ in board.memory])
    share = np.array([part for _, part in board.memory])
    return np.asarray(share[np.searchsorted(since, times, side="right") - 1])


def _temperature(board: Board, watts: Floats, hot: Flags, interval: float, rng: np.random.Generator) -> Floats:
    settled = board.inlet_celsius + board.card.kelvin_per_watt * watts
    gain = 1 - np.exp(-interval / _LAG_SECONDS)
    warm, now = np.empty(len(watts)), board.inlet_celsius + board.card.kelvin_per_watt * board.card.idle_watts
    for place in range(len(watts)):
        now += gain * ((HOT_CELSIUS if hot[place] else settled[place]) - now)
        warm[place] = now
    return np.asarray(np.rint(warm + 0.4 * rng.standard_normal(len(warm))))


def _clock(card: Card, clock: Floats, awake: Flags, rng: np.random.Generator) -> Floats:
    """In steps of 15 MHz; a busy card runs a few percent below its highest."""
    busy = card.max_clock_mhz * clock * (1 - 0.03 * rng.random(len(clock)))
    return np.asarray(np.round(np.where(awake, busy, card.idle_clock_mhz) / 15) * 15e6)


def _counted(slowed: Ints, engine: Floats, interval: float) -> Floats:
    return np.asarray(np.round(np.cumsum((slowed > 0) * engine * interval), 3))
