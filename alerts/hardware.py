"""Alerts on cards: what broke, what is about to, what runs hot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.recording.states import EVENT_MINUTES, changed
from alerts.rule import Alert, Severity
from exporter.catalog import PREFIX
from exporter.xid import xid_class
from pipelines.promql.expressions import by
from pipelines.promql.normalise import BOARD
from pipelines.promql.recorded import (
    CONDITION,
    ECC_LOST,
    HELD,
    NODE_EXPECTED,
    NODE_PRESENT,
    NVLINK_ERRORS,
    STATE,
    XID_LAST,
    XID_RECENT,
)

CARD: Final = ("cluster", "node", "gpu", "uuid", "model")
_NODE: Final = ("cluster", "node")
_WHERE: Final = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
_WHICH: Final = "{{ $labels.model }}, {{ $labels.uuid }}"
_BOARD: Final = "gpuledger-health"

NVLINK_RECOVERIES: Final = 5
"""NVLink recoveries in an hour from which a link is looked at: single ones happen on healthy links."""
MISSING_FOR: Final = "5m"


def hardware() -> Iterator[Alert]:
    """Alerts by card and node."""
    yield from _xids()
    yield from _lasting_states()
    yield from _errors()
    yield from _missing()
    yield from _conditions()


def codes_of(tier: str) -> list[int]:
    """XID codes of one of NVIDIA's tiers of action."""
    return [code for code in range(1024) if xid_class(code) == tier]


def _xids() -> Iterator[Alert]:
    tiers: tuple[tuple[str, str, Severity, str], ...] = (
        ("GpuXidRestartNode", "restart_node", "critical", "Drain the node and restart it; the card has left the bus."),
        ("GpuXidResetGpu", "reset_gpu", "critical", "Drain the card and reset it; jobs on it have failed."),
        ("GpuXidWorkflow", "workflow", "warning", "Follow NVIDIA's workflow for the code before the card is used on."),
    )
    for name, tier, severity, step in tiers:
        yield _xid(name, tier, severity, step)
    # Of a card that was gone before the exporter started, the kernel's log tells no more than its bus address.
    unlisted = f'last_over_time({PREFIX}xid_last_timestamp_seconds{{uuid=""}}[5m])'
    yield Alert(
        name="GpuXidUnlistedCard",
        expr=f"time() - max by {by(*_NODE, 'xid')} ({unlisted}) < {EVENT_MINUTES * 60}",
        severity="critical",
        audience="platform",
        summary="XID {{ $labels.xid }} on a card of {{ $labels.node }} that the driver doesn't list",
        description="The kernel's log names it by its bus address alone, {{ $value | humanizeDuration }} ago. Look at "
        "dmesg and lspci; drain the node, and restart it.",
        dashboard=_BOARD,
        labels=(*_NODE, "xid"),
    )
    applications = _selected("application")
    # Who held the card when it came: a program that fails is gone before the next sample, and another one comes.
    holder = f"group by {by(*CARD, 'tenant')} (last_over_time({HELD}[2m]))"
    begun = f"{holder} and on {by(*BOARD)} ({applications} unless {applications} offset 1m)"
    code = f"max by {by(*BOARD)} ({XID_LAST})"
    yield Alert(
        name="GpuXidApplication",
        expr=f"max_over_time(({begun})[{EVENT_MINUTES}m:1m]) * on {by(*BOARD)} group_left () {code} "
        f"and on {by(*BOARD)} {applications}",
        severity="info",
        audience="tenant",
        summary=f"A program of {{{{ $labels.tenant }}}} failed on {_WHERE} (XID {{{{ $value }}}})",
        description=f"XID {{{{ $value }}}} on {_WHICH} is nearly always a fault of the program, such as an access out "
        "of bounds. Look at the job's log; if other programs fail on this card too, tell the platform team.",
        dashboard="gpuledger-workload",
        labels=(*CARD, "tenant"),
    )


def _selected(tier: str) -> str:
    return f'{XID_RECENT}{{xid=~"{"|".join(map(str, codes_of(tier)))}"}}'


def _xid(name: str, tier: str, severity: Severity, step: str) -> Alert:
    return Alert(
        name=name,
        expr=_selected(tier),
        severity=severity,
        audience="platform",
        summary=f"XID {{{{ $labels.xid }}}} on {_WHERE}",
        description=f"{_WHICH}: the driver reported it in the last {EVENT_MINUTES} minutes. {step}",
        dashboard=_BOARD,
        labels=(*CARD, "xid"),
    )


