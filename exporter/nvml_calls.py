"""The NVML calls behind catalogue metrics that are not field values.

Each call gives the raw values of one or more metrics in NVML's units; the catalogue holds their scales.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pynvml


@dataclass(frozen=True, slots=True)
class Call:
    """One NVML call; ``read(api, handle)`` gives one raw value per key (None: not measured)."""

    keys: tuple[str, ...]
    read: Callable[[Any, Any], tuple[float | None, ...]]


def _one(key: str, function: str, *arguments: object) -> Call:
    return Call((key,), lambda api, handle: (_function(api, function)(handle, *arguments),))


def _function(api: Any, *names: str) -> Callable[..., Any]:
    """The first of these that the bindings have; old bindings lack what old drivers lack."""
    for name in names:
        found: Callable[..., Any] | None = getattr(api, name, None)
        if found is not None:
            return found
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def versioned(api: Any, name: str, handle: Any) -> Any:
    """The newest version of a function that driver and bindings both have (unversioned wrappers refuse the others)."""
    for version in ("_v3", "_v2"):
        try:
            return _function(api, name + version)(handle)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _utilization(api: Any, handle: Any) -> tuple[float, ...]:
    rates = api.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _engine(key: str, function: str) -> Call:
    # These return [percent, sampling period].
    return Call((key,), lambda api, handle: (_function(api, function)(handle)[0],))


def _memory(api: Any, handle: Any) -> tuple[float | None, ...]:
    try:
        info = api.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in {pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, 25}:  # 25: argument version mismatch
            raise
        # Drivers before 510 count reserved memory as used and don't say how much it is.
        info = api.nvmlDeviceGetMemoryInfo(handle)
        return info.total, info.free, info.used, None
    return info.total, info.free, info.used, info.reserved


def _bar1(api: Any, handle: Any) -> tuple[float, ...]:
    info = api.nvmlDeviceGetBAR1MemoryInfo(handle)
    return info.bar1Total, info.bar1Used, info.bar1Free


def _mig_mode(api: Any, handle: Any) -> tuple[float, ...]:
    return (api.nvmlDeviceGetMigMode(handle)[0],)


def _throttle_reasons(api: Any, handle: Any) -> tuple[float, ...]:
    try:
        return (_function(api, "nvmlDeviceGetCurrentClocksEventReasons")(handle),)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return (api.nvmlDeviceGetCurrentClocksThrottleReasons(handle),)  # its name in drivers before 535


def _license(api: Any, handle: Any) -> tuple[float, ...]:
    """Whether any licensable feature is licensed; 0 on a card that needs none, as DCGM has it."""
    found = _function(api, "nvmlDeviceGetGridLicensableFeatures_v4")(handle)
    if not found.isGridLicenseSupported:
        return (0,)
    return (
        max((found.gridLicensableFeatures[n].featureState for n in range(found.licensableFeaturesCount)), default=0),
    )


def _sram_threshold(api: Any, handle: Any) -> tuple[float, ...]:
    status = _function(pynvml, "c_nvmlEccSramErrorStatus_v1_t")()
    status.version = pynvml.nvmlEccSramErrorStatus_v1
    api.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return (status.bThresholdExceeded,)


MEMORY: Final = Call(("memory_total_bytes", "memory_free_bytes", "memory_used_bytes", "memory_reserved_bytes"), _memory)
BAR1: Final = Call(("bar1_total_bytes", "bar1_used_bytes", "bar1_free_bytes"), _bar1)

INSTANCE_CALLS: Final = (MEMORY, BAR1)
"""What a MIG instance answers for itself."""

BOARD_CALLS: Final = (
    Call(("gpu_util_ratio", "memory_copy_util_ratio"), _utilization),
    _engine("encoder_util_ratio", "nvmlDeviceGetEncoderUtilization"),
    _engine("decoder_util_ratio", "nvmlDeviceGetDecoderUtilization"),
    _engine("jpeg_util_ratio", "nvmlDeviceGetJpgUtilization"),
    _engine("optical_flow_util_ratio", "nvmlDeviceGetOfaUtilization"),
    MEMORY,
    BAR1,
    _one("power_watts", "nvmlDeviceGetPowerUsage"),
    _one("power_limit_watts", "nvmlDeviceGetPowerManagementLimit"),
    _one("power_limit_enforced_watts", "nvmlDeviceGetEnforcedPowerLimit"),
    _one("temperature_celsius", "nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    _one("temperature_margin_celsius", "nvmlDeviceGetMarginTemperature"),
    _one(
        "temperature_slowdown_celsius",
        "nvmlDeviceGetTemperatureThreshold",
        pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
    ),
    _one(
        "temperature_shutdown_celsius",
        "nvmlDeviceGetTemperatureThreshold",
        pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
    ),
    _one("temperature_maximum_celsius", "nvmlDeviceGetTemperatureThreshold", pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),
    _one(
        "memory_temperature_maximum_celsius",
        "nvmlDeviceGetTemperatureThreshold",
        pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
    ),
    _one("fan_speed_ratio", "nvmlDeviceGetFanSpeed"),
    _one("sm_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    _one("memory_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
    _one("video_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_VIDEO),
    _one("graphics_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_GRAPHICS),
    _one("sm_clock_maximum_hertz", "nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
    _one("memory_clock_maximum_hertz", "nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM),
    _one("performance_state", "nvmlDeviceGetPerformanceState"),
    Call(("throttle_reasons_bitmask",), _throttle_reasons),
    _one("pcie_link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("pcie_link_generation_maximum", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _one("pcie_link_width", "nvmlDeviceGetCurrPcieLinkWidth"),
    _one("pcie_link_width_maximum", "nvmlDeviceGetMaxPcieLinkWidth"),
    Call(("mig_mode",), _mig_mode),
    _one("persistence_mode", "nvmlDeviceGetPersistenceMode"),
    _one("compute_mode", "nvmlDeviceGetComputeMode"),
    Call(("sram_threshold_exceeded",), _sram_threshold),
    Call(("vgpu_license_status",), _license),
)
"""What a whole card answers, MIG on or off."""
