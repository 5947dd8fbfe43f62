"""NVML's field values: what a card tells by field id, asked for in one batch a pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any, Final

import pynvml

from exporter.catalog import CATALOG, Metric
from exporter.counters import Unwrapper

# Each field with its metric and scale; those that stand in for others come after them.
_SOURCES: Final[dict[int, tuple[Metric, float]]] = {
    metric.nvml_field: (metric, metric.nvml_scale) for metric in CATALOG if metric.nvml_field is not None
} | {metric.nvml_instead[0]: (metric, metric.nvml_instead[1]) for metric in CATALOG if metric.nvml_instead}
_STAND_INS: Final = frozenset(metric.nvml_instead[0] for metric in CATALOG if metric.nvml_instead)

# Totals over all links are asked for with this scope: payload, and NVLink 5's counters.
_ALL_LINKS: Final = 0xFFFFFFFF
_ALL_LINK_FIELDS: Final = frozenset({138, 139, *range(201, 223)})

RATES: Final = {
    "pcie_transmit_bytes_total": "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_total": "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_total": "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_total": "nvlink_receive_bytes_per_second",
}
"""Counters that may wrap, with the rate that tells how often they did, or that they tell."""
_PCIE: Final = tuple(key for key in RATES if key.startswith("pcie_"))
_PCIE_FIELDS: Final = {field: metric.key for field, (metric, _) in _SOURCES.items() if metric.key in _PCIE}

# Bytes per second and lane in one direction, by generation, before any protocol overhead.
_LANE_BYTES: Final = (0.0, 0.25e9, 0.5e9, 0.985e9, 1.97e9, 3.94e9, 8e9, 16e9)
_UNKNOWN_LINK: Final = (7, 16)

Unwrappers = dict[str, Unwrapper]


def unwrappers() -> Unwrappers:
    """Fresh followers of one card's byte counters; NVML documents that those of PCIe wrap."""
    return {key: Unwrapper(may_be_narrow=key in _PCIE) for key in RATES}


