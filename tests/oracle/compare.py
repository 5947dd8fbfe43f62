"""Where two reports of one replay directory differ.

Hours, ratios and energy count as equal within 1.5e-6 (both sides round to 6 decimals), money exactly as text, findings
by count where a count has one meaning and by presence where its unit is a matter of taste. A workload's cost may
differ by one minor unit where it has reserved hours: what those are rounded with is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

TOLERANCE = 1.5e-6
COUNTED = (
    "invalid_sample",
    "counter_reset",
    "frozen_series",
    "contradicting_series",
    "duplicate_sample",
    "bad_line",
    "gpus_not_tracked",
)
PRESENT = ("gap", "conflicting_owner", "unknown_price")
MONEY = ("cost", "billed", "unbilled")


def differences(oracle: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Each difference as `where: oracle has X, the other Y`; empty where the reports agree."""
    return list(_all(oracle, other))


def _all(oracle: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    yield from _equal("currency", oracle["currency"], other["currency"])
    yield from _mapping("period", oracle["period"], other["period"])
    yield from _mapping("fleet", oracle["fleet"], other["fleet"])
    yield from _equal("unattributed_gpu_hours", oracle["unattributed_gpu_hours"], other["unattributed_gpu_hours"])
    for name, mine, theirs in _pairs("tenants", "tenant", oracle, other):
        if mine is None or theirs is None:
            yield f"tenants[{name}]: {'only the other lists it' if mine is None else 'the other lacks it'}"
        else:
            yield from _tenant(name, mine, theirs)
    yield from _findings(oracle["findings"], other["findings"])


def _tenant(name: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    where = f"tenants[{name}]"
    yield from _mapping(f"{where}.gpu_hours", mine["gpu_hours"], theirs["gpu_hours"])
    yield from _mapping(f"{where}.charges", mine["charges"], theirs["charges"])
    for key in ("utilization", "coverage", "energy_kwh", "co2e_kg", "waste"):
        # Whether a tenant that held nothing used no energy or an unknown one is a matter of taste.
        if key in ("utilization", "coverage", "waste") or mine["gpu_hours"]["allocated"] or theirs[key]:
            yield from _equal(f"{where}.{key}", mine[key], theirs[key])
    reserved = bool(mine["gpu_hours"]["reserved"])
    for workload, one, two in _pairs("workloads", "workload", mine, theirs):
        there = f"{where}.workloads[{workload}]"
        if one is None or two is None:
            yield f"{there}: {'only the other lists it' if one is None else 'the other lacks it'}"
            continue
        for key in ("user", "gpu_hours", "utilization", "coverage"):
            yield from _equal(f"{there}.{key}", one[key], two[key])
        if not (reserved and _within_a_unit(one["cost"], two["cost"])):
            yield from _equal(f"{there}.cost", one["cost"], two["cost"])


def _findings(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    one = {finding["code"]: finding["count"] for finding in mine}
    two = {finding["code"]: finding["count"] for finding in theirs}
    if len(two) < len(theirs):
        yield "findings: a code stands more than once"
    for code in COUNTED:
        yield from _equal(f"findings[{code}]", one.get(code, 0), two.get(code, 0))
    for code in PRESENT:
        if code in one and code not in two:
            yield f"findings[{code}]: oracle has it, the other doesn't"


def _pairs(key: str, name: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    one, two = ({entry[name]: entry for entry in report[key]} for report in (mine, theirs))
    if len(two) < len(theirs[key]):
        yield f"{key} more than once", None, {}
    for found in sorted({*one, *two}):
        yield found, one.get(found), two.get(found)


def _mapping(where: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for key, value in mine.items():
        yield from _equal(f"{where}.{key}", value, theirs.get(key, "nothing"))


def _equal(where: str, mine: Any, theirs: Any) -> Iterator[str]:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (mine, theirs))
    if abs(mine - theirs) > TOLERANCE if numbers else mine != theirs:
        yield f"{where}: oracle has {mine!r}, the other {theirs!r}"


def _within_a_unit(mine: str, theirs: str) -> bool:
    unit = Decimal(1).scaleb(Decimal(mine).as_tuple().exponent)  # type: ignore[arg-type]
    return abs(Decimal(mine) - Decimal(theirs)) <= unit
