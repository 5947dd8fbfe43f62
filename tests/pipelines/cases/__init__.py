"""Tables of replays: a scene and what its report must hold. Numbers are worked out by hand from the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.pipelines.scene import Scene


@dataclass(frozen=True)
class Case:
    """A scene, and the part of its report that the case is about."""

    name: str
    scene: Scene
    expected: Mapping[str, Any]


def tenant(name: str, **parts: Any) -> dict[str, Any]:
    """One tenant's row; hours by name (``allocated=1``) go below gpu_hours, lines (``usage="3.00"``) below charges."""
    hours = ("allocated", "active", "reserved", "on_demand", "overflow", "spot", "reserved_unused")
    lines = ("usage", "reservation", "idle", "energy", "overhead", "credit", "adjustment", "total")
    row: dict[str, Any] = {"tenant": name, "gpu_hours": {}, "charges": {}}
    for key, value in parts.items():
        (row["gpu_hours"] if key in hours else row["charges"] if key in lines else row)[key] = value
    return row


def fleet(**hours: Any) -> dict[str, Any]:
    """The fleet's row; ``idle=1`` is idle_gpu_hours."""
    plain = ("devices", "energy_kwh", "cost", "billed", "unbilled")
    return {key if key in plain else f"{key}_gpu_hours": value for key, value in hours.items()}


def workload(name: str, hours: float, **parts: Any) -> dict[str, Any]:
    return {"workload": name, "gpu_hours": hours, **parts}


def finding(code: str, **parts: Any) -> dict[str, Any]:
    return {"code": code, **parts}
