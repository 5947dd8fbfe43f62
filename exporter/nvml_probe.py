"""What one card supports, found once, and the reading of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from math import isnan, nan
from typing import Any, Final

import pynvml

from exporter import gpm
from exporter.catalog import BY_KEY, CATALOG
from exporter.counters import Unwrapper
from exporter.devices import Device, DeviceLost, Process, Reading
from exporter.nvml_calls import BOARD_CALLS, INSTANCE_CALLS, Call, versioned

# nvmlReturn_t by number, since older bindings lack names of the newer ones.
_LOST: Final = {
    1,  # uninitialized
    9,  # driver not loaded
    15,  # GPU is lost
    18,  # the driver was replaced under the library
    28,  # GPU not found
}
_UNSUPPORTED: Final = {
    2,  # invalid argument
    3,  # not supported
    4,  # no permission
    13,  # function not found
    22,  # vGPU without ECC
    25,  # argument version mismatch
    26,  # deprecated
}
_FIELDS: Final = {metric.nvml_field: metric for metric in CATALOG if metric.nvml_field is not None}
# Totals over all links are asked for with this scope.
_ALL_LINKS: Final = 0xFFFFFFFF
_NO_INSTANCE: Final = 0xFFFFFFFF
_ALL_LINK_FIELDS: Final = {138, 139}

_WRAPPING: Final = {
    "pcie_transmit_bytes_total": "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_total": "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_total": "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_total": "nvlink_receive_bytes_per_second",
}
"""Counters that may wrap, with the rate that tells how often they did."""

CAPABILITIES: Final = {
    "utilization": "gpu_util_ratio",
    "energy": "energy_joules_total",
    "memory_temperature": "memory_temperature_celsius",
    "pcie_counters": "pcie_transmit_bytes_total",
    "nvlink": "nvlink_transmit_bytes_total",
    "ecc": "ecc_uncorrected_volatile_total",
    "row_remapping": "remapped_rows_uncorrected_total",
    "throttle_counters": "throttle_power_seconds_total",
    "fan": "fan_speed_ratio",
}
"""Groups of metrics that a card has or lacks as one, with the metric that tells."""


class CardProbe:
    """Reads one card, asking only for what it answered before."""

    def __init__(
        self, api: Any, handle: Any, device: Device, instance_handles: dict[str, Any], clock: Callable[[], float]
    ) -> None:
        if handle is None:
            raise DeviceLost(f"{device.uuid}: no longer listed by the driver")
        self._api, self._handle, self._device, self._clock = api, handle, device, clock
        self._calls = list(BOARD_CALLS)
        self._fields: list[int] = list(_FIELDS)
        self._instances = {name: (instance, list(INSTANCE_CALLS)) for name, instance in instance_handles.items()}
        self._processes_readable = True
        self._gpm: gpm.GpmSampler | None = None
        self._instance_gpm: dict[str, gpm.GpmSampler] = {}
        self._profiling = gpm.supported(api, handle)
        if self._profiling:
            # Under MIG the card as a whole can't be profiled, its instances can.
            if not device.mig:
                self._gpm = gpm.GpmSampler(api, handle)
            for name in instance_handles:
                self._instance_gpm[name] = gpm.GpmSampler(api, handle, instance=int(name), board_metrics=False)
        self._unwrappers = {key: Unwrapper() for key in _WRAPPING}
        self._last_time: float | None = None
        self._unsupported: set[str] = set()

    def read(self) -> Reading:
        """Everything in one pass. Raises DeviceLost when the card answers nothing any more."""
        now = self._clock()
        reading = Reading(self._device)
        if self._gpm is not None and self._profiling:
            reading.values.update(self._gpm_values(self._gpm, now))
        self._calls = self._run_calls(self._calls, self._handle, reading.values)
        self._read_fields(reading.values, now)
        if not reading.values:
            raise DeviceLost(f"{self._device.uuid}: every call failed; look for an XID in the kernel log")
        for name, (handle, calls) in self._instances.items():
            values = reading.instance_values.setdefault(name, {})
            self._instances[name] = (handle, self._run_calls(calls, handle, values))
            if name in self._instance_gpm and self._profiling:
                values.update(self._gpm_values(self._instance_gpm[name], now))
        self._read_processes(reading)
        derive(reading.values)
        reading.capabilities = self._capabilities()
        self._last_time = now
        return reading

    def _gpm_values(self, sampler: gpm.GpmSampler, now: float) -> dict[str, float]:
        try:
            return sampler.read(now)
        except pynvml.NVMLError as error:
            if not self._check(error):
                self._profiling = False  # no permission: see docs/exporter.md
            return {}

    def _run_calls(self, calls: list[Call], handle: Any, values: dict[str, float]) -> list[Call]:
        """Make the calls; return those worth making again."""
        kept = []
        for call in calls:
            try:
                raws = call.read(self._api, handle)
            except pynvml.NVMLError as error:
                if self._check(error):
                    kept.append(call)
                else:
                    self._unsupported.update(call.keys)
                continue
            kept.append(call)
            for key, raw in zip(call.keys, raws, strict=True):
                if raw is not None:
                    values[key] = raw * BY_KEY[key].nvml_scale
        return kept

    def _read_fields(self, values: dict[str, float], now: float) -> None:
        elapsed = None if self._last_time is None else now - self._last_time
        supported = []
        for answer in self._field_values():
            metric = _FIELDS[answer.fieldId]
            if answer.nvmlReturn != pynvml.NVML_SUCCESS:
                if answer.nvmlReturn in _LOST:
                    raise DeviceLost(f"{self._device.uuid}: lost")
                if answer.nvmlReturn not in _UNSUPPORTED:
                    supported.append(answer.fieldId)
                else:
                    self._unsupported.add(metric.key)
                continue
            supported.append(answer.fieldId)
            raw: float = _field_number(answer)
            if isnan(raw):
                continue
            if metric.key in self._unwrappers:
                rate = values.get(_WRAPPING[metric.key])
                expected = rate * elapsed / metric.nvml_scale if rate is not None and elapsed else None
                bits = 32 if answer.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT else 64
                raw = self._unwrappers[metric.key].feed(int(raw), bits=bits, expected=expected)
            values[metric.key] = raw * metric.nvml_scale
        self._fields = supported

    def _field_values(self) -> list[Any]:
        wanted = [(field, _ALL_LINKS if field in _ALL_LINK_FIELDS else 0) for field in self._fields]
        if not wanted:
            return []
        try:
            return list(self._api.nvmlDeviceGetFieldValues(self._handle, wanted))
        except pynvml.NVMLError as error:
            if self._check(error):
                return []
        # A driver older than one of the ids may refuse the whole batch: ask one by one, once.
        answers = []
        for field in wanted:
            try:
                answers.extend(self._api.nvmlDeviceGetFieldValues(self._handle, [field]))
            except pynvml.NVMLError as error:
                self._check(error)
        return answers

    def _read_processes(self, reading: Reading) -> None:
        if not self._processes_readable:
            return
        try:
            found = self._running(self._handle, None)
        except pynvml.NVMLError as error:
            if not self._check(error) and not self._instances:
                self._processes_readable = False
                return
            # Without privileges a card in MIG mode tells only those of its instances.
            found = {}
            for name, (handle, _) in self._instances.items():
                with contextlib.suppress(pynvml.NVMLError):
                    found.update(self._running(handle, name))
        reading.processes = tuple(found.values())
        reading.values["compute_processes"] = len(found)

    def _running(self, handle: Any, instance: str | None) -> dict[int, Process]:
        """Processes by PID, clients of an MPS server among them."""
        entries = list(versioned(self._api, "nvmlDeviceGetComputeRunningProcesses", handle))
        with contextlib.suppress(pynvml.NVMLError):
            entries += versioned(self._api, "nvmlDeviceGetMPSComputeRunningProcesses", handle)
        return {int(entry.pid): _process(entry, instance) for entry in entries}

    def _check(self, error: pynvml.NVMLError) -> bool:
        """Whether a failed call is worth making again. Raises DeviceLost."""
        if error.value in _LOST:
            raise DeviceLost(f"{self._device.uuid}: {error}") from error
        return error.value not in _UNSUPPORTED

    def _capabilities(self) -> dict[str, bool]:
        found = {name: key not in self._unsupported for name, key in CAPABILITIES.items()}
        return found | {"profiling": self._profiling, "processes": self._processes_readable, "mig": self._device.mig}

    def close(self) -> None:
        """Give the driver its buffers back; a lost card has none."""
        for sampler in (self._gpm, *self._instance_gpm.values()):
            if sampler is not None:
                with contextlib.suppress(pynvml.NVMLError):
                    sampler.close()


def derive(values: dict[str, float]) -> None:
    """Add what DCGM gives and NVML gives in parts only."""
    sent, received = values.get("nvlink_transmit_bytes_per_second"), values.get("nvlink_receive_bytes_per_second")
    if sent is not None and received is not None:
        values["nvlink_bytes_per_second"] = sent + received
    used, free = values.get("memory_used_bytes"), values.get("memory_free_bytes")
    if used is not None and free is not None and used + free > 0:
        values["memory_used_ratio"] = used / (used + free)


# Members of nvmlValue_t by nvmlValueType_t.
_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_MEMORY_TEMPERATURE_FIELD: Final = 82


def _field_number(answer: Any) -> float:
    """The number in a field value, whatever C type it has; NaN for a type that this doesn't know."""
    if answer.fieldId == _MEMORY_TEMPERATURE_FIELD:
        return float(answer.value.uiVal)  # some drivers leave the type of this one unset
    if answer.valueType >= len(_MEMBERS):
        return nan
    return float(getattr(answer.value, _MEMBERS[answer.valueType]))


def _process(entry: Any, instance: str | None) -> Process:
    told = getattr(entry, "gpuInstanceId", None)
    if told is not None and told < _NO_INSTANCE:
        instance = str(told)
    return Process(int(entry.pid), entry.usedGpuMemory, instance)
