"""Every threshold of the analysis, with its source, and the signatures made of them.

Nothing else in the package holds a number that decides. docs/bottlenecks.md is generated from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DCGM: Final = "NVIDIA DCGM user guide, profiling metrics"
NVML: Final = "NVML reference, clocks event reasons"
LISTED: Final = "signatures in use at large sites, for means over 5 to 15 minutes (collected 2026-11)"
CHOSEN: Final = "chosen on simulated jobs of the families that thresholds may see"
MOVED: Final = "signatures in use say {}; moved on the same simulated jobs"


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that decides.

    Attributes:
        unit: "" for a ratio or a count.
        why: what it separates.
        source: where it comes from.
    """

    value: float
    unit: str
    why: str
    source: str


THRESHOLDS: Final[dict[str, Threshold]] = {
    "idle_activity": Threshold(0.05, "", "engine, SM, tensor and DRAM activity of a GPU on which nothing runs", LISTED),
    "idle_copies": Threshold(50e6, "bytes/s", "PCIe or NVLink traffic of a GPU on which nothing runs", CHOSEN),
    "busy": Threshold(0.1, "", "engine activity from which clocks and throttle reasons speak of work", CHOSEN),
    "throttled": Threshold(0.05, "", "share of time throttled that counts", LISTED),
    "slow_clock": Threshold(0.9, "", "SM clock, of the highest, below which throttling costs something", LISTED),
    "outlier": Threshold(
        3.5, "", "robust z of a rank that is no chance", "Iglewicz and Hoaglin 1993, modified z-score"
    ),
    "rank_gap": Threshold(0.06, "", "difference of activity below which ranks are alike", CHOSEN),
    "peers": Threshold(3, "", "devices of which one can differ from the others", "a median needs three"),
    "rank_noise": Threshold(0.015, "", "deviation between equal ranks: the scale of the robust z is no less", CHOSEN),
    "persistent": Threshold(0.5, "", "share of a straggler's windows that name the same device", CHOSEN),
    "restless": Threshold(0.06, "", "standard deviation of activity from which its shape is looked at", CHOSEN),
    "usual": Threshold(0.9, "", "quantile of a device's activity in an hour that counts as its usual one", CHOSEN),
    "far_below": Threshold(0.4, "", "activity, of the usual, that counts as low", CHOSEN),
    "swinging": Threshold(0.12, "", "standard deviation of a device that works by turns", CHOSEN),
    "often_low": Threshold(0.1, "", "share of time far below the usual that matters", CHOSEN),
    "low_in_turns": Threshold(0.08, "", "share of time far below the usual, of a stage that waits in turn", CHOSEN),
    "stalled": Threshold(0.05, "", "share of time in stalls of all devices that matters", CHOSEN),
    "stalls_by_turns": Threshold(3, "", "stalls in a window that make a saw-tooth", CHOSEN),
    "waits_inside": Threshold(0.5, "", "engine activity while low: above it a kernel waits, below it none runs", DCGM),
    "in_step": Threshold(0.7, "", "common part of the devices' swing from which they stand still together", CHOSEN),
    "checkpoint_copy": Threshold(50e6, "bytes/s", "copies to the host at the beginning of a stall", CHOSEN),
    "burst": Threshold(3, "", "such a copy, of the window's usual traffic to the host", CHOSEN),
    "written": Threshold(0.5, "", "share of stalls with such a copy that makes them checkpoints", CHOSEN),
    "kernels_always": Threshold(0.72, "", "engine activity of a loop whose host keeps up", CHOSEN),
    "kernels_wait": Threshold(0.72, "", "engine activity below which kernels wait for something outside", CHOSEN),
    "copies": Threshold(1e9, "bytes/s", "PCIe traffic of a loop that waits for copies", LISTED),
    "sm_for_copies": Threshold(0.55, "", "SM activity above which copies don't limit", MOVED.format("0.3")),
    "sm_busy": Threshold(
        0.55,
        "",
        "SM activity that says that the card works: 0.8 is wanted, 0.5 is too little",
        MOVED.format("0.6 to 0.8"),
    ),
    "sm_free": Threshold(0.62, "", "SM activity below which a kernel that runs all the time leaves SMs free", CHOSEN),
    "sm_at_work": Threshold(0.45, "", "SM activity from which unused tensor cores matter", MOVED.format("0.5")),
    "link": Threshold(0.1, "", "NVLink traffic, of what the links can do, of exposed communication", CHOSEN),
    "network": Threshold(
        2e9, "bytes/s", "traffic over PCIe in both directions at once, of cards that exchange", CHOSEN
    ),
    "tensor_beside_link": Threshold(0.2, "", "tensor activity, of the SM activity, of kernels that move data", LISTED),
    "dram_busy": Threshold(
        0.45, "", "DRAM activity of kernels that wait for memory; 0.8 is the most in practice", MOVED.format("0.5")
    ),
    "tensor_side": Threshold(0.25, "", "tensor activity, of the SM activity, of kernels that do little else", CHOSEN),
    "tensor_none": Threshold(0.02, "", "tensor activity of a program that has mixed precision off", LISTED),
    "tensor_little": Threshold(
        0.12, "", "tensor activity of kernels that do little else, where SM activity is missing", CHOSEN
    ),
    "pipe_busy": Threshold(
        0.12, "", "activity of one kind of pipe that shows computing: an active SM may only wait", DCGM
    ),
    "fp64_none": Threshold(0.05, "", "FP64 activity of a program that needs no double precision", CHOSEN),
    "fp32_used": Threshold(0.12, "", "FP32 activity of a program that computes in FP32", CHOSEN),
    "exists": Threshold(
        0.5, "", "a smaller slice or card exists, and this is none of the smallest", "NVIDIA MIG user guide"
    ),
    "half_memory": Threshold(0.5, "", "peak memory that fits half a card", LISTED),
    "half_sm": Threshold(0.45, "", "SM activity over five minutes, at its peak, that half a card can do", CHOSEN),
    "waits_measured": Threshold(
        0.1,
        "",
        "share of a loop's time in its loader's `next`, as the loop measured it, from which input is the cause",
        "as much as often_low asks of an inferred wait",
    ),
    "waits_not_measured": Threshold(
        0.05,
        "",
        "such a share below which input is not the cause, whatever samples look like",
        "half of it: between the two, what was inferred stands",
    ),
}
"""By name; units are those of FEATURES."""

