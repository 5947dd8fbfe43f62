"""Histories of the alerts on GPUs running out."""

from __future__ import annotations

from tests.alerts.cases.cards import H100, ON_A, A, held, ours
from tests.alerts.promtool import Case

WARNING = {"audience": "platform", "severity": "warning"}
INFO = {"audience": "platform", "severity": "info"}
_FREE = 'model:free:gpus{model="m"}'
_TAKEN = 'model:held:gpus{model="m"}'
_M = {"model": "m"}
_HELD = {key: value for key, value in held("vision-a").items() if "owner" in key}

CAPACITY = [
    Case("GpusExhausted", "fires, resolves", {_FREE: "0.9x99 1x60", _TAKEN: "1x200"},
         {59: [], 61: [_M], 100: []}, WARNING),
    Case("GpusExhausted", "one is free", {_FREE: "1x99", _TAKEN: "1x200"}, {80: []}, WARNING),
    Case("GpusExhausted", "first occurrence: the last is taken", {_FREE: "5x30 0x99", _TAKEN: "1x200"},
         {80: [], 92: [_M]}, WARNING),
    Case("GpusExhausted", "the cards are gone: resolves", {_FREE: "0.9x99 stale", _TAKEN: "1x200"},
         {90: [_M], 108: []}, WARNING),
    Case("GpusExhausted", "nobody holds any: resolves", {_FREE: "0.9x200", _TAKEN: "1x99 stale"},
         {90: [_M], 108: []}, WARNING),
    Case("GpusExhausted", "unknown is not none", {_FREE: "_x99", _TAKEN: "1x200"}, {80: []}, WARNING),
    Case("GpusExhausted", "a cut card of which nobody holds anything", {_FREE: "0.64x99", _TAKEN: "0x99"}, {80: []},
         WARNING),
    Case("GpusExhausted", "from a pod that holds the only card", {**ours(), **held("vision-a")},
         {61: [{"model": A["model"]}]}, WARNING),
    Case("GpusExhausted", "the card is handed over", {
        **ours(),
        f'gpuledger_owner_share_ratio{{{ON_A},namespace="vision-a",pod="a"}}': "1x40",
        f'gpuledger_owner_share_ratio{{{ON_A},namespace="vision-a",pod="b"}}': "_x39 1x60",
    }, {61: [{"model": H100}]}, WARNING),
    Case("GpusRunningOut", "a falling trend fires, and resolves", {_FREE: "100-0.1x500 50x300"},
         {50: [], 400: [_M], 790: []}, INFO),
    Case("GpusRunningOut", "slow enough", {_FREE: "100-0.02x500"}, {400: []}, INFO),
    Case("GpusRunningOut", "steady at one", {_FREE: "1x500"}, {400: []}, INFO),
    Case("GpusRunningOut", "steady", {_FREE: "5x500"}, {400: []}, INFO),
    Case("GpusRunningOut", "none is left: that is another alert", {_FREE: "41-0.1x399 0.99x60"},
         {380: [_M], 405: []}, INFO),
    Case("GpusRunningOut", "one is left", {_FREE: "5-0.01x400 1x60"}, {440: [_M]}, INFO),
    Case("GpusRunningOut", "just runs out", {_FREE: "19-0.01x500"}, {440: [_M]}, INFO),
    Case("GpusRunningOut", "just doesn't", {_FREE: "20-0.01x500"}, {440: []}, INFO),
    Case("GpusRunningOut", "first occurrence", {_FREE: "_x60 100-0.1x300"}, {60: [], 140: [_M]}, INFO),
    Case("GpusRunningOut", "the cards are gone: resolves", {_FREE: "100-0.1x400 stale"}, {395: [_M], 410: []}, INFO),
    Case("GpusRunningOut", "unknown", {_FREE: "_x500"}, {400: []}, INFO),
]  # fmt: skip
