"""What a label set says about device, place and owner: the label columns of the sample table.

Exporters name the same thing in their own ways; here is the one place that knows them. An empty label means the
same as an absent one (Prometheus), so both give null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

# Series with the value 1 whose labels describe what other series of the same exporter only point at.
GPU_INFO: Final = "nvidia_smi_gpu_info"
MIG_INFO: Final = "nvidia_smi_mig_info"
INFO_SERIES: Final = frozenset({GPU_INFO, MIG_INFO})

# dcgm-exporter puts NVLinks, NVSwitches and CPUs beside GPUs; they are no devices that anyone holds.
_OTHER_ENTITIES: Final = ("nvlink", "nvswitch", "cpu", "cpucore")
_OLD_MIG_UUID: Final = re.compile(r"MIG-(GPU-[^/]+)/(\d+)(?:/\d+)?\Z")
_BARE_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\Z")
_COMPUTE_INSTANCE: Final = re.compile(r"\A\d+c\.")


class Identity(NamedTuple):
    """The label columns of ``SAMPLE_LABELS`` apart from the time, in that order."""

    cluster: str
    node: str | None
    device: str
    instance: str | None
    profile: str | None
    model: str | None
    gpu_index: str | None  # column `index`, a name that tuples have taken
    namespace: str | None
    pod: str | None
    container: str | None
    pod_uid: str | None
    job: str | None
    slice: str | None
    replica: str | None
    scrape_job: str | None


def identify(labels: Mapping[str, str], cluster: str) -> Identity | None:
    """The identity behind a label set; None where it names no device.

    Args:
        labels: of one series of dcgm-exporter, nvidia_gpu_exporter or our own exporter.
        cluster: the source's.
    """
    node = _first(labels, "Hostname", "hostname", "node", "kubernetes_node") or _host(labels.get("instance"))
    index = _first(labels, "gpu", "index")
    device, instance = split_uuid(_first(labels, "UUID", "uuid", "gpu_uuid") or _device_label(labels))
    if device is None:
        if not node or not index:
            return None
        device = f"{node}/{index}"
    profile = _first(labels, "GPU_I_PROFILE", "gpu_profile", "mig_profile")
    return Identity(
        cluster=cluster,
        node=node,
        device=device,
        instance=_first(labels, "GPU_I_ID", "gpu_instance", "gpu_instance_id", "mig_instance") or instance,
        profile=profile,
        model=_first(labels, "modelName", "model"),
        gpu_index=index,
        namespace=_first(labels, "exported_namespace", "namespace"),
        pod=_first(labels, "exported_pod", "pod"),
        container=_first(labels, "exported_container", "container"),
        pod_uid=_first(labels, "exported_pod_uid", "pod_uid"),
        job=_first(labels, "exported_hpc_job", "hpc_job"),
        slice=_first(labels, "vgpu"),
        replica=_first(labels, "prometheus_replica", "replica", "__replica__"),
        scrape_job=_first(labels, "job"),
    )


def is_other_entity(labels: Mapping[str, str]) -> bool:
    """Whether the series is of a link, a switch or a CPU rather than of a GPU."""
    return any(labels.get(label) for label in _OTHER_ENTITIES)


def split_uuid(uuid: str | None) -> tuple[str | None, str | None]:
    """Card and MIG instance behind a UUID as exporters, Kubernetes and people write it.

    ``MIG-GPU-…/gi/ci`` (drivers before 470) names its card; nvidia_gpu_exporter leaves "GPU-" out.
    """
    if not uuid:
        return None, None
    old = _OLD_MIG_UUID.match(uuid)
    if old is not None:
        return old[1], old[2]
    return (f"GPU-{uuid}" if _BARE_UUID.match(uuid) else uuid), None


def mig_profile(profile: str) -> str:
    """The GPU instance's profile in that of one of its compute instances: ``1c.3g.71gb`` is of ``3g.71gb``."""
    return _COMPUTE_INSTANCE.sub("", profile)


def _first(labels: Mapping[str, str], *names: str) -> str | None:
    for name in names:
        value = labels.get(name)
        if value:
            return value
    return None


def _device_label(labels: Mapping[str, str]) -> str | None:
    device = labels.get("device", "")
    return device if device.startswith(("GPU-", "MIG-")) else None


def _host(instance: str | None) -> str | None:
    """The host of ``host:port``; an IPv6 address stands in brackets before its port."""
    if not instance:
        return None
    if instance.startswith("["):
        return instance[1:].partition("]")[0] or None
    if instance.count(":") > 1:
        return instance
    return instance.partition(":")[0] or None
