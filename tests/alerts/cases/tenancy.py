"""Histories of the alerts on budgets, quotas and reservations."""

from __future__ import annotations

from tests.alerts.cases.cards import H100, held
from tests.alerts.promtool import Case

VISION = {"tenant": "vision"}
SPEECH = {"tenant": "speech"}
WARNING = {"audience": "tenant", "severity": "warning"}
INFO = {"audience": "tenant", "severity": "info"}
_PACE = 'tenant:budget_pace:ratio{tenant="vision"}'
_USED = 'tenant:budget_used:ratio{tenant="vision"}'
_END = 'tenant:reservation_end:timestamp_seconds{tenant="vision",reservation="r"}'
_RESERVATION = VISION | {"reservation": "r"}
_OVERFLOW = 'tenant_class:held:gpus{tenant="vision",model="m",class="overflow"}'
_QUOTA = 'tenant:held:gpus{tenant="speech",model="m"}'
_WEEK = 604_800


def _speech(count: int, minutes: int = 200) -> dict[str, str]:
    """So many cards that speech holds; its quota is 4."""
    series: dict[str, str] = {}
    for number in range(count):
        on = f'node="n1",gpu="{number}",uuid="GPU-{number}",model="{H100}"'
        series |= held("speech", on, minutes=minutes)
    return series


