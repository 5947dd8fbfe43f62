"""NVML's functions over a pretended fleet: what ``--fake`` puts in the place of the driver library."""

# ruff: noqa: D102, N802  (the methods have NVML's names, and NVML documents them)

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import pynvml

from exporter.catalog import BY_KEY, CATALOG
from exporter.fleet import FakeCard, FakeFleet, FakeInstance

_CALLS: Final[dict[tuple[Any, ...], str]] = {
    ("nvmlDeviceGetPowerUsage",): "power_watts",
    ("nvmlDeviceGetPowerManagementLimit",): "power_limit_watts",
    ("nvmlDeviceGetEnforcedPowerLimit",): "power_limit_enforced_watts",
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU): "temperature_celsius",
    ("nvmlDeviceGetMarginTemperature",): "temperature_margin_celsius",
    ("nvmlDeviceGetTemperatureThreshold", pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN): "temperature_slowdown_celsius",
    ("nvmlDeviceGetTemperatureThreshold", pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN): "temperature_shutdown_celsius",
    ("nvmlDeviceGetTemperatureThreshold", pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX): "temperature_maximum_celsius",
    (
        "nvmlDeviceGetTemperatureThreshold",
        pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
    ): "memory_temperature_maximum_celsius",
    ("nvmlDeviceGetFanSpeed",): "fan_speed_ratio",
    ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM): "sm_clock_hertz",
    ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM): "memory_clock_hertz",
    ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_VIDEO): "video_clock_hertz",
    ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_GRAPHICS): "graphics_clock_hertz",
    ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM): "sm_clock_maximum_hertz",
    ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM): "memory_clock_maximum_hertz",
    ("nvmlDeviceGetPerformanceState",): "performance_state",
    ("nvmlDeviceGetCurrentClocksEventReasons",): "throttle_reasons_bitmask",
    ("nvmlDeviceGetCurrPcieLinkGeneration",): "pcie_link_generation",
    ("nvmlDeviceGetMaxPcieLinkGeneration",): "pcie_link_generation_maximum",
    ("nvmlDeviceGetCurrPcieLinkWidth",): "pcie_link_width",
    ("nvmlDeviceGetMaxPcieLinkWidth",): "pcie_link_width_maximum",
    ("nvmlDeviceGetPersistenceMode",): "persistence_mode",
    ("nvmlDeviceGetComputeMode",): "compute_mode",
}
_ENGINES: Final = {
    "nvmlDeviceGetEncoderUtilization": "encoder_util_ratio",
    "nvmlDeviceGetDecoderUtilization": "decoder_util_ratio",
    "nvmlDeviceGetJpgUtilization": "jpeg_util_ratio",
    "nvmlDeviceGetOfaUtilization": "optical_flow_util_ratio",
}
_FIELDS: Final = {metric.nvml_field: metric for metric in CATALOG if metric.nvml_field is not None}
_GPM: Final = {metric.gpm_metric: metric for metric in CATALOG if metric.gpm_metric is not None}
_GARBAGE: Final = {"gpu_util_ratio": 808334905, "temperature_celsius": 4294967295, "power_watts": 4294967295}

# Calls closer together than this see one state of the card.
_STEP_SECONDS: Final = 0.05

_Handle = FakeCard | FakeInstance


