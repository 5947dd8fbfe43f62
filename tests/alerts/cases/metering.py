"""Histories of the alerts on the metering itself."""

from __future__ import annotations

from tests.alerts.cases.cards import ON_A, dcgm, held, ours
from tests.alerts.promtool import Case

PLATFORM = {"audience": "platform"}
CRITICAL = PLATFORM | {"severity": "critical"}
WARNING = PLATFORM | {"severity": "warning"}
INFO = PLATFORM | {"severity": "info"}
NODE = {"node": "n1"}
_UP = 'up{job="gpuledger-exporter",instance="n1:9836"}'
_DOWN = NODE | {"job": "gpuledger-exporter"}
_BACKEND = 'gpuledger_backend_up{node="n1"}'
_AGE = f"gpuledger_sample_age_seconds{{{ON_A}}}"
_COVERAGE = "cluster:coverage:ratio"
_UNRESOLVED = 'gpuledger_owner_unresolved_devices{node="n1",adapter="kubernetes"}'
_ADAPTER = 'gpuledger_owner_adapter_up{node="n1",adapter="slurm"}'
_SLURM = NODE | {"adapter": "slurm"}
_CONFLICT = f'gpuledger_owner_conflicts{{{ON_A},believed="kubelet",overruled="slurm"}}'
_LOG = 'gpuledger_kernel_log_up{node="n1"}'
_SUCCESS = "gpuledger_pipeline_last_success_timestamp_seconds"
_FAILED = 'gpuledger_pipeline_passes_total{result="failed"}'
_HELD = 'device_tenant:held:gpus{uuid="GPU-x",tenant="unattributed"}'
_CHECK = 'cluster:unit_check:ratio{check="energy"}'
_ENERGY = {"check": "energy"}
_JOULES, _WATTS = f"gpuledger_energy_joules_total{{{ON_A}}}", f"gpuledger_power_watts{{{ON_A}}}"
_DRIVER, _ENGINE = f"gpuledger_gpu_util_ratio{{{ON_A}}}", f"gpuledger_engine_active_ratio{{{ON_A}}}"


def _handed_over(namespace: str) -> dict[str, str]:
    """A card that two pods of a namespace hold, one after the other; for a minute both are seen."""
    (name,) = (name for name in held(namespace) if "owner" in name)
    return {name: "1x40 stale", name.replace('pod="p"', 'pod="q"'): "_x39 1x60"}


