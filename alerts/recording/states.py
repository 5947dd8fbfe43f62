"""Events and states of cards: a series only where there is one.

XID codes and error counters stick on the exporters' side, under labels that change with the holder. Recorded by card,
and only where there was an error, they can be compared with what they were a quarter of an hour ago: that catches the
first one, a second one of another kind, and nothing latches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.rule import RecordingRule
from exporter.catalog import PREFIX
from pipelines.promql.expressions import by
from pipelines.promql.normalise import BOARD, BOARD_IDENTITY, of_boards
from pipelines.promql.recorded import CONDITION, ECC_LOST, NVLINK_ERRORS, STATE, XID_LAST, XID_RECENT, Recorded

EVENT_MINUTES: Final = 15
"""How long an event is recent, and so how long its alert fires."""

_THROTTLE_BITS: Final = {"power_cap": (4,), "hardware_slowdown": (8, 128), "thermal_throttle": (32, 64)}
"""Reason bits of ``throttle_reasons_bitmask`` (NVML, nvmlClocksEventReasons) by condition."""

_STATES: Final = {
    "recovery_action": ("recovery_action",),
    "row_remap_failed": ("row_remap_failed",),
    "row_remap_pending": ("row_remap_pending", "retired_pages_pending"),
    "sram_threshold": ("sram_threshold_exceeded",),
}
"""Catalogue metrics that are 0 on a healthy card, by state."""

# GDDR and HBM parts are specified to 95 °C and above; where the board says its own limit, that counts.
HOT_MEMORY_CELSIUS: Final = 95

_CARD: Final = (*BOARD, *BOARD_IDENTITY)


def states() -> Iterator[RecordingRule]:
    """XIDs, errors and conditions."""
    yield RecordingRule(XID_LAST, f"{of_boards('xid_last_code')} > 0")
    yield RecordingRule(XID_RECENT, _recent_xids())
    yield RecordingRule(ECC_LOST, f"{of_boards('ecc_uncorrected_volatile_total')} > 0")
    yield RecordingRule(NVLINK_ERRORS, f"{of_boards('nvlink_recoveries_total')} > 0")
    for state, keys in _STATES.items():
        yield RecordingRule(STATE, _state(keys), {"state": state})
    for condition, bits in _THROTTLE_BITS.items():
        yield RecordingRule(CONDITION, _any_bit(bits), {"condition": condition})
    yield RecordingRule(CONDITION, _hot_memory(), {"condition": "hot_memory"})


def _state(keys: tuple[str, ...]) -> str:
    return " or ".join(f"({of_boards(key)} > 0)" for key in keys)


def changed(series: Recorded | str) -> str:
    """Where a sparse recorded series is new, or not what it was a quarter of an hour ago.

    What it was is looked for six hours back, so that a gap in the samples makes no event.
    """
    before = f"last_over_time({series}[6h] offset {EVENT_MINUTES}m)"
    return f"({series} unless {series} == {before})"


def _recent_xids() -> str:
    recent = f"time() - {PREFIX}xid_last_timestamp_seconds < {EVENT_MINUTES * 60}"
    ours = f"group by {by(*_CARD, 'xid')} ({recent})"
    # A code that came again within the time, with another one between, has changed without being new.
    again = f"({XID_LAST} and changes({XID_LAST}[{EVENT_MINUTES}m]) > 0)"
    counted = f'count_values by {by(*_CARD)} ("xid", {changed(XID_LAST)} or {again})'
    theirs = f"({counted} unless on {by(*BOARD)} {PREFIX}device_up)"
    return f"group by {by(*_CARD, 'xid')} ({ours} or {theirs})"


def _any_bit(bits: tuple[int, ...]) -> str:
    reasons = of_boards("throttle_reasons_bitmask")
    tests = " or ".join(f"(floor(({reasons}) / {bit}) % 2 == 1)" for bit in bits)
    return f"group by {by(*_CARD)} ({tests})"


def _hot_memory() -> str:
    now = of_boards("memory_temperature_celsius")
    limit = of_boards("memory_temperature_maximum_celsius")
    known = f"({now}) > on {by(*_CARD)} ({limit})"
    unknown = f"(({now}) unless on {by(*_CARD)} ({limit})) > {HOT_MEMORY_CELSIUS}"
    return f"group by {by(*_CARD)} (({known}) or ({unknown}))"