def _lasting_states() -> Iterator[Alert]:
    states: tuple[tuple[str, str, Severity, str, str], ...] = (
        (
            "GpuRecoveryActionNeeded",
            "recovery_action",
            "critical",
            f"The driver asks for recovery action {{{{ $value }}}} on {_WHERE}",
            "1 reset the card, 2 reboot the node, 3 drain its peers, 4 drain and reset. Drain first, then act.",
        ),
        (
            "GpuRowRemapFailed",
            "row_remap_failed",
            "critical",
            f"{_WHERE} has no spare memory rows left",
            "A row remap failed. Take the card out of service and have it replaced.",
        ),
        (
            "GpuRowRemapPending",
            "row_remap_pending",
            "warning",
            f"{_WHERE} waits for a reset to retire bad memory",
            "Reset the card when its job has ended; until then the bad row stays in use.",
        ),
        (
            "GpuSramErrorThreshold",
            "sram_threshold",
            "critical",
            f"{_WHERE} passed the SRAM error threshold",
            "Uncorrected SRAM errors passed what NVIDIA replaces boards for. Drain it and open a case.",
        ),
    )
    for name, state, severity, summary, step in states:
        # A scrape that fails ends no alert: what was so five minutes ago still counts.
        expr = f'last_over_time({STATE}{{state="{state}"}}[5m])'
        yield Alert(name, expr, severity, "platform", summary, f"{_WHICH}. {step}", _BOARD, (*CARD, "state"))


def _errors() -> Iterator[Alert]:
    yield Alert(
        name="GpuEccUncorrected",
        expr=changed(ECC_LOST),
        severity="warning",
        audience="platform",
        summary=f"New uncorrected ECC errors on {_WHERE}",
        description=f"{_WHICH} has {{{{ $value }}}} since the driver was loaded. The job that hit them has failed or "
        "must not be trusted; look for a pending row remap and reset the card.",
        dashboard=_BOARD,
        labels=CARD,
    )
    before = f"(last_over_time({NVLINK_ERRORS}[6h] offset 1h) or 0 * {NVLINK_ERRORS})"
    yield Alert(
        name="GpuNvlinkErrors",
        expr=f"{NVLINK_ERRORS} - {before} >= {NVLINK_RECOVERIES}",
        severity="warning",
        audience="platform",
        summary=f"NVLink of {_WHERE} recovered {{{{ $value }}}} times in an hour",
        description=f"{_WHICH}. Collective operations stall while a link recovers. Look at nvidia-smi nvlink -e on "
        "both ends, reseat or replace what they share.",
        dashboard=_BOARD,
        labels=CARD,
    )


def _missing() -> Iterator[Alert]:
    present = f"last_over_time({NODE_PRESENT}[5m])"
    yield Alert(
        name="GpuMissing",
        expr=f"{NODE_EXPECTED} - on {by(*_NODE)} {present} > 0",
        for_=MISSING_FOR,
        severity="critical",
        audience="platform",
        summary="{{ $value }} GPUs of {{ $labels.node }} are missing or don't answer",
        description="The node shows fewer cards than it should have. Look at dmesg for XID 79 and at nvidia-smi -L; "
        "drain the node before it is restarted.",
        dashboard="gpuledger-node",
        labels=_NODE,
    )
    yield Alert(
        name="GpuNodeDown",
        expr=f"{NODE_EXPECTED} > 0 unless on {by(*_NODE)} {present}",
        for_=MISSING_FOR,
        severity="critical",
        audience="platform",
        summary="None of the {{ $value }} GPUs of {{ $labels.node }} reports",
        description="The node was metered in the last day and isn't now: it is down, or cut off. If it was taken away "
        "on purpose, this ends by itself a day after.",
        dashboard="gpuledger-node",
        labels=_NODE,
    )


def _conditions() -> Iterator[Alert]:
    conditions: tuple[tuple[str, str, int, str, Severity, str, str], ...] = (
        ("GpuThermalThrottling", "thermal_throttle", 10, "15m", "warning", "cut its clocks for heat",
         "Look at inlet temperature, fans and neighbours; jobs on it run slower than they are billed for."),
        ("GpuHardwareSlowdown", "hardware_slowdown", 5, "15m", "warning", "was slowed down by hardware",
         "External power brake or a hardware limit: look at power supplies and cabling."),
        ("GpuPowerCapped", "power_cap", 45, "1h", "info", "ran at its power cap",
         "Normal under full load; if its clocks fall behind its peers', look at the limit that is set."),
        ("GpuMemoryHot", "hot_memory", 10, "15m", "warning", "had its memory above its limit",
         "Memory ages and errs when hot: look at airflow and pads, move the job, plan a service."),
    )  # fmt: skip
    for name, condition, least, window, severity, what, step in conditions:
        yield Alert(
            name=name,
            expr=f'count_over_time({CONDITION}{{condition="{condition}"}}[{window}]) >= {least}',
            severity=severity,
            audience="platform",
            summary=f"{_WHERE} {what} in {{{{ $value }}}} of the last {window.rstrip('mh')} {_unit(window)}",
            description=f"{_WHICH}. {step}",
            dashboard="gpuledger-energy",
            labels=(*CARD, "condition"),
        )


def _unit(window: str) -> str:
    return "minutes" if window.endswith("m") else "hours (counted in minutes)"
