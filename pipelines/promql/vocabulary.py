"""Which series there are, and the labels that each may have."""

from __future__ import annotations

from typing import Final

from exporter.catalog import CATALOG, PREFIX
from exporter.families import OWN_METRICS
from pipelines.promql.recorded import RECORDED

TARGET: Final = frozenset(
    {"job", "instance", "cluster", "node", "namespace", "pod", "container", "service", "endpoint"}
)
"""Labels that Prometheus adds to what it scrapes."""
_DEVICE: Final = frozenset({"node", "gpu", "uuid", "model", "gpu_instance", "gpu_profile"})
_HOLDER: Final = frozenset(
    {"namespace", "pod", "container", "pod_uid", "hpc_job", "user", "account", "partition", "qos", "workload", "vgpu"}
)
_EXPORTED: Final = frozenset(f"exported_{name}" for name in (*_HOLDER, "job"))
_OF_OWN_METRIC: Final = {
    "build_info": {"version"},
    "backend_info": {"backend", "driver_version"},
    "device_info": {"pci_bus_id", "minor", "serial", "vbios", "inforom"},
    "device_state": {"state"},
    "capability": {"capability"},
    "owner_conflicts": {"believed", "overruled"},
    "owner_adapter_up": {"adapter"},
    "owner_unresolved_devices": {"adapter"},
    "xid_errors_total": {"xid", "class", "pci_bus_id"},
    "xid_last_timestamp_seconds": {"xid", "class", "pci_bus_id"},
    "rejected_samples_total": {"metric", "reason"},
}
_DCGM: Final = frozenset(
    {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "hostname", "GPU_I_ID", "GPU_I_PROFILE"}
    | {"DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_MINOR_NUMBER", "err_code", "err_msg"}
)
_PROMISE: Final = {"reservation", "source", "tenant", "model"}
_PIPELINE: Final = {
    "pipeline_passes_total": {"result"},
    "pipeline_last_success_timestamp_seconds": set[str](),
    "pipeline_last_pass_duration_seconds": set[str](),
    "pipeline_rows_total": {"kind"},
    "pipeline_findings_total": {"code"},
    "pipeline_watermark_lag_seconds": {"source"},
    "capacity_at_timestamp_seconds": set[str](),
    "capacity_cards": {"model", "state"},
    "capacity_whole_free_cards": {"model"},
    "capacity_largest_block_cards": {"model"},
    "capacity_troubled_cards": {"cluster", "node", "state"},
    "capacity_reservation_gpus": _PROMISE,
    "capacity_reservation_start_timestamp_seconds": _PROMISE,
    "capacity_reservation_end_timestamp_seconds": _PROMISE,
    "capacity_reservation_fits": _PROMISE,
}
_ALERT: Final = frozenset({"alertname", "alertstate", "severity", "audience", "tenant"}) | _DEVICE | {"cluster"}
# Prometheus's own, as far as the boards read them.
_PROMETHEUS: Final = {
    "up": frozenset[str](),
    "scrape_duration_seconds": frozenset[str](),
    "scrape_samples_scraped": frozenset[str](),
    "prometheus_tsdb_head_series": frozenset[str](),
    "prometheus_rule_group_last_duration_seconds": frozenset({"rule_group"}),
    "prometheus_rule_evaluation_failures_total": frozenset({"rule_group"}),
}

VOLATILE: Final = frozenset(
    {"pod", "pod_uid", "container", "hpc_job", "vgpu", "instance", "pci_bus_id", "holder_pod", "holder_namespace"}
    | _EXPORTED
)
"""Labels whose values come and go: a recorded series or an alert that had them would start anew with each."""


def labels_of(name: str) -> frozenset[str] | None:
    """Labels that the series of one name may have; None: there is no such series."""
    return _LABELS.get(name)


def _vocabulary() -> dict[str, frozenset[str]]:
    held = TARGET | _HOLDER | _EXPORTED
    known = {recorded.name: frozenset(recorded.labels) for recorded in RECORDED.values()}
    known |= {metric.name: held | _DEVICE for metric in CATALOG}
    known |= {name.name: held | _DCGM for metric in CATALOG for name in metric.dcgm}
    known |= {f"{PREFIX}{key}": TARGET | _DEVICE | _OF_OWN_METRIC.get(key, set()) for key in OWN_METRICS}
    known |= {f"{PREFIX}{key}": TARGET | labels for key, labels in _PIPELINE.items()}
    known |= {name: TARGET | labels for name, labels in _PROMETHEUS.items()}
    return known | {"ALERTS": _ALERT, "ALERTS_FOR_STATE": _ALERT}


_LABELS: Final = _vocabulary()
