"""Histories of the alerts on cards and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.hardware import codes_of
from tests.alerts.cases.cards import DCGM_B, NEW_DCGM_B, ON_A, A, B, dcgm, held, ours
from tests.alerts.promtool import Case

PLATFORM = {"audience": "platform"}
CRITICAL = PLATFORM | {"severity": "critical"}
WARNING = PLATFORM | {"severity": "warning"}
INFO = PLATFORM | {"severity": "info"}
NODE = {"node": "n1"}


def _xid(alert: str, tier: str, labels: dict[str, str], other: int) -> Iterator[Case]:
    first, last = codes_of(tier)[0], codes_of(tier)[-1]
    on_a = [A | {"xid": str(first)}]
    # Our exporter counts, and says when: the event of minute 10 is recent to minute 25.
    stamp = f'gpuledger_xid_last_timestamp_seconds{{{ON_A},xid="{first}",class="{tier}"}}'
    yield Case(
        alert,
        "our exporter's: first occurrence, fires, resolves",
        {**ours(), stamp: "_x10 600x60"},
        {9: [], 11: on_a, 24: on_a, 26: [], 60: []},
        labels,
    )
    yield Case(
        alert,
        "our exporter's: again on the same card",
        {**ours(), stamp: "_x10 600x29 2400x60"},
        {11: on_a, 30: [], 41: on_a, 56: []},
        labels,
    )
    wrong = stamp.replace(f'xid="{first}"', f'xid="{other}"')
    yield Case(alert, "another tier's code doesn't fire it", {**ours(), wrong: "_x10 600x60"}, {12: []}, labels)
    yield Case(
        alert,
        "the exporter restarts and forgets: resolves",
        {**ours(), stamp: "_x10 600x3"},
        {12: on_a, 30: []},
        labels,
    )
    # dcgm-exporter shows the last code, for ever.
    on_b = [B | {"xid": str(last)}]
    gauge = f"DCGM_FI_DEV_XID_ERRORS{{{DCGM_B}}}"
    yield Case(
        alert,
        "DCGM's: fires, and doesn't latch",
        {**dcgm(), gauge: f"0x19 {last}x100"},
        {19: [], 21: on_b, 33: on_b, 36: [], 100: []},
        labels,
    )
    yield Case(
        alert,
        "DCGM's: a series born with a code",
        {**dcgm(), gauge: f"_x19 {last}x100"},
        {18: [], 21: on_b, 36: [], 100: []},
        labels,
    )
    yield Case(
        alert,
        "DCGM's: an older code, then this one",
        {**dcgm(), gauge: f"{other}x29 {last}x60"},
        {29: [], 31: on_b, 46: []},
        labels,
    )
    newer = f"DCGM_FI_DEV_XID_ERROR{{{NEW_DCGM_B}}}"
    yield Case(
        alert, "DCGM 4.6's names", {**dcgm(NEW_DCGM_B), newer: f"0x19 {last}x100"}, {19: [], 21: on_b, 36: []}, labels
    )
    yield Case(
        alert,
        "DCGM's: a hole in the samples is no event",
        {**dcgm(), gauge: f"{last}x60 _x30 {last}x60"},
        {59: [], 95: [], 110: []},
        labels,
    )
    yield Case(alert, "DCGM's: a new holder of the card is no event", {
        **dcgm(),
        gauge.replace("}", ',exported_pod="p1"}'): f"{last}x60",
        gauge.replace("}", ',exported_pod="p2"}'): f"_x59 {last}x60",
    }, {40: [], 61: [], 65: [], 80: []}, labels)  # fmt: skip
    yield Case(alert, "DCGM's: a blank is no code", {**dcgm(), gauge: "0x9 9223372036854775794x60"}, {12: []}, labels)


def _unlisted() -> Iterator[Case]:
    alert, on_n1 = "GpuXidUnlistedCard", [NODE | {"xid": "79"}]
    stamp = (
        'gpuledger_xid_last_timestamp_seconds{node="n1",pci_bus_id="00000000:3B:00.0",xid="79",class="restart_node"}'
    )
    yield Case(
        alert,
        "first occurrence: fires, resolves",
        {stamp: "_x10 600x60"},
        {9: [], 11: on_n1, 24: on_n1, 25: []},
        CRITICAL,
    )
    yield Case(
        alert,
        "a second card of the node",
        {stamp: "600x60", stamp.replace("3B", "4C"): "_x20 1200x60"},
        {11: on_n1, 26: on_n1, 36: []},
        CRITICAL,
    )
    yield Case(
        alert,
        "a card that is listed has alerts of its own",
        {**ours(), stamp.replace("node=", 'uuid="GPU-a",node='): "_x10 600x60"},
        {12: []},
        CRITICAL,
    )
    yield Case(
        alert,
        "a scrape that fails ends nothing",
        {stamp: "600x11 stale _ 600x30"},
        {12: on_n1, 13: on_n1, 26: []},
        CRITICAL,
    )
    yield Case(alert, "the exporter goes away: resolves", {stamp: "600x11 stale"}, {12: on_n1, 18: []}, CRITICAL)
    yield Case(alert, "none", {stamp: "_x60"}, {30: []}, CRITICAL)


def _application() -> Iterator[Case]:
    alert, labels = "GpuXidApplication", {"audience": "tenant", "severity": "info"}
    for code in (codes_of("application")[0], codes_of("application")[-1]):
        events = {
            f'gpuledger_xid_last_timestamp_seconds{{{ON_A},xid="{code}",class="application"}}': "_x10 600x60",
            f"gpuledger_xid_last_code{{{ON_A}}}": f"0x9 {code}x60",
        }
        expected = [A | {"tenant": "vision"}]
        yield Case(
            alert,
            f"first occurrence: goes to who holds the card ({code})",
            {**ours(), **held("vision-a"), **events},
            {9: [], 11: expected, 26: []},
            labels,
        )
        speech = [A | {"tenant": "speech"}]
        pods = {name: held("vision-a", pod=name) | held("speech", pod=name) for name in ("a", "b")}
        before = next(name for name in pods["a"] if "vision-a" in name and "owner" in name)
        after = next(name for name in pods["b"] if "speech" in name and "owner" in name)
        yield Case(
            alert,
            f"the card is handed over after it: who held it is told, not who holds it ({code})",
            {**ours(), **events, before: "1x13 stale", after: "_x13 1x60"},
            {11: expected, 20: expected, 27: []},
            labels,
        )
        yield Case(
            alert,
            "the card was handed over before it",
            {**ours(), **events, before: "1x4 stale", after: "_x4 1x60"},
            {11: speech, 20: speech, 27: []},
            labels,
        )
        stamp = next(name for name in events if "timestamp" in name)
        yield Case(
            alert,
            f"another one under the next holder ({code})",
            {**ours(), **events, stamp: "_x10 600x29 2400x60", before: "1x13 stale", after: "_x13 1x90"},
            {11: expected, 27: [], 41: speech, 57: []},
            labels,
        )
    gone = {name: f"{values.replace('x60', 'x4')} stale" for name, values in events.items()}
    yield Case(
        alert,
        "the exporter goes away: resolves",
        {**ours(), **held("vision-a"), **gone},
        {12: expected, 28: []},
        labels,
    )
    yield Case(alert, "nobody holds the card", {**ours(), **events}, {11: []}, labels)
    other = {key.replace(str(code), "79"): value.replace(str(code), "79") for key, value in events.items()}
    yield Case(
        alert, "a fault of the card is not the tenant's", {**ours(), **held("vision-a"), **other}, {11: []}, labels
    )


def _state(alert: str, key: str, state: str, labels: dict[str, str], value: int = 1) -> Iterator[Case]:
    on_a, on_b = [A | {"state": state}], [B | {"state": state}]
    series = f"gpuledger_{key}{{{ON_A}}}"
    yield Case(
        alert,
        "fires at once, resolves",
        {**ours(), series: f"0x9 {value}x19 0x60"},
        {9: [], 10: on_a, 29: on_a, 36: []},
        labels,
    )
    yield Case(
        alert, "first occurrence: born with it", {**ours(), series: f"_x10 {value}x60"}, {9: [], 10: on_a}, labels
    )
    yield Case(
        alert,
        "a scrape that fails ends nothing",
        {**ours(), series: f"{value}x19 stale _ {value}x30"},
        {19: on_a, 20: on_a, 21: on_a, 22: on_a},
        labels,
    )
    yield Case(
        alert, "the card goes away: resolves", {**ours(), series: f"{value}x19 stale"}, {19: on_a, 26: []}, labels
    )
    yield Case(alert, "healthy", {**ours(), series: "0x60"}, {30: []}, labels)
    name = {"recovery_action": "GPU_RECOVERY_ACTION", "row_remap_failed": "ROW_REMAP_FAILURE",
            "row_remap_pending": "ROW_REMAP_PENDING", "sram_threshold_exceeded": "THRESHOLD_SRM"}[key]  # fmt: skip
    theirs = f'DCGM_FI_DEV_{name}{{{DCGM_B},exported_pod="POD"}}'
    yield Case(alert, "DCGM's, over a change of holder", {
        **dcgm(), theirs.replace("POD", "p1"): f"0x9 {value}x20", theirs.replace("POD", "p2"): f"_x28 {value}x30 0x30",
    }, {9: [], 10: on_b, 29: on_b, 31: on_b, 58: on_b, 70: []}, labels)  # fmt: skip


def _errors() -> Iterator[Case]:
    alert, labels = "GpuEccUncorrected", WARNING
    series = f"gpuledger_ecc_uncorrected_volatile_total{{{ON_A}}}"
    yield Case(alert, "fires, resolves", {**ours(), series: "0x19 2x60"}, {19: [], 20: [A], 34: [A], 36: []}, labels)
    yield Case(
        alert,
        "first occurrence: a counter born at 1",
        {**ours(), series: "_x20 1x60"},
        {19: [], 21: [A], 36: []},
        labels,
    )
    yield Case(alert, "more of them", {**ours(), series: "1x59 3x60"}, {40: [], 60: [A], 76: []}, labels)
    yield Case(
        alert,
        "fewer after a driver load are new ones",
        {**ours(), series: "5x59 0x9 2x60"},
        {59: [], 66: [], 70: [A], 86: []},
        labels,
    )
    yield Case(
        alert, "a hole in the samples is no event", {**ours(), series: "5x59 _x30 5x60"}, {59: [], 95: []}, labels
    )
    yield Case(alert, "none", {**ours(), series: "0x60"}, {30: []}, labels)
    recorded = "device:ecc_uncorrected:count" + series[series.index("{") :]
    yield Case(
        alert, "forgotten after six hours without a sample", {recorded: "5x10 _x400 5x30"}, {9: [A], 30: [], 412: [A]},
        labels,
    )  # fmt: skip
    dbe = f'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{DCGM_B},exported_pod="POD"}}'
    yield Case(alert, "DCGM's: a new holder is no event", {
        **dcgm(), dbe.replace("POD", "p1"): "4x60", dbe.replace("POD", "p2"): "_x60 4x60",
    }, {50: [], 62: [], 90: []}, labels)  # fmt: skip

    alert = "GpuNvlinkErrors"
    series = f"gpuledger_nvlink_recoveries_total{{{ON_A}}}"
    yield Case(
        alert,
        "five in an hour fire, and resolve",
        {**ours(), series: "3x79 8x120"},
        {79: [], 80: [A], 139: [A], 141: []},
        labels,
    )
    yield Case(alert, "four don't", {**ours(), series: "3x79 7x120"}, {80: [], 100: []}, labels)
    yield Case(
        alert,
        "first occurrence: born with five",
        {**ours(), series: "_x80 5x120"},
        {79: [], 80: [A], 139: [A], 141: []},
        labels,
    )
    yield Case(
        alert, "four an hour for two hours", {**ours(), series: "3x79 7x70 11x60"}, {80: [], 150: [], 170: []}, labels
    )
    recorded = "device:nvlink_errors:count" + series[series.index("{") :]
    yield Case(
        alert, "forgotten after six hours without a sample", {recorded: "9x90 _x430 9x30"}, {80: [], 522: [A]}, labels
    )
    yield Case(alert, "born with four", {**ours(), series: "_x80 4x120"}, {81: []}, labels)
    yield Case(alert, "none", {**ours(), series: "0x120"}, {100: []}, labels)
    crc = f'DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL{{{DCGM_B},exported_pod="POD"}}'
    yield Case(alert, "DCGM's: a new holder is no event", {
        **dcgm(), crc.replace("POD", "p1"): "9x90", crc.replace("POD", "p2"): "_x90 9x60",
    }, {85: [], 92: [], 120: []}, labels)  # fmt: skip


def _missing() -> Iterator[Case]:
    expected = {'gpuledger_devices_expected{node="n1"}': "2x500"}
    second = ON_A.replace("GPU-a", "GPU-b").replace('gpu="0"', 'gpu="1"')
    gone = {f"gpuledger_unowned_share_ratio{{{second}}}": "1x29 stale", f"gpuledger_device_up{{{second}}}": "1x29 0x60"}
    yield Case(
        "GpuMissing", "one of two disappears", {**expected, **ours(), **gone}, {29: [], 33: [], 36: [NODE]}, CRITICAL
    )
    back = {f"gpuledger_unowned_share_ratio{{{second}}}": "1x29 stale _x29 1x60",
            f"gpuledger_device_up{{{second}}}": "1x29 0x30 1x60"}  # fmt: skip
    yield Case("GpuMissing", "it comes back: resolves", {**expected, **ours(), **back}, {50: [NODE], 62: []}, CRITICAL)
    recorded = {'node:gpus:expected{node="n1"}': "2x90", 'node:gpus:present{node="n1"}': "1x20 stale"}
    yield Case("GpuMissing", "one of two, then none at all: another alert", recorded, {20: [NODE], 30: []}, CRITICAL)
    silent = {f"gpuledger_unowned_share_ratio{{{second}}}": "1x90", f"gpuledger_device_up{{{second}}}": "1x29 0x60"}
    yield Case(
        "GpuMissing", "listed, but doesn't answer", {**expected, **ours(), **silent}, {29: [], 36: [NODE]}, CRITICAL
    )
    yield Case("GpuMissing", "first occurrence: never seen", {**expected, **ours()}, {4: [], 6: [NODE]}, CRITICAL)
    whole = {f"gpuledger_unowned_share_ratio{{{second}}}": "1x500", f"gpuledger_device_up{{{second}}}": "1x500"}
    yield Case("GpuMissing", "all there", {**expected, **ours(), **whole}, {30: []}, CRITICAL)
    everything = {key: value.replace("x500", "x29 stale") for key, value in {**expected, **ours(), **whole}.items()}
    yield Case("GpuMissing", "the whole node is another alert", everything, {45: []}, CRITICAL)
    yield Case(
        "GpuNodeDown",
        "first occurrence: the whole node disappears",
        everything,
        {29: [], 33: [], 37: [], 43: [NODE]},
        CRITICAL,
    )
    again = {key: value.replace("x500", "x29 stale _x29 {v}x60") for key, value in {**ours(), **whole}.items()}
    again = {key: value.replace("{v}", value.split("x")[0]) for key, value in again.items()}
    yield Case("GpuNodeDown", "it comes back: resolves", again, {45: [NODE], 63: []}, CRITICAL)
    yield Case(
        "GpuNodeDown",
        "a failed scrape",
        {
            key: value.replace("x500", "x29 stale {v}x60".replace("{v}", value.split("x")[0]))
            for key, value in {**ours(), **whole}.items()
        },
        {31: [], 36: [], 45: []},
        CRITICAL,
    )
    yield Case("GpuNodeDown", "one card still there", {**expected, **ours(), **gone}, {45: []}, CRITICAL)
    one = {'gpuledger_devices_expected{node="n1"}': "1x60"}
    yield Case("GpuNodeDown", "the only card of a node", one, {10: [NODE]}, CRITICAL)
    yield Case(
        "GpuNodeDown", "nothing is expected", {'gpuledger_devices_expected{node="n1"}': "0x60"}, {30: []}, CRITICAL
    )
    old = dcgm()
    new = {key.replace("UUID", 'exported_pod="p",UUID'): "_x29 40x60" for key in old}
    handed_over = dict.fromkeys(old, "40x29 stale") | new
    yield Case("GpuNodeDown", "DCGM's: a new holder is no outage", handed_over, {29: [], 36: [], 50: []}, CRITICAL)
    yield Case("GpuMissing", "DCGM's: a new holder is no outage", handed_over, {29: [], 36: [], 50: []}, CRITICAL)
    two = dcgm() | {key.replace("GPU-b", "GPU-c").replace('"1"', '"2"'): "40x29 stale" for key in dcgm()}
    yield Case("GpuMissing", "DCGM's: fewer than in the last day", two, {29: [], 43: [NODE]}, CRITICAL)


def _condition(alert: str, condition: str, bit: int, least: int, window: int, labels: dict[str, str]) -> Iterator[Case]:
    on_a = [A | {"condition": condition}]
    series = f"gpuledger_throttle_reasons_bitmask{{{ON_A}}}"
    began = window + 5
    yield Case(
        alert,
        "fires, resolves",
        {**ours(), series: f"0x{began - 1} {bit}x{window} 0x200"},
        {began + least - 2: [], began + least - 1: on_a, began + window: on_a, began + 2 * window + 1: []},
        labels,
    )
    yield Case(
        alert, "other reasons beside it", {**ours(), series: f"{bit + 1}x{window + 5}"}, {window + 2: on_a}, labels
    )
    yield Case(
        alert,
        "first occurrence: born with it",
        {**ours(), series: f"_x10 {bit}x{window + 10}"},
        {9 + least - 1: [], 10 + least - 1: on_a},
        labels,
    )
    yield Case(
        alert, "too short", {**ours(), series: f"0x30 {bit}x{least - 2} 0x200"}, {30 + least: [], 60: []}, labels
    )
    yield Case(alert, "another reason", {**ours(), series: f"2x{2 * window}"}, {window + 2: []}, labels)
    theirs = f'DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{DCGM_B},exported_pod="POD"}}'
    half = window // 2
    yield Case(alert, "DCGM's, over a change of holder", {
        **dcgm(), theirs.replace("POD", "p1"): f"{bit}x{half}", theirs.replace("POD", "p2"): f"_x{half} {bit}x{window}",
    }, {window + 1: [B | {"condition": condition}]}, labels)  # fmt: skip


def _hot_memory() -> Iterator[Case]:
    alert, on_a = "GpuMemoryHot", [A | {"condition": "hot_memory"}]
    series = f"gpuledger_memory_temperature_celsius{{{ON_A}}}"
    limit = {f"gpuledger_memory_temperature_maximum_celsius{{{ON_A}}}": "90x200"}
    yield Case(
        alert,
        "first occurrence, above 95 °C where no limit is known",
        {**ours(), series: "80x19 96x30 80x60"},
        {28: [], 29: on_a, 49: on_a, 66: []},
        WARNING,
    )
    yield Case(alert, "95 °C is not above", {**ours(), series: "95x60"}, {40: []}, WARNING)
    yield Case(alert, "above its own limit", {**ours(), **limit, series: "80x19 91x60"}, {28: [], 29: on_a}, WARNING)
    yield Case(alert, "at its own limit", {**ours(), **limit, series: "90x60"}, {40: []}, WARNING)
    yield Case(alert, "unknown is not hot", {**ours(), series: "_x60"}, {40: []}, WARNING)
    blank = f"DCGM_FI_DEV_MEMORY_TEMP{{{DCGM_B}}}"
    yield Case(alert, "DCGM's blank is not hot", {**dcgm(), blank: "9223372036854775794x60"}, {40: []}, WARNING)
    theirs = f'DCGM_FI_DEV_MEMORY_TEMP{{{DCGM_B},exported_pod="POD"}}'
    yield Case(
        alert,
        "DCGM's, over a change of holder",
        {**dcgm(), theirs.replace("POD", "p1"): "96x7 stale", theirs.replace("POD", "p2"): "_x7 96x30"},
        {20: [B | {"condition": "hot_memory"}]},
        WARNING,
    )
    yield Case(
        alert, "failed scrapes don't hide it", {**ours(), series: " ".join(["96x3 stale"] * 8)}, {30: on_a}, WARNING
    )


HARDWARE = [
    *_xid("GpuXidRestartNode", "restart_node", CRITICAL, 31),
    *_xid("GpuXidResetGpu", "reset_gpu", CRITICAL, 79),
    *_xid("GpuXidWorkflow", "workflow", WARNING, 79),
    *_unlisted(),
    *_application(),
    *_state("GpuRecoveryActionNeeded", "recovery_action", "recovery_action", CRITICAL, 2),
    *_state("GpuRowRemapFailed", "row_remap_failed", "row_remap_failed", CRITICAL),
    *_state("GpuRowRemapPending", "row_remap_pending", "row_remap_pending", WARNING),
    *_state("GpuSramErrorThreshold", "sram_threshold_exceeded", "sram_threshold", CRITICAL),
    *_errors(),
    *_missing(),
    *_condition("GpuThermalThrottling", "thermal_throttle", 64, 10, 15, WARNING),
    *_condition("GpuHardwareSlowdown", "hardware_slowdown", 128, 5, 15, WARNING),
    *_condition("GpuPowerCapped", "power_cap", 4, 45, 60, INFO),
    *_hot_memory(),
]
