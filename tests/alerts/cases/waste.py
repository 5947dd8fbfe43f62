"""Histories of the alerts on money that buys nothing."""

from __future__ import annotations

from tests.alerts.cases.cards import H100, held
from tests.alerts.promtool import Case

VISION = {"tenant": "vision"}
WARNING = {"audience": "tenant", "severity": "warning"}
INFO = {"audience": "tenant", "severity": "info"}
PLATFORM = {"audience": "platform", "severity": "info"}


def _cards(count: int, busy: str, namespace: str = "vision-a", minutes: int = 400) -> dict[str, str]:
    """So many H100s, held by a namespace, as busy as a series says. One costs 3.20 an hour."""
    series: dict[str, str] = {}
    for number in range(count):
        on = f'node="n1",gpu="{number}",uuid="GPU-{number}",model="{H100}"'
        series |= held(namespace, on, minutes=minutes)
        series[f"gpuledger_engine_active_ratio{{{on}}}"] = busy
    return series


_IDLE = 'tenant:idle_held_cost:per_hour{tenant="vision",model="m"}'
_FREE = 'model:free_cost:per_hour{model="m"}'
_M = {"model": "m"}
_USED = 'tenant:reserved_used:gpus{tenant="vision",reservation="vision-h100",model="m"}'
_RESERVATION = VISION | {"reservation": "vision-h100"}
# The example's reservation runs from 2026-11-01; promtool's time starts in 1970.
_RATIO = 'tenant:reservation_used:ratio{tenant="vision",reservation="vision-h100"}'
_RESERVED = 'tenant:reserved:gpus{tenant="vision",reservation="vision-h100"}'

WASTE = [
    Case("TenantGpusIdle", "first occurrence: four idle H100s at 3.20, after an hour and a half", _cards(4, "0.04x400"),
         {80: [], 95: [VISION]}, WARNING),
    Case("TenantGpusIdle", "three cost less than ten", _cards(3, "0.04x400"), {200: []}, WARNING),
    Case("TenantGpusIdle", "work begins: resolves", _cards(4, "0x200 1x200"), {150: [VISION], 230: []}, WARNING),
    Case("TenantGpusIdle", "busy", _cards(4, "0.06x400"), {200: []}, WARNING),
    Case("TenantGpusIdle", "unknown is not idle", _cards(4, "_x400"), {200: []}, WARNING),
    Case("TenantGpusIdle", "above the price", {_IDLE: "10.1x60"}, {29: [], 31: [VISION]}, WARNING),
    Case("TenantGpusIdle", "at the price", {_IDLE: "10x60"}, {40: []}, WARNING),
    Case("TenantGpusIdle", "summed over models", {_IDLE: "6x60", _IDLE.replace('"m"', '"n"'): "5x60"},
         {31: [VISION]}, WARNING),
    Case("TenantGpusIdle", "a hole doesn't start it anew", {_IDLE: "11x20 stale _x3 11x60"}, {31: [VISION]}, WARNING),
    Case("TenantGpusIdle", "handed over to another tenant", {
        _IDLE: "11x40 stale", _IDLE.replace("vision", "speech"): "_x40 11x60",
    }, {35: [VISION], 60: [], 85: [{"tenant": "speech"}]}, WARNING),
    Case("FleetGpusFree", "fires after six hours, resolves", {_FREE: "51x400 10x60"},
         {355: [], 365: [_M], 402: []}, PLATFORM),
    Case("FleetGpusFree", "at the price", {_FREE: "50x400"}, {370: []}, PLATFORM),
    Case("FleetGpusFree", "first occurrence late", {_FREE: "_x60 51x400"}, {365: [], 421: [_M]}, PLATFORM),
    Case("FleetGpusFree", "the cards are gone: resolves", {_FREE: "51x400 stale"}, {390: [_M], 408: []}, PLATFORM),
    Case("FleetGpusFree", "unknown", {_FREE: "_x400"}, {370: []}, PLATFORM),
    Case("FleetGpusFree", "held for an hour between", {_FREE: "51x200 0x60 51x200"}, {400: []}, PLATFORM),
    Case("ReservationUnused", "one of four used, for a day", {_RESERVED: "4x1600", _USED: "1.9x1600"},
         {50: [], 65: [_RESERVATION]}, INFO),
    Case("ReservationUnused", "first occurrence: nothing used at all", {_RESERVED: "4x300"},
         {65: [_RESERVATION]}, INFO),
    Case("ReservationUnused", "half used", {_RESERVED: "4x300", _USED: "2x300"}, {100: []}, INFO),
    Case("ReservationUnused", "used again: resolves", {_RESERVED: "4x1600", _USED: "0x100 4x1500"},
         {90: [_RESERVATION], 300: []}, INFO),
    Case("ReservationUnused", "it ends: resolves", {_RESERVED: "4x100 stale"}, {90: [_RESERVATION], 102: []}, INFO),
    Case("ReservationUnused", "no reservation", {_USED: "1x100"}, {90: []}, INFO),
    Case("ReservationUnused", "a hole is not unused", {_RESERVED: "4x300", _RATIO: "1x99 _x100 1x99"}, {250: []}, INFO),
    Case("ReservationUnused", "what was a day ago doesn't count", {_RESERVED: "4x1700", _RATIO: "0x99 _x1500 1x50"},
         {90: [_RESERVATION], 1645: []}, INFO),
]  # fmt: skip