class FakeNvml:
    """An object with the functions of ``pynvml`` that the backend uses, answering for a pretended fleet.

    A card with the fault "hang" blocks its caller until :meth:`release` or the fault's end, as a stuck driver does.
    """

    def __init__(self, fleet: FakeFleet, clock: Callable[[], float] = time.monotonic) -> None:
        self.fleet, self._clock, self._start = fleet, clock, clock()
        self._samples: dict[int, _Handle] = {}
        self._reported: set[tuple[str, int, float]] = set()
        self._released = threading.Event()
        fleet.advance(0)

    def release(self) -> None:
        """Let every hanging call go on."""
        self._released.set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _ENGINES:
            return lambda card: [self._raw(card, _ENGINES[name]), 100000]
        if any(call[0] == name for call in _CALLS):
            return lambda card, *arguments: self._call(card, (name, *arguments))
        if name.startswith("nvml"):
            return lambda *_: _fail(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        raise AttributeError(name)

    def _call(self, card: _Handle, call: tuple[Any, ...]) -> int:
        return self._raw(card, _CALLS[call]) if call in _CALLS else _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _raw(self, card: _Handle, key: str) -> int:
        """A value in NVML's unit."""
        self._answers(card)
        if key not in card.values:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if isinstance(card, FakeCard) and key in _GARBAGE and card.fault("garbage"):
            return _GARBAGE[key]
        return round(card.values[key] / BY_KEY[key].nvml_scale)

    def _answers(self, card: _Handle) -> None:
        if isinstance(card, FakeCard):
            seconds = self._clock() - self._start
            if seconds - card.seconds > _STEP_SECONDS:
                card.advance(seconds)
            while card.fault("hang") and not self._released.wait(_STEP_SECONDS):
                card.advance(self._clock() - self._start)
            if card.fault("lost"):
                _fail(pynvml.NVML_ERROR_GPU_IS_LOST)

    def nvmlInit(self) -> None:
        self.fleet.advance(self._clock() - self._start)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.fleet.driver_version

    def nvmlDeviceGetCount(self) -> int:
        self.fleet.advance(self._clock() - self._start)
        return len(self.fleet.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        card = sorted(self.fleet.cards, key=lambda card: card.index)[index]
        if card.fault("lost"):
            _fail(pynvml.NVML_ERROR_GPU_IS_LOST)
        return card

    def nvmlDeviceGetUUID(self, card: _Handle) -> str:
        return card.uuid

    def nvmlDeviceGetName(self, card: _Handle) -> str:
        return card.model if isinstance(card, FakeCard) else f"NVIDIA MIG {card.profile}"

    def nvmlDeviceGetMinorNumber(self, card: FakeCard) -> int:
        return card.minor

    def nvmlDeviceGetSerial(self, card: FakeCard) -> str:
        return card.serial or _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(busId=card.pci_bus_id)

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        self._answers(card)
        return [int(bool(card.instances))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        return len(card.instances)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeInstance:
        return card.instances[index]

    def nvmlDeviceGetGpuInstanceId(self, instance: FakeInstance) -> int:
        return instance.id

    def nvmlDeviceGetComputeInstanceId(self, instance: FakeInstance) -> int:
        return instance.compute_instance

    def nvmlDeviceGetUtilizationRates(self, card: FakeCard) -> Any:
        self._answers(card)
        if card.instances:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        gpu = self._raw(card, "gpu_util_ratio")
        memory = self._raw(card, "memory_copy_util_ratio") if "memory_copy_util_ratio" in card.values else 0
        return SimpleNamespace(gpu=gpu, memory=memory)

    def nvmlDeviceGetMemoryInfo(self, card: _Handle, version: int | None = None) -> Any:
        if version is not None and "memory_reserved_bytes" not in card.values:
            _fail(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)  # a driver before 510
        parts = ("total", "free", "used") if version is None else ("total", "free", "used", "reserved")
        return SimpleNamespace(**{part: self._raw(card, f"memory_{part}_bytes") for part in parts})

    def nvmlDeviceGetBAR1MemoryInfo(self, card: _Handle) -> Any:
        parts = {"bar1Total": "bar1_total_bytes", "bar1Used": "bar1_used_bytes", "bar1Free": "bar1_free_bytes"}
        return SimpleNamespace(**{part: self._raw(card, key) for part, key in parts.items()})

    def nvmlDeviceGetGridLicensableFeatures_v4(self, card: FakeCard) -> Any:
        held = self._raw(card, "vgpu_license_status")
        feature = SimpleNamespace(featureState=held)
        return SimpleNamespace(isGridLicenseSupported=1, licensableFeaturesCount=1, gridLicensableFeatures=[feature])

    def nvmlDeviceGetSramEccErrorStatus(self, card: FakeCard, status: Any) -> int:
        status._obj.bThresholdExceeded = self._raw(card, "sram_threshold_exceeded")  # noqa: SLF001
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, card: FakeCard) -> list[Any]:
        self._answers(card)
        return [
            SimpleNamespace(
                pid=int(process["pid"]),
                usedGpuMemory=process.get("memory_bytes"),
                gpuInstanceId=int(process.get("instance", 0xFFFFFFFF)),
            )
            for process in card.processes
        ]

    def nvmlDeviceGetFieldValues(self, card: FakeCard, fields: list[tuple[int, int]]) -> list[Any]:
        self._answers(card)
        return [_field_value(card, field) for field, _ in fields]

    def nvmlGpmQueryDeviceSupport(self, card: FakeCard) -> Any:
        return SimpleNamespace(isSupportedDevice=int(card.profiling))

    def nvmlGpmSampleAlloc(self) -> Any:
        number = len(self._samples) + 1
        self._samples[number] = self.fleet.cards[0]
        return ctypes.cast(ctypes.c_void_p(number), pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self._samples[_number(sample)] = self.fleet.cards[0]

    def nvmlGpmSampleGet(self, card: FakeCard, sample: Any) -> None:
        self._answers(card)
        if card.instances:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._samples[_number(sample)] = card

    def nvmlGpmMigSampleGet(self, card: FakeCard, instance: int, sample: Any) -> None:
        self._answers(card)
        self._samples[_number(sample)] = next(found for found in card.instances if found.id == instance)

    def nvmlGpmMetricsGet(self, request: Any) -> None:
        holder = self._samples[_number(request.sample2)]
        for slot in range(request.numMetrics):
            answer = request.metrics[slot]
            metric = _GPM.get(answer.metricId)
            known = metric is not None and metric.key in holder.values
            answer.nvmlReturn = pynvml.NVML_SUCCESS if known else pynvml.NVML_ERROR_NOT_SUPPORTED
            if metric is not None and known:
                answer.value = holder.values[metric.key] / metric.nvml_scale

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceGetSupportedEventTypes(self, card: FakeCard) -> int:
        del card
        return 8

    def nvmlDeviceRegisterEvents(self, card: FakeCard, types: int, event_set: object) -> None:
        del card, types, event_set

    def nvmlEventSetWait_v2(self, event_set: object, timeout: int) -> Any:
        del event_set
        seconds = self._clock() - self._start
        for card in self.fleet.cards:
            for fault in card.faults:
                event = (card.uuid, fault.code, fault.at)
                if fault.kind == "xid" and fault.active(seconds) and event not in self._reported:
                    self._reported.add(event)
                    return SimpleNamespace(device=card, eventType=8, eventData=fault.code, gpuInstanceId=0xFFFFFFFF)
        if timeout:
            time.sleep(timeout / 1000)
        return _fail(pynvml.NVML_ERROR_TIMEOUT)


def _field_value(card: FakeCard, field: int) -> Any:
    metric = _FIELDS.get(field)
    answer = pynvml.c_nvmlFieldValue_t()
    answer.fieldId = field
    if metric is None or metric.key not in card.values:
        answer.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return answer
    answer.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    answer.value.ullVal = round(card.values[metric.key] / metric.nvml_scale)
    return answer


def _number(sample: Any) -> int:
    return int(ctypes.cast(sample, ctypes.c_void_p).value or 0)


def _fail(code: int) -> NoReturn:
    raise pynvml.NVMLError(code)
