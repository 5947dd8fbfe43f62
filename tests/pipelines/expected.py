"""How a report differs from what a test expects of it, and what holds in every report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

TOLERANCE: Final = 2e-6  # reports give six decimals
NAMES: Final = ("tenant", "workload", "code")


def differences(expected: Any, report: Any, where: str = "", tolerance: float = TOLERANCE) -> Iterator[str]:
    """Yield where the report lacks or contradicts what is expected; objects in lists go by tenant, workload or code."""
    if isinstance(expected, Mapping):
        for key, value in expected.items():
            if not str(key).startswith("_"):
                found = report.get(key, "nothing")
                yield from differences(value, found, f"{where}.{key}", tolerance)
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        for item in expected:
            name = next(k for k in NAMES if k in item)
            there = [entry for entry in report if entry[name] == item[name]]
            if len(there) != 1:
                yield f"{where}[{item[name]}]: there are {len(there)}, of {[entry[name] for entry in report]}"
            else:
                yield from differences(item, there[0], f"{where}[{item[name]}]", tolerance)
    elif isinstance(expected, (int, float)) and not isinstance(expected, bool):
        near = isinstance(report, (int, float)) and abs(report - expected) <= tolerance
        if not near:
            yield f"{where}: expected {expected}, got {report!r}"
    elif expected != report:
        yield f"{where}: expected {expected!r}, got {report!r}"


def imbalances(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield where hours or cents of a report don't add up."""
    fleet, tenants = report["fleet"], report["tenants"]
    states = ("allocated", "idle", "stranded", "down", "unobserved")
    parts = sum(fleet[f"{state}_gpu_hours"] for state in states)
    if abs(parts - fleet["capacity_gpu_hours"]) > 1e-5:
        yield f"capacity is {fleet['capacity_gpu_hours']}, its parts are {parts}"
    if min(value for key, value in fleet.items() if key.endswith("_gpu_hours")) < 0:
        yield "negative hours"
    held = sum(t["gpu_hours"]["allocated"] for t in tenants) + report["unattributed_gpu_hours"]
    if abs(held - fleet["allocated_gpu_hours"]) > 1e-5:
        yield f"allocated is {fleet['allocated_gpu_hours']}, tenants and nobody hold {held}"
    if Decimal(fleet["cost"]) != Decimal(fleet["billed"]) + Decimal(fleet["unbilled"]):
        yield "cost is not billed and unbilled"
    if Decimal(fleet["billed"]) != sum((Decimal(t["charges"]["total"]) for t in tenants), Decimal(0)):
        yield "billed is not the sum of the tenants' totals"
    for tenant in tenants:
        yield from (f"{tenant['tenant']}: {text}" for text in _tenant_imbalances(tenant))


def _tenant_imbalances(tenant: Mapping[str, Any]) -> Iterator[str]:
    hours, charges = tenant["gpu_hours"], tenant["charges"]
    if sum(Decimal(v) for k, v in charges.items() if k != "total") != Decimal(charges["total"]):
        yield "the lines don't add up to the total"
    if any(amount.startswith("-") and not Decimal(amount) for amount in charges.values()):
        yield "a zero has a sign"
    if abs(sum(hours[c] for c in ("reserved", "on_demand", "overflow", "spot")) - hours["allocated"]) > 1e-5:
        yield "the classes don't add up to what is allocated"
    if abs(sum(w["gpu_hours"] for w in tenant["workloads"]) - hours["allocated"]) > 1e-5:
        yield "the workloads don't add up to what is allocated"
    costs = sum(Decimal(w["cost"]) for w in tenant["workloads"])
    if not hours["reserved"] and costs != Decimal(charges["usage"]):
        yield f"the workloads' costs are {costs}, the usage line is {charges['usage']}"
    if hours["reserved"] and costs < Decimal(charges["usage"]):
        yield f"the workloads' costs {costs} are below the usage line {charges['usage']}"