METERING = [
    Case("GpuExporterDown", "fires, resolves", {_UP: "1x9 0x30 1x30"}, {14: [], 16: [_DOWN], 41: []}, CRITICAL),
    Case("GpuExporterDown", "first occurrence: down from the start", {_UP: "0x30"}, {4: [], 6: [_DOWN]}, CRITICAL),
    Case("GpuExporterDown", "one failed scrape", {_UP: "1x9 0 1x30"}, {10: [], 16: []}, CRITICAL),
    Case("GpuExporterDown", "the target is taken out: resolves", {_UP: "0x9 stale"}, {8: [_DOWN], 12: []}, CRITICAL),
    Case("GpuExporterDown", "dcgm-exporter", {_UP.replace("gpuledger-exporter", "nvidia-DCGM-exporter"): "0x30"},
         {6: [NODE | {"job": "nvidia-DCGM-exporter"}]}, CRITICAL),
    Case("GpuExporterDown", "some GPU exporter", {_UP.replace("gpuledger-exporter", "my-gpu_exporter"): "0x30"},
         {6: [NODE | {"job": "my-gpu_exporter"}]}, CRITICAL),
    Case("GpuExporterDown", "another job", {_UP.replace("gpuledger-exporter", "node"): "0x30"}, {10: []}, CRITICAL),
    Case("GpuExporterDown", "a host without a port", {_UP.replace(":9836", ""): "0x30"}, {6: [_DOWN]}, CRITICAL),
    Case("GpuDriverUnavailable", "fires, resolves", {_BACKEND: "1x9 0x30 1x30"}, {13: [], 17: [NODE], 42: []},
         CRITICAL),
    Case("GpuDriverUnavailable", "first occurrence: never there", {_BACKEND: "0x30"}, {0: [], 2: [NODE]}, CRITICAL),
    Case("GpuDriverUnavailable", "one failed pass", {_BACKEND: "1x9 0 1x30"}, {10: [], 12: []}, CRITICAL),
    Case("GpuDriverUnavailable", "failed scrapes don't end it", {_BACKEND: "1x9 0x10 stale _x2 0x10"},
         {20: [NODE], 21: [NODE], 22: [NODE]}, CRITICAL),
    Case("GpuDriverUnavailable", "the exporter is gone: resolves", {_BACKEND: "0x10 stale"}, {18: []}, CRITICAL),
    Case("GpuMetricsStale", "the exporter goes away: another alert", {_AGE: "400x20 stale"}, {10: [NODE], 27: []},
         WARNING),
    Case("GpuMetricsStale", "fires, resolves", {_AGE: "5x9 301x30 5x30"}, {11: [], 12: [NODE], 41: []}, WARNING),
    Case("GpuMetricsStale", "five minutes", {_AGE: "300x30"}, {20: []}, WARNING),
    Case("GpuMetricsStale", "first occurrence", {_AGE: "_x10 9000x30"}, {11: [], 12: [NODE]}, WARNING),
    Case("GpuMetricsStale", "no values at all is another alert", {_AGE: "_x30"}, {20: []}, WARNING),
    Case("GpuMetricsStale", "a failed scrape doesn't start it anew", {_AGE: "5x9 400 400 stale 400x9"},
         {12: [NODE], 13: [NODE]}, WARNING),
    Case("MeteringCoverageLow", "fires, resolves", {_COVERAGE: "1x9 0.94x60 0.95x60"}, {39: [], 41: [{}], 71: []},
         WARNING),
    Case("MeteringCoverageLow", "enough", {_COVERAGE: "0.95x60"}, {40: []}, WARNING),
    Case("MeteringCoverageLow", "first occurrence: from series, held and unseen", {**ours(), **held("vision-a")},
         {29: [], 31: [{}]}, WARNING),
    Case("MeteringCoverageLow", "held and seen", {
        **ours(), **held("vision-a"), f"gpuledger_engine_active_ratio{{{ON_A}}}": "0x60"}, {40: []}, WARNING),
    Case("MeteringCoverageLow", "nothing is held any more: resolves", {_COVERAGE: "0.94x60 stale"},
         {55: [{}], 68: []}, WARNING),
    Case("MeteringCoverageLow", "unknown is not low", {_COVERAGE: "_x60"}, {40: []}, WARNING),
    Case("MeteringCoverageLow", "goes on when a card is handed over", {**ours(), **_handed_over("vision-a")},
         {31: [{}], 60: [{}]}, WARNING),
    Case("MeteringCoverageLow", "nothing held, nothing to cover", ours(), {40: []}, WARNING),
    Case("GpusUnattributed", "fires after an hour, resolves", {**ours(), **held("nobodys", minutes=99)},
         {59: [], 61: [{}], 110: []}, INFO),
    Case("GpusUnattributed", "goes on when the card is handed over", {**ours(), **_handed_over("nobodys")}, {61: [{}]},
         INFO),
    Case("GpusUnattributed", "of a tenant", {**ours(), **held("vision-a")}, {70: []}, INFO),
    Case("GpusUnattributed", "part of a GPU", {_HELD: "0.95x90"}, {70: []}, INFO),
    Case("GpusUnattributed", "first occurrence", {_HELD: "_x20 1x90"}, {70: [], 81: [{}]}, INFO),
    Case("GpusUnattributed", "failed scrapes don't start it anew", {_HELD: "2x30 stale _x2 2x60"}, {61: [{}]}, INFO),
    Case("GpusUnattributed", "DCGM's: a job without an account", {
        key.replace("UUID", 'hpc_job="7",UUID'): value for key, value in dcgm().items()}, {61: [{}]}, INFO),
    Case("GpusUnattributed", "DCGM's: the exporter's own pod holds nothing", {
        key.replace("UUID", 'pod="nvidia-dcgm-exporter-x",UUID'): value for key, value in dcgm().items()},
        {70: []}, INFO),
    Case("GpuOwnersUnresolved", "fires, resolves", {_UNRESOLVED: "0x20 1x60 0x60"}, {30: [], 42: [NODE], 83: []},
         WARNING),
    Case("GpuOwnersUnresolved", "none", {_UNRESOLVED: "0x60"}, {40: []}, WARNING),
    Case("GpuOwnersUnresolved", "first occurrence: born with one", {_UNRESOLVED: "_x20 1x60"}, {24: [], 26: [NODE]},
         WARNING),
    Case("GpuOwnersUnresolved", "a moment", {_UNRESOLVED: "0x20 1x3 0x60"}, {30: [], 40: []}, WARNING),
    Case("GpuOwnersUnresolved", "unknown", {_UNRESOLVED: "_x60"}, {40: []}, WARNING),
    Case("GpuOwnersUnresolved", "failed scrapes don't end it", {_UNRESOLVED: "0x5 2x30 stale _x2 2x60"},
         {36: [NODE], 38: [NODE]}, WARNING),
    Case("GpuOwnerSourceDown", "fires, resolves", {_ADAPTER: "1x20 0x60 1x60"}, {30: [], 42: [_SLURM], 83: []},
         WARNING),
    Case("GpuOwnerSourceDown", "first occurrence: never up", {_ADAPTER: "_x20 0x60"}, {24: [], 26: [_SLURM]}, WARNING),
    Case("GpuOwnerSourceDown", "up", {_ADAPTER: "1x60"}, {40: []}, WARNING),
    Case("GpuOwnerSourceDown", "a moment", {_ADAPTER: "1x20 0x3 1x60"}, {30: []}, WARNING),
    Case("GpuOwnerSourceDown", "failed scrapes don't end it", {_ADAPTER: "0x30 stale _x2 0x60"},
         {31: [_SLURM], 33: [_SLURM]}, WARNING),
    Case("GpuOwnerSourceDown", "unknown", {_ADAPTER: "_x60"}, {40: []}, WARNING),
    Case("GpuOwnersConflict", "fires, resolves", {_CONFLICT: "_x10 1x60 stale"},
         {20: [], 26: [NODE], 70: [NODE], 78: []}, WARNING),
    Case("GpuOwnersConflict", "none", {_CONFLICT: "0x60"}, {40: []}, WARNING),
    Case("GpuOwnersConflict", "first occurrence: born with one", {_CONFLICT: "1x60"}, {14: [], 15: [NODE]}, WARNING),
    Case("GpuOwnersConflict", "while a job ends and the next begins", {_CONFLICT: "_x10 1x5 stale"}, {16: [], 30: []},
         WARNING),
    Case("GpuOwnersConflict", "failed scrapes don't end it", {_CONFLICT: "1x20 stale _x2 1x20"},
         {21: [NODE], 23: [NODE]}, WARNING),
    Case("GpuOwnersConflict", "the card is handed over, and the conflict stays", {
        _CONFLICT: "1x20 stale", _CONFLICT.replace("slurm", "cgroup"): "_x20 1x30"}, {19: [NODE], 22: [NODE]}, WARNING),
    Case("GpuOwnersConflict", "unknown", {_CONFLICT: "_x60"}, {40: []}, WARNING),
    Case("GpuKernelLogUnread", "fires, resolves", {_LOG: "1x20 0x60 1x60"}, {30: [], 42: [NODE], 83: []}, WARNING),
    Case("GpuKernelLogUnread", "read", {_LOG: "1x60"}, {40: []}, WARNING),
    Case("GpuKernelLogUnread", "first occurrence: never", {_LOG: "_x20 0x60"}, {24: [], 26: [NODE]}, WARNING),
    Case("GpuKernelLogUnread", "a moment", {_LOG: "1x20 0x3 1x60"}, {30: []}, WARNING),
    Case("GpuKernelLogUnread", "failed scrapes don't end it", {_LOG: "0x30 stale _x2 0x60"}, {31: [NODE], 33: [NODE]},
         WARNING),
    Case("GpuKernelLogUnread", "not asked for", {_LOG: "_x60"}, {40: []}, WARNING),
    Case("PipelineLate", "fires, resolves", {_SUCCESS: "600x80 4800x60"}, {70: [], 76: [{}], 82: []}, CRITICAL),
    Case("PipelineLate", "the daemon is gone, and nobody scrapes it: said for a day", {_SUCCESS: "0x20 stale"},
         {64: [], 67: [{}], 1400: [{}], 1480: []}, CRITICAL),
    Case("PipelineLate", "an hour", {_SUCCESS: "-3600+60x200"}, {150: []}, CRITICAL),
    Case("PipelineLate", "first occurrence: never", {_SUCCESS: "0x200"}, {64: [], 67: [{}]}, CRITICAL),
    Case("PipelineLate", "no pipeline is there", {_SUCCESS: "_x200"}, {100: []}, CRITICAL),
    Case("PipelineLate", "one of two daemons is enough", {
        f'{_SUCCESS}{{instance="a"}}': "0x200", f'{_SUCCESS}{{instance="b"}}': "0+60x200"}, {100: []}, CRITICAL),
    Case("PipelineFailing", "three in an hour, resolves", {_FAILED: "0x20 1 2 3x100"}, {21: [], 30: [{}], 90: []},
         WARNING),
    Case("PipelineFailing", "two", {_FAILED: "0x20 1 2x100"}, {30: []}, WARNING),
    Case("PipelineFailing", "first occurrence: from the first pass on", {_FAILED: "0+1x20"}, {2: [], 10: [{}]},
         WARNING),
    Case("PipelineFailing", "done ones don't count", {_FAILED.replace("failed", "done"): "0+1x60"}, {30: []}, WARNING),
    Case("PipelineFailing", "unknown", {_FAILED: "_x60"}, {30: []}, WARNING),
    Case("MetricUnitDrift", "too high: fires, resolves", {_CHECK: "1x9 21x60 1x60"}, {39: [], 41: [_ENERGY], 71: []},
         WARNING),
    Case("MetricUnitDrift", "too low", {_CHECK: "0.19x60"}, {31: [_ENERGY]}, WARNING),
    Case("MetricUnitDrift", "within", {_CHECK: "0.2x60"}, {40: []}, WARNING),
    Case("MetricUnitDrift", "within, above", {_CHECK: "20x60"}, {40: []}, WARNING),
    Case("MetricUnitDrift", "too high, and gone: resolves", {_CHECK: "21x60 stale"}, {55: [_ENERGY], 68: []}, WARNING),
    Case("MetricUnitDrift", "too low, and gone: resolves", {_CHECK: "0.19x60 stale"}, {55: [_ENERGY], 68: []}, WARNING),
    Case("MetricUnitDrift", "unknown", {_CHECK: "_x60"}, {40: []}, WARNING),
    Case("MetricUnitDrift", "first occurrence: energy in mJ", {
        **ours(), _JOULES: "0+24000000x80", _WATTS: "400x80",
    }, {45: [_ENERGY]}, WARNING),
    Case("MetricUnitDrift", "energy as it should be", {
        **ours(), _JOULES: "0+24000x80", _WATTS: "400x80",
    }, {45: []}, WARNING),
    Case("MetricUnitDrift", "the driver's utilisation as a ratio of a ratio", {
        **ours(), _DRIVER: "0.0095x80", _ENGINE: "0.9x80",
    }, {45: [{"check": "utilisation"}]}, WARNING),
]  # fmt: skip
