"""Pretended cards, which behave: gauges follow a load, counters run on, faults come and go."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

from exporter.catalog import BY_KEY, CATALOG

GIB: Final = float(1 << 30)
_Spec = tuple[float, float, float, float, bool, bool]
# Memory in GiB, power limit and idle power in W, SM clock in Hz, whether GPM profiles it, whether it has NVLink 5.
_MODELS: Final[dict[str, _Spec]] = {
    "B200": (180, 1000, 140, 1.965e9, True, True),
    "H200": (141, 700, 75, 1.98e9, True, False),
    "H100": (80, 700, 70, 1.98e9, True, False),
    "A100": (80, 400, 55, 1.41e9, False, False),
    "L40S": (45, 350, 35, 2.52e9, False, False),
    "L4": (23, 72, 12, 2.04e9, False, False),
    "T4": (15, 70, 9, 1.59e9, False, False),
}


def _spec_of(model: str) -> _Spec:
    return next((spec for name, spec in _MODELS.items() if name in model), _MODELS["A100"])


def is_profiled(model: str) -> bool:
    """Whether the driver profiles cards of this model by GPM."""
    return _spec_of(model)[4]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong with a card from ``at`` on, for ``lasts`` seconds: lost, hang, garbage or xid."""

    kind: str
    at: float = 0.0
    lasts: float = math.inf
    code: int = 79

    def active(self, seconds: float) -> bool:
        """Whether it goes wrong ``seconds`` after the start."""
        return self.at <= seconds < self.at + self.lasts


@dataclass(slots=True)
class FakeInstance:
    """A MIG device of a pretended card."""

    id: int
    profile: str
    uuid: str
    compute_instance: int = 0
    values: dict[str, float] = field(default_factory=dict)

    @property
    def slices(self) -> int:
        """Compute slices of its GPU instance; 1 where the profile isn't known."""
        match = re.search(r"(\d+)g\.", self.profile)
        return int(match[1]) if match else 1


