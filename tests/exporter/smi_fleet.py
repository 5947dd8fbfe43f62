"""Turns an ``nvidia-smi -q -x`` report into a fleet that ``--fake`` understands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

_MIB = 1048576.0
# Catalogue key: the elements that hold it, by driver age, and the factor to base units.
_ELEMENTS: dict[str, tuple[tuple[str, ...], float]] = {
    "gpu_util_ratio": (("utilization/gpu_util",), 0.01),
    "memory_copy_util_ratio": (("utilization/memory_util",), 0.01),
    "encoder_util_ratio": (("utilization/encoder_util",), 0.01),
    "decoder_util_ratio": (("utilization/decoder_util",), 0.01),
    "jpeg_util_ratio": (("utilization/jpeg_util",), 0.01),
    "optical_flow_util_ratio": (("utilization/ofa_util",), 0.01),
    "memory_total_bytes": (("fb_memory_usage/total",), _MIB),
    "memory_used_bytes": (("fb_memory_usage/used",), _MIB),
    "memory_free_bytes": (("fb_memory_usage/free",), _MIB),
    "memory_reserved_bytes": (("fb_memory_usage/reserved",), _MIB),
    "bar1_total_bytes": (("bar1_memory_usage/total",), _MIB),
    "bar1_used_bytes": (("bar1_memory_usage/used",), _MIB),
    "bar1_free_bytes": (("bar1_memory_usage/free",), _MIB),
    "power_watts": (
        (
            "gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw",
            "gpu_power_readings/instant_power_draw", "power_readings/power_draw",
        ),
        1.0,
    ),
    "power_limit_watts": (
        ("gpu_power_readings/requested_power_limit", "gpu_power_readings/current_power_limit",
         "gpu_power_readings/power_limit", "power_readings/power_limit"), 1.0,
    ),
    "temperature_celsius": (("temperature/gpu_temp",), 1.0),
    "memory_temperature_celsius": (("temperature/memory_temp",), 1.0),
    "fan_speed_ratio": (("fan_speed",), 0.01),
    "sm_clock_hertz": (("clocks/sm_clock",), 1e6),
    "memory_clock_hertz": (("clocks/mem_clock",), 1e6),
    "graphics_clock_hertz": (("clocks/graphics_clock",), 1e6),
    "video_clock_hertz": (("clocks/video_clock",), 1e6),
    "sm_clock_maximum_hertz": (("max_clocks/sm_clock",), 1e6),
    "performance_state": (("performance_state",), 1.0),
    "pcie_link_generation": (("pci/pci_gpu_link_info/pcie_gen/current_link_gen",), 1.0),
    "pcie_link_width": (("pci/pci_gpu_link_info/link_widths/current_link_width",), 1.0),
    "pcie_replays_total": (("pci/replay_counter",), 1.0),
    "ecc_uncorrected_volatile_total": (("ecc_errors/volatile/dram_uncorrectable",), 1.0),
    "ecc_corrected_volatile_total": (("ecc_errors/volatile/dram_correctable",), 1.0),
    "remapped_rows_uncorrected_total": (("remapped_rows/remapped_row_unc",), 1.0),
    "remapped_rows_corrected_total": (("remapped_rows/remapped_row_corr",), 1.0),
}  # fmt: skip


def fleet_from_report(path: Path) -> dict[str, Any]:
    """A fleet document; what the report has as N/A is unsupported."""
    root = ET.parse(path).getroot()
    cards = [_card(gpu, index) for index, gpu in enumerate(root.findall("gpu"))]
    return {"driver_version": root.findtext("driver_version") or "", "gpus": cards}


def _card(gpu: ET.Element, index: int) -> dict[str, Any]:
    model = gpu.findtext("product_name") or "unknown"
    card: dict[str, Any] = {
        "model": model if model.strip() else "unknown",
        "index": index,
        "pci_bus_id": gpu.get("id") or "",
        "only_values": True,
        "values": _values(gpu),
        "mig": [_instance(mig) for mig in gpu.findall("mig_devices/mig_device")],
        "processes": [
            {"pid": int(process.findtext("pid") or 0)}
            for process in gpu.findall("processes/process_info")
            if process.findtext("type") == "C"
        ],
    }
    minor = _number(gpu.findtext("minor_number"))
    if minor is not None:
        card["minor"] = int(minor)
    return card


def _instance(mig: ET.Element) -> dict[str, Any]:
    wanted = {key: value for key, value in _values(mig).items() if key.startswith(("memory_", "bar1_"))}
    return {
        "id": int(mig.findtext("gpu_instance_id") or 0),
        "compute_instance": int(mig.findtext("compute_instance_id") or 0),
        "profile": "",
        "values": wanted,
    }


def _values(element: ET.Element) -> dict[str, float]:
    values = {}
    for key, (places, scale) in _ELEMENTS.items():
        for place in places:
            number = _number(element.findtext(place))
            if number is not None:
                values[key] = number * scale
                break
    return values


def _number(text: str | None) -> float | None:
    match = re.match(r"P?(-?\d+(?:\.\d+)?)(?:\s|x|$|%)", (text or "").strip())
    return float(match[1]) if match else None