Operator = Literal["<", ">="]


@dataclass(frozen=True, slots=True)
class Condition:
    """A feature compared with a threshold.

    Attributes:
        telling: true of few other causes: with it alone, and the rest not measured, the cause can't be ruled out.
        lenient: holds also where the feature was not measured: it only rules out.
    """

    feature: str
    operator: Operator
    threshold: str
    telling: bool = False
    lenient: bool = False
    absolute: bool = False

    @property
    def limit(self) -> float:
        """The threshold's value."""
        return THRESHOLDS[self.threshold].value


@dataclass(frozen=True, slots=True)
class Either:
    """Conditions of which one is enough."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What must hold for a cause; the first cause whose signature holds is the answer."""

    cause: str
    conditions: tuple[Condition | Either, ...]
    source: str

    def each(self) -> tuple[Condition, ...]:
        """All conditions, alternatives among them."""
        found: list[Condition] = []
        for condition in self.conditions:
            found += condition.conditions if isinstance(condition, Either) else [condition]
        return tuple(found)


SIGNATURES: Final[tuple[Signature, ...]] = (
    Signature(
        "thermal",
        (
            Condition("thermal_throttle", ">=", "throttled", telling=True),
            Condition("clock_part", "<", "slow_clock", telling=True),
            Condition("engine", ">=", "busy"),
        ),
        NVML,
    ),
    Signature(
        "power",
        (
            Condition("power_throttle", ">=", "throttled", telling=True),
            Condition("clock_part", "<", "slow_clock", telling=True),
            Condition("engine", ">=", "busy"),
        ),
        NVML,
    ),
    Signature(
        "straggler",
        (
            Condition("behind", ">=", "outlier", telling=True),
            Condition("gap", ">=", "rank_gap", absolute=True),
        ),
        "Lin et al., OSDI 2025: one rank slow in most steps; the others wait in the collective",
    ),
    Signature(
        "checkpoint",
        (
            Condition("stalled", ">=", "stalled"),
            Condition("written", ">=", "written", telling=True),
            Condition("low_engine", "<", "waits_inside"),
            Condition("together", ">=", "in_step"),
        ),
        LISTED,
    ),
    Signature(
        "pipeline_bubble",
        (
            Condition("swing", ">=", "swinging"),
            Condition("low", ">=", "low_in_turns"),
            Condition("low_engine", ">=", "waits_inside"),
            Condition("together", "<", "in_step", telling=True),
        ),
        "Huang et al., NeurIPS 2019: (p − 1) ÷ (m + p − 1) of a step, stage after stage",
    ),
    Signature(
        "input",
        (
            Condition("swing", ">=", "swinging"),
            Condition("stalled", ">=", "often_low"),
            Condition("stalls", ">=", "stalls_by_turns"),
            Condition("low_engine", "<", "waits_inside"),
            Condition("together", ">=", "in_step"),
            Condition("written", "<", "written", telling=True),
            Condition("pcie", "<", "copies", lenient=True),
        ),
        LISTED,
    ),
    Signature(
        "host_copies",
        (
            Condition("pcie", ">=", "copies", telling=True),
            Condition("engine", "<", "kernels_wait"),
            Condition("sm", "<", "sm_for_copies", lenient=True),
        ),
        LISTED,
    ),
    Signature(
        "communication",
        (
            Either(
                (
                    Condition("nvlink_part", ">=", "link", telling=True),
                    Condition("pcie_both", ">=", "network", telling=True),
                )
            ),
            Condition("engine", ">=", "kernels_always"),
            Either((Condition("sm", "<", "sm_free"), Condition("tensor_part", "<", "tensor_beside_link"))),
            Either((Condition("dram", "<", "dram_busy"), Condition("copy", "<", "dram_busy"))),
        ),
        DCGM + ": a collective's kernel holds the engine and few SMs",
    ),
    Signature(
        "memory_bandwidth",
        (
            Condition("dram", ">=", "dram_busy", telling=True),
            Either((Condition("tensor_part", "<", "tensor_side"), Condition("tensor", "<", "tensor_little"))),
        ),
        DCGM,
    ),
    Signature(
        "no_tensor_cores",
        (
            Condition("tensor", "<", "tensor_none", telling=True),
            Condition("fp32", ">=", "fp32_used", telling=True, lenient=True),
            Either((Condition("dram", "<", "dram_busy"), Condition("copy", "<", "dram_busy"))),
            Either((Condition("fp32", ">=", "fp32_used"), Condition("fp64", "<", "fp64_none"))),
            Condition("sm", ">=", "sm_at_work", lenient=True),
            Condition("engine", ">=", "kernels_always"),
        ),
        LISTED,
    ),
    Signature(
        "compute",
        (
            Condition("sm", ">=", "sm_busy"),
            Condition("engine", ">=", "kernels_always"),
            Either(
                (
                    Condition("tensor", ">=", "pipe_busy"),
                    Condition("fp32", ">=", "pipe_busy"),
                    Condition("fp64", ">=", "pipe_busy"),
                )
            ),
            Condition("stalled", "<", "often_low", lenient=True),
        ),
        DCGM,
    ),
    Signature(
        "overprovisioned",
        (
            Condition("smaller", ">=", "exists"),
            Condition("memory_peak", "<", "half_memory", telling=True),
            Condition("engine", ">=", "idle_activity"),
            Condition("sm_peak", "<", "half_sm"),
            Either((Condition("dram", "<", "half_sm"), Condition("copy", "<", "half_sm"))),
            Condition("pcie", "<", "copies", lenient=True),
            Condition("swing", "<", "swinging"),
        ),
        LISTED,
    ),
)
"""In the order of CAUSES."""