@dataclass(slots=True)
class FakeCard:
    """One pretended card; ``values`` hold what it answers, in base units by catalogue key."""

    uuid: str
    index: int
    minor: int
    pci_bus_id: str
    model: str
    serial: str = ""
    load: float | str = "wave"
    profiling: bool = False
    only_values: bool = False
    fixed: dict[str, float | None] = field(default_factory=dict)
    instances: list[FakeInstance] = field(default_factory=list)
    processes: list[dict[str, float]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def fault(self, kind: str) -> bool:
        """Whether a fault of this kind is on now."""
        return any(fault.kind == kind and fault.active(self.seconds) for fault in self.faults)

    def advance(self, seconds: float) -> None:
        """Move to ``seconds`` after the start: gauges follow the load, counters run on."""
        elapsed, self.seconds = max(0.0, seconds - self.seconds), seconds
        gauges = {} if self.only_values else self._gauges(self.busy(seconds))
        for key, value in gauges.items():
            self.values[key] = value
        for key in () if self.only_values else _COUNTERS:
            if key in _NVLINK_5 and not self._spec()[5]:
                continue
            self.values[key] = self.values.get(key, 0.0) + self._rate_of(key) * elapsed
        for key, fixed in self.fixed.items():
            if fixed is None:
                self.values.pop(key, None)
            else:
                self.values[key] = fixed
        for instance in self.instances:
            _fill_instance(self, instance)

    def busy(self, seconds: float) -> float:
        """The load at a time, 0 to 1."""
        if isinstance(self.load, str):
            return (1 + math.sin(seconds / 90 + self.index)) / 2
        return self.load

    def _spec(self) -> _Spec:
        return _spec_of(self.model)

    def _gauges(self, busy: float) -> dict[str, float]:
        memory, limit, idle, clock, *_ = self._spec()
        total, reserved = memory * GIB, 0.5 * GIB
        used = round(busy * 0.9 * (total - reserved))
        power = idle + busy * (limit - idle) * 0.95
        ratio = round(busy, 4)
        return {
            "gpu_util_ratio": round(busy, 2), "memory_copy_util_ratio": round(busy / 2, 2),
            "encoder_util_ratio": 0, "decoder_util_ratio": 0, "jpeg_util_ratio": 0, "optical_flow_util_ratio": 0,
            "memory_total_bytes": total, "memory_used_bytes": used, "memory_reserved_bytes": reserved,
            "memory_free_bytes": total - reserved - used,
            "bar1_total_bytes": 128 * GIB, "bar1_used_bytes": 2 * GIB, "bar1_free_bytes": 126 * GIB,
            "power_watts": power, "power_instant_watts": power, "power_limit_watts": limit,
            "power_limit_enforced_watts": limit, "power_limit_default_watts": limit,
            "power_limit_minimum_watts": limit / 3.5, "power_limit_maximum_watts": limit,
            "temperature_celsius": round(28 + 45 * busy), "memory_temperature_celsius": round(34 + 50 * busy),
            "temperature_margin_celsius": round(60 - 45 * busy), "temperature_slowdown_celsius": 87,
            "temperature_shutdown_celsius": 92, "temperature_maximum_celsius": 83,
            "memory_temperature_maximum_celsius": 95,
            "sm_clock_hertz": clock if busy > 0.05 else 3.45e8, "graphics_clock_hertz": clock,
            "memory_clock_hertz": 2.619e9, "video_clock_hertz": 1.5e9, "sm_clock_maximum_hertz": clock,
            "memory_clock_maximum_hertz": 2.619e9, "performance_state": 0,
            "throttle_reasons_bitmask": 4 if busy > 0.9 else (1 if busy < 0.05 else 0),
            "pcie_link_generation": 5, "pcie_link_generation_maximum": 5, "pcie_link_width": 16,
            "pcie_link_width_maximum": 16, "nvlink_links": 18, "ecc_mode": 1, "sram_threshold_exceeded": 0,
            "retired_pages_pending": 0, "row_remap_failed": 0, "row_remap_pending": 0, "recovery_action": 0,
            "persistence_mode": 1, "compute_mode": 0,
            "pcie_transmit_bytes_per_second": busy * 2e9, "pcie_receive_bytes_per_second": busy * 3e9,
            "nvlink_transmit_bytes_per_second": busy * 9e10, "nvlink_receive_bytes_per_second": busy * 9e10,
        } | {key: min(1.0, ratio * share) for key, share in _PROFILE.items()}  # fmt: skip

    def _rate_of(self, key: str) -> float:
        """By how much a counter grows in a second."""
        values = self.values
        return {
            "energy_joules_total": values.get("power_watts", 0.0),
            "pcie_transmit_bytes_total": values.get("pcie_transmit_bytes_per_second", 0.0),
            "pcie_receive_bytes_total": values.get("pcie_receive_bytes_per_second", 0.0),
            "nvlink_transmit_bytes_total": values.get("nvlink_transmit_bytes_per_second", 0.0),
            "nvlink_receive_bytes_total": values.get("nvlink_receive_bytes_per_second", 0.0),
            "throttle_power_seconds_total": 0.2 if values.get("throttle_reasons_bitmask") == 4 else 0.0,
        }.get(key, 0.0)


_COUNTERS: Final = tuple(metric.key for metric in CATALOG if metric.kind == "counter")
_NVLINK_5: Final = frozenset(metric.key for metric in CATALOG if (metric.nvml_field or 0) in range(201, 223))
_PROFILE: Final = {
    "engine_active_ratio": 1.0, "sm_active_ratio": 0.85, "sm_occupancy_ratio": 0.4, "tensor_active_ratio": 0.55,
    "dram_active_ratio": 0.45, "fp64_active_ratio": 0.0, "fp32_active_ratio": 0.12, "fp16_active_ratio": 0.05,
    "integer_active_ratio": 0.1, "tensor_imma_active_ratio": 0.0, "tensor_hmma_active_ratio": 0.5,
    "tensor_dfma_active_ratio": 0.0,
}  # fmt: skip


@dataclass(slots=True)
class FakeFleet:
    """The cards of one pretended node."""

    cards: list[FakeCard]
    driver_version: str = "580.105.08"

    def advance(self, seconds: float) -> None:
        """Move every card to ``seconds`` after the start."""
        for card in self.cards:
            card.advance(seconds)


def _fill_instance(card: FakeCard, instance: FakeInstance) -> None:
    """An instance works like its card, with its share of the memory."""
    if card.only_values:
        return
    share = min(1.0, instance.slices / 8 if instance.slices < 7 else 1.0)
    for key, value in card.values.items():
        metric = BY_KEY[key]
        if metric.scope == "instance":
            instance.values[key] = value * share if metric.unit == "bytes" else value
