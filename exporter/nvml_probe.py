"""What one card supports, found once, and the reading of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml

from exporter import gpm
from exporter.catalog import BY_KEY
from exporter.devices import Device, DeviceLost, Process, Reading
from exporter.nvml_calls import BOARD_CALLS, INSTANCE_CALLS, Call, versioned
from exporter.nvml_fields import FieldReader, Unwrappers

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
_NO_INSTANCE: Final = 0xFFFFFFFF
# A card that is just being initialised may refuse for a moment what it has.
_PROBE_AGAIN_SECONDS: Final = 3600.0

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
    """Reads one card, asking only for what it answered before; once an hour for everything.

    Args:
        followed: the card's byte counters, which outlive the probe.
    """

    def __init__(
        self,
        api: Any,
        handle: Any,
        device: Device,
        instance_handles: dict[str, Any],
        clock: Callable[[], float],
        followed: Unwrappers,
    ) -> None:
        if handle is None:
            raise DeviceLost(f"{device.uuid}: no longer listed by the driver")
        self._api, self._handle, self._device, self._clock = api, handle, device, clock
        self._instance_handles = instance_handles
        self._gpm: gpm.GpmSampler | None = None
        self._instance_gpm: dict[str, gpm.GpmSampler] = {}
        self._gpm_supported = gpm.supported(api, handle)
        if self._gpm_supported:
            # Under MIG the card as a whole can't be profiled, its instances can.
            if not device.mig:
                self._gpm = gpm.GpmSampler(api, handle)
            for name in instance_handles:
                self._instance_gpm[name] = gpm.GpmSampler(api, handle, instance=int(name), board_metrics=False)
        self.fields = FieldReader(api, handle, followed, self._worth_retrying, clock)
        self._probe_all()

    def _probe_all(self) -> None:
        self._probed_at = self._clock()
        self._calls = list(BOARD_CALLS)
        self._instance_calls = {name: list(INSTANCE_CALLS) for name in self._instance_handles}
        self.fields.forget()
        self._profiling, self._processes_readable = self._gpm_supported, True
        self._unsupported: set[str] = set()

    def read(self) -> Reading:
        """Everything in one pass. Raises DeviceLost when the card answers nothing any more."""
        now = self._clock()
        if now - self._probed_at >= _PROBE_AGAIN_SECONDS:
            self._probe_all()
        reading = Reading(self._device)
        if self._gpm is not None and self._profiling:
            reading.values.update(self._gpm_values(self._gpm, now))
        self._calls = self._run_calls(self._calls, self._handle, reading.values)
        self.fields.read(reading.values)
        if not reading.values:
            raise DeviceLost(f"{self._device.uuid}: every call failed; look for an XID in the kernel log")
        for name, handle in self._instance_handles.items():
            values = reading.instance_values.setdefault(name, {})
            # The card answers: an instance that doesn't was just destroyed.
            with contextlib.suppress(DeviceLost):
                self._read_instance(name, handle, values, now)
        self._read_processes(reading)
        derive(reading.values)
        reading.capabilities = self._capabilities(reading.values)
        return reading

    def _read_instance(self, name: str, handle: Any, values: dict[str, float], now: float) -> None:
        self._instance_calls[name] = self._run_calls(self._instance_calls[name], handle, values)
        if name in self._instance_gpm and self._profiling:
            values.update(self._gpm_values(self._instance_gpm[name], now))

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

    def _read_processes(self, reading: Reading) -> None:
        """Add the processes; none at all where they can't be told, which is not the same as an empty list."""
        if not self._processes_readable:
            return
        try:
            found = self._running(self._handle, None)
        except pynvml.NVMLError as error:
            worth_retrying = self._check(error)
            if not self._instance_handles:
                self._processes_readable = worth_retrying
                return
            # Without privileges a card in MIG mode tells only those of its instances.
            found = {}
            try:
                for name, handle in self._instance_handles.items():
                    found.update(self._running(handle, name))
            except pynvml.NVMLError:
                return
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
        return self._worth_retrying(error.value)

    def _worth_retrying(self, code: int) -> bool:
        if code in _LOST:
            raise DeviceLost(f"{self._device.uuid}: {pynvml.NVMLError(code)}")
        return code not in _UNSUPPORTED

    def _capabilities(self, values: Mapping[str, float]) -> dict[str, bool]:
        found = {
            name: key not in self._unsupported if BY_KEY[key].nvml_field is None else self.fields.answers(key)
            for name, key in CAPABILITIES.items()
        }
        if self.fields.narrow_pcie and not self._profiling and CAPABILITIES["pcie_counters"] not in values:
            found["pcie_counters"] = False  # it wraps faster than it is read
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


def _process(entry: Any, instance: str | None) -> Process:
    told = getattr(entry, "gpuInstanceId", None)
    if told is not None and told < _NO_INSTANCE:
        instance = str(told)
    return Process(int(entry.pid), entry.usedGpuMemory, instance)
