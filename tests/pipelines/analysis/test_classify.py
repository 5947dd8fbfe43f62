"""What a window's numbers are told to be, and when they are told to be nothing."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from pipelines.analysis.classify import classify
from pipelines.analysis.jobs import settled
from pipelines.instants import HOUR_MS
from tests.pipelines.analysis.windows import frame, window

BY_TURNS: Final[dict[str, Any]] = {"swing": 0.35, "low": 0.4, "low_engine": 0.03, "stalls": 9.0, "stalled": 0.4}


def told(**changed: Any) -> str:
    return str(classify(frame(window(**changed)))["cause"].item())


@pytest.mark.parametrize(
    ("cause", "changed"),
    [
        ("compute", {}),
        ("compute", {"tensor": 0.0, "tensor_part": 0.0, "fp32": 0.0, "fp64": 0.5}),
        ("idle", {"idle_ms": HOUR_MS, "idle_activity": 0.001}),
        ("thermal", {"thermal_throttle": 0.9, "clock_part": 0.6}),
        ("power", {"power_throttle": 0.9, "clock_part": 0.7}),
        ("straggler", {"behind": 12.0, "gap": -0.3}),
        ("checkpoint", {**BY_TURNS, "stalls": 3.0, "stalled": 0.15, "written": 1.0}),
        ("input", {**BY_TURNS, "written": 0.0}),
        ("pipeline_bubble", {"swing": 0.3, "low": 0.35, "low_engine": 0.98, "together": 0.35, "sm": 0.45}),
        ("host_copies", {"pcie": 4e9, "engine": 0.4, "sm": 0.3}),
        ("communication", {"nvlink_part": 0.3, "sm": 0.45}),
        ("communication", {"pcie_both": 6e9, "pcie": 6e9, "sm": 0.45}),
        ("memory_bandwidth", {"dram": 0.75, "tensor_part": 0.08}),
        ("no_tensor_cores", {"tensor": 0.001, "tensor_part": 0.001, "fp32": 0.5}),
        ("overprovisioned", {"sm": 0.12, "sm_peak": 0.15, "memory_peak": 0.2, "tensor": 0.01, "engine": 0.5}),
    ],
)
def test_a_cause_is_told_by_its_signature(cause: str, changed: dict[str, Any]) -> None:
    assert told(**changed) == cause


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"sm": 0.5, "engine": 0.6, "tensor": 0.15}, id="gaps too short for the interval"),
        pytest.param({"sm": 0.15, "sm_peak": 0.2, "engine": 0.5, "tensor": 0.01}, id="small kernels, full memory"),
        pytest.param(
            {"sm": 0.12, "sm_peak": 0.15, "memory_peak": 0.2, "tensor": 0.01, "engine": 0.5, "smaller": 0.0},
            id="little used, and the smallest there is",
        ),
        pytest.param({"nvlink_part": 0.3, "sm": 0.45, "engine": None}, id="nobody knows whether a kernel ran"),
        pytest.param(
            {**dict.fromkeys(("sm", "tensor", "tensor_part", "dram", "fp32", "fp64", "sm_peak", "swing"))},
            id="GPU_UTIL and no more",
        ),
    ],
)
def test_what_fits_no_cause_is_unknown(changed: dict[str, Any]) -> None:
    assert told(**changed) == "unknown"


@pytest.mark.parametrize(
    ("changed", "open_cause"),
    [
        ({"clock_part": 0.6, "thermal_throttle": None}, "slow clocks, and nobody measured heat"),
        ({"thermal_throttle": 0.9, "clock_part": None}, "heat, and nobody measured clocks"),
        ({"tensor": 0.001, "tensor_part": 0.001, "fp32": None, "fp64": None}, "FP32 or FP64"),
        ({"fp32": 0.5, "tensor": None, "tensor_part": None}, "with tensor cores or without"),
    ],
)
def test_two_causes_that_measuring_more_would_tell_apart_are_unknown(changed: dict[str, Any], open_cause: str) -> None:
    assert told(**changed) == "unknown", open_cause


def test_what_was_not_measured_and_nothing_tells_for_stands_in_nobodys_way() -> None:
    missing = dict.fromkeys(("nvlink", "nvlink_part", "receive", "transmit", "pcie", "pcie_both", "copy"))
    assert told(**missing) == "compute"


@pytest.mark.parametrize("cause", ["idle", "overprovisioned"])
def test_nobody_is_accused_where_engine_activity_is_missing(cause: str) -> None:
    quiet = {"sm": 0.01, "sm_peak": 0.02, "tensor": 0.0, "dram": 0.0, "memory_peak": 0.1, "engine": None}
    assert told(**quiet) != cause


def test_confidence_grows_with_the_distance_from_the_limits() -> None:
    decided = classify(frame(*(window(hour=h, dram=d, tensor_part=0.05) for h, d in enumerate((0.46, 0.55, 0.8)))))
    assert decided["cause"].to_list() == ["memory_bandwidth"] * 3
    low, middle, high = decided["confidence"].to_list()
    assert 0.5 <= low < middle < high <= 1.0


def test_the_unknown_has_no_confidence_and_no_evidence() -> None:
    decided = classify(frame(window(sm=0.5, engine=0.6))).row(0, named=True)
    assert (decided["confidence"], json.loads(decided["evidence"])) == (None, [])


def test_evidence_is_the_numbers_that_decided() -> None:
    decided = classify(frame(window(pcie=4e9, engine=0.4, sm=0.3))).row(0, named=True)
    assert json.loads(decided["evidence"]) == [
        {"feature": "pcie", "value": 4e9, "is": ">=", "limit": 1e9},
        {"feature": "engine", "value": 0.4, "is": "<", "limit": 0.72},
        {"feature": "sm", "value": 0.3, "is": "<", "limit": 0.55},
    ]


def windows_of(*rows: dict[str, Any]) -> list[str]:
    decided = classify(frame(*(row | {"hour": hour} for hour, row in enumerate(rows))))
    return settled(decided)["cause"].to_list()


def test_a_straggler_is_the_same_device_most_of_the_time() -> None:
    slow = [window(behind=9.0, gap=0.2, suspect=device) for device in ("a", "a", "b", "a")]
    assert windows_of(*slow) == ["straggler", "straggler", "unknown", "straggler"]


def test_who_ever_needed_the_card_holds_not_too_much_of_it() -> None:
    little = window(sm=0.1, sm_peak=0.12, memory_peak=0.2, tensor=0.01, engine=0.5)
    assert windows_of(little, little) == ["overprovisioned"] * 2
    assert windows_of(little, little, window(memory_peak=0.9)) == ["unknown", "unknown", "compute"]
    assert windows_of(little, window(memory_peak=0.2)) == ["unknown", "compute"]