TENANCY = [
    Case("TenantBudgetBurnFast", "fires on both windows, resolves by the short one", {_PACE: "1x359 20x200 0x200"},
         {360: [], 400: [], 470: [VISION], 550: [VISION], 640: []}, WARNING),
    Case("TenantBudgetBurnFast", "just above", {_PACE: "6.1x400"}, {380: [VISION]}, WARNING),
    Case("TenantBudgetBurnFast", "at six", {_PACE: "6x400"}, {380: []}, WARNING),
    Case("TenantBudgetBurnFast", "the long window alone", {_PACE: "20x300 0x90"}, {380: []}, WARNING),
    Case("TenantBudgetBurnFast", "the short window alone", {_PACE: "0x340 20x60"}, {395: []}, WARNING),
    Case("TenantBudgetBurnFast", "the short window just at six", {_PACE: "20x200 6x90"}, {285: []}, WARNING),
    Case("TenantBudgetBurnFast", "the long window just at six", {_PACE: "4 _x299 8"}, {300: []}, WARNING),
    Case("TenantBudgetBurnFast", "the short window below six", {_PACE: "20x200 5.5x90"}, {285: []}, WARNING),
    Case("TenantBudgetBurnFast", "the long window below six", {_PACE: "3.5x99 8x99"}, {199: []}, WARNING),
    Case("TenantBudgetBurnFast", "first occurrence: a tenant that begins so", {_PACE: "_x100 9x100"},
         {99: [], 101: [VISION]}, WARNING),
    Case("TenantBudgetBurnFast", "no budget, no pace", {'tenant:cost:per_hour{tenant="sandbox"}': "100x100"},
         {60: []}, WARNING),
    Case("TenantBudgetBurnFast", "by money: 7300 a month is 10 an hour", {
        'tenant:cost:per_hour{tenant="vision"}': "61x100"}, {60: [VISION]}, WARNING),
    Case("TenantBudgetBurnFast", "by GPU-hours: 1460 a month is 2 GPUs", {
        'tenant:held:gpus{tenant="speech",model="m"}': "13x100"}, {60: [SPEECH]}, WARNING),
    Case("TenantBudgetBurnSlow", "fires, resolves", {_PACE: "1.3x400 0x400"}, {380: [VISION], 470: []}, INFO),
    Case("TenantBudgetBurnSlow", "at 1.25", {_PACE: "1.25x400"}, {380: []}, INFO),
    Case("TenantBudgetBurnSlow", "the long window alone", {_PACE: "9x400 0.5x380"}, {775: []}, INFO),
    Case("TenantBudgetBurnSlow", "the short window alone", {_PACE: "0.1x700 2x300"}, {980: []}, INFO),
    Case("TenantBudgetBurnSlow", "the short window just at 1.25", {_PACE: "9x400 1.25x380"}, {775: []}, INFO),
    Case("TenantBudgetBurnSlow", "the long window just at 1.25", {_PACE: "0.5 _x399 2"}, {400: []}, INFO),
    Case("TenantBudgetBurnSlow", "the short window below 1.25", {_PACE: "9x400 1.2x380"}, {775: []}, INFO),
    Case("TenantBudgetBurnSlow", "the long window below 1.25", {_PACE: "0.4x399 2x399"}, {799: []}, INFO),
    Case("TenantBudgetBurnSlow", "first occurrence", {_PACE: "_x10 2x100"}, {9: [], 11: [VISION]}, INFO),
    Case("TenantBudgetBurnSlow", "what was three days ago doesn't count", {_PACE: "0x99 _x4400 2x119"},
         {4560: [VISION]}, INFO, every=60),
    Case("TenantBudgetSpent", "fires, and resolves with the month", {_USED: "0.99x9 1x20 0.01x60"},
         {9: [], 10: [VISION], 29: [VISION], 31: []}, WARNING),
    Case("TenantBudgetSpent", "not yet", {_USED: "0.96x60"}, {40: []}, WARNING),
    Case("TenantBudgetSpent", "first occurrence", {_USED: "_x10 1.2x60"}, {9: [], 10: [VISION]}, WARNING),
    Case("TenantBudgetSpent", "unknown", {_USED: "_x60"}, {40: []}, WARNING),
    # From 1970-01-01 05:00 on it is January in New York; before, December.
    Case("TenantBudgetSpent", "the month begins at local midnight", {_PACE: "100x800"},
         {295: [], 420: [], 540: [], 785: [VISION]}, WARNING),
    Case("TenantOverflow", "the fifth of four", _speech(5), {10: [], 20: [SPEECH | {"model": H100}]}, INFO),
    Case("TenantOverflow", "four of four", _speech(4), {60: []}, INFO),
    Case("TenantOverflow", "the fourth of four is handed from one pod to the next", {
        **_speech(4),
        f'gpuledger_owner_share_ratio{{node="n1",gpu="3",uuid="GPU-3",model="{H100}",namespace="speech",pod="q"}}':
            "_x39 1x60",
    }, {30: [], 50: [], 60: []}, INFO),
    Case("TenantOverflow", "given back: resolves", {_OVERFLOW: "1x40 stale"},
         {30: [VISION | {"model": "m"}], 48: []}, INFO),
    Case("TenantOverflow", "of another class", {_OVERFLOW.replace("overflow", "on_demand"): "1x40"}, {30: []}, INFO),
    Case("TenantOverflow", "none", {_OVERFLOW: "0x40"}, {30: []}, INFO),
    Case("TenantOverflow", "first occurrence: half a GPU", {_OVERFLOW: "_x20 0.5x40"},
         {30: [], 36: [VISION | {"model": "m"}]}, INFO),
    Case("TenantQuotaNearlyFull", "fires, resolves", {_QUOTA: "3.6x60 3x60"}, {29: [], 31: [SPEECH], 61: []}, INFO),
    Case("TenantQuotaNearlyFull", "below", {_QUOTA: "3.5x60"}, {40: []}, INFO),
    Case("TenantQuotaNearlyFull", "from pods", _speech(4), {40: [SPEECH]}, INFO),
    Case("TenantQuotaNearlyFull", "no quota", {_QUOTA.replace("speech", "vision"): "99x60"}, {40: []}, INFO),
    Case("TenantQuotaNearlyFull", "first occurrence", {_QUOTA: "_x20 4x60"}, {40: [], 51: [SPEECH]}, INFO),
    Case("TenantQuotaNearlyFull", "given back: resolves", {_QUOTA: "3.6x60 stale"}, {59: [SPEECH], 68: []}, INFO),
    Case("TenantQuotaNearlyFull", "unknown", {_QUOTA: "_x60"}, {40: []}, INFO),
    Case("TenantQuotaNearlyFull", "handed from one pod to the next", {
        'gpuledger_unowned_share_ratio{node="n1",gpu="0",uuid="GPU-0",model="m"}': "0x60",
        'gpuledger_owner_share_ratio{node="n1",gpu="0",uuid="GPU-0",model="m",namespace="speech",pod="a"}': "1x31",
        'gpuledger_owner_share_ratio{node="n1",gpu="0",uuid="GPU-0",model="m",namespace="speech",pod="b"}':
            "_x30 1x40",
    }, {50: []}, INFO),
    Case("ReservationEnds", "within a week", {_END: f"{_WEEK + 600}x60"}, {10: [], 11: [_RESERVATION]}, INFO),
    Case("ReservationEnds", "ended: resolves", {_END: f"{_WEEK}x20 stale"}, {10: [_RESERVATION], 22: []}, INFO),
    Case("ReservationEnds", "first occurrence: a short one", {_END: "_x10 9000x20"}, {9: [], 10: [_RESERVATION]}, INFO),
    Case("ReservationEnds", "far off", {_END: f"{_WEEK + 4000}x60"}, {60: []}, INFO),
    Case("ReservationEnds", "none", {_END: "_x60"}, {60: []}, INFO),
]  # fmt: skip