class FieldReader:
    """Reads the fields of one card, asking only for what it answered before.

    Args:
        followed: the totals so far; they outlive this reader.
        worth_retrying: whether a field with this return code is worth asking for again; raises DeviceLost.
    """

    def __init__(
        self,
        api: Any,
        handle: Any,
        followed: Unwrappers,
        worth_retrying: Callable[[int], bool],
        clock: Callable[[], float],
    ) -> None:
        self._api, self._handle, self._followed, self._clock = api, handle, followed, clock
        self._worth_retrying = worth_retrying
        self._wanted = list(_SOURCES)
        self._fastest_pcie = _pcie_bytes_per_second({})
        self._previous: dict[str, tuple[int, float]] = {}
        # The followed counters are also fed between passes, see `follow`.
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Ask for every field again in the next pass."""
        self._wanted = list(_SOURCES)

    @property
    def narrow_pcie(self) -> bool:
        """Whether a PCIe byte counter of this card has 32 bits."""
        return any(self._followed[key].narrow for key in _PCIE)

    @property
    def follow_seconds(self) -> float:
        """How often to call `follow` so that no wrap of a PCIe counter is missed at the link's full speed."""
        return 0.7 * (1 << 32) / self._fastest_pcie

    def answers(self, key: str) -> bool:
        """Whether the card has, or may have, a field for a metric."""
        return any(_SOURCES[field][0].key == key for field in self._wanted)

    def read(self, values: dict[str, float]) -> None:
        """Add the fields' values to those that the card told already, rates among them."""
        answers = self._ask(self._wanted)
        now = self._clock()
        self._fastest_pcie = _pcie_bytes_per_second(values)
        kept = []
        for answer in answers:
            metric, scale = _SOURCES[answer.fieldId]
            if answer.nvmlReturn != pynvml.NVML_SUCCESS:
                if self._worth_retrying(answer.nvmlReturn):
                    kept.append(answer.fieldId)
                continue
            if answer.fieldId in _STAND_INS and any(_SOURCES[field][0] is metric for field in kept):
                continue  # the card has the field proper: two counters of one thing would mix
            kept.append(answer.fieldId)
            raw: float | None = _number(answer)
            if raw is not None and metric.key in RATES:
                raw = self._total(metric.key, answer, int(raw), now, scale, values)
            if raw is not None:
                values[metric.key] = raw * scale
        self._wanted = kept

    def _total(self, key: str, answer: Any, raw: int, now: float, scale: float, values: dict[str, float]) -> int | None:
        rate_key = RATES[key]
        rate = values.get(rate_key)
        followed = self._followed[key]
        with self._lock:
            begun = followed.begun
            total = followed.feed(
                raw, now, bits=_bits(answer), rate=None if rate is None else rate / scale,
                fastest=self._fastest_pcie if key in _PCIE else None,
            )  # fmt: skip
        if total is None or (followed.narrow and not begun):
            # Of a counter that wraps, the first reading is a place to start from and no total that can be kept up.
            self._previous.pop(key, None)
            return None
        before, at = self._previous.get(key, (total, now))
        if rate is None and total >= before and now > at:
            values[rate_key] = (total - before) * scale / (now - at)
        self._previous[key] = (total, now)
        return total

    def follow(self) -> None:
        """Read the PCIe byte counters between two passes. Raises NVMLError, DeviceLost."""
        for answer in self._api.nvmlDeviceGetFieldValues(self._handle, list(_PCIE_FIELDS)):
            raw = _number(answer) if answer.nvmlReturn == pynvml.NVML_SUCCESS else None
            if raw is None:
                self._worth_retrying(answer.nvmlReturn)
                continue
            with self._lock:
                followed = self._followed[_PCIE_FIELDS[answer.fieldId]]
                now = self._clock()
                if followed.feed(int(raw), now, bits=_bits(answer), fastest=self._fastest_pcie) is None:
                    # A call hung meanwhile. What crossed the bus in that time is lost to the count.
                    followed.resume(int(raw), now)

    def _ask(self, fields: Sequence[int]) -> list[Any]:
        wanted = [(field, _ALL_LINKS if field in _ALL_LINK_FIELDS else 0) for field in fields]
        if not wanted:
            return []
        try:
            return list(self._api.nvmlDeviceGetFieldValues(self._handle, wanted))
        except pynvml.NVMLError as error:
            if self._worth_retrying(error.value):
                return [_failed(field, error.value) for field in fields]
        # A driver older than one of the ids may refuse the whole batch: ask one by one, once.
        answers = []
        for field, scope in wanted:
            try:
                answers.extend(self._api.nvmlDeviceGetFieldValues(self._handle, [(field, scope)]))
            except pynvml.NVMLError as error:
                answers.append(_failed(field, error.value))
        return answers


def _failed(field: int, code: int) -> Any:
    answer = pynvml.c_nvmlFieldValue_t()
    answer.fieldId, answer.nvmlReturn = field, code
    return answer


def _pcie_bytes_per_second(values: dict[str, float]) -> float:
    """What the card's PCIe link can carry one way."""
    generation = int(values.get("pcie_link_generation_maximum", _UNKNOWN_LINK[0]))
    lanes = values.get("pcie_link_width_maximum", _UNKNOWN_LINK[1])
    return _LANE_BYTES[generation if 0 < generation < len(_LANE_BYTES) else -1] * max(1.0, lanes)


# Members of nvmlValue_t by nvmlValueType_t.
_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_MEMORY_TEMPERATURE_FIELD: Final = 82


def _number(answer: Any) -> float | None:
    """The number in a field value, whatever C type it has; None for NaN and for a type that this doesn't know."""
    if answer.fieldId == _MEMORY_TEMPERATURE_FIELD:
        return float(answer.value.uiVal)  # some drivers leave the type of this one unset
    kind = answer.valueType
    value = float(getattr(answer.value, _MEMBERS[kind])) if kind < len(_MEMBERS) else nan
    return None if isnan(value) else value


def _bits(answer: Any) -> int:
    return 32 if answer.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT else 64
