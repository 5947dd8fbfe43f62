"""Objects as ``kubectl get … -o json`` (or yaml) writes them → pods, nodes, namespaces' labels and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from zoneinfo import ZoneInfo

import yaml

from exporter.errors import UsageError
from pipelines.periods import parse_time
from pipelines.sources.kube_model import Amounts, Node, Pod, is_gpu_resource, sanitised
from pipelines.sources.kube_quotas import Quota
from pipelines.sources.kube_series import KubeSeries, Spell
from pipelines.sources.slurm_values import members_of

_UTC: Final = ZoneInfo("UTC")
_DRIVER: Final = "gpu.nvidia.com"


def objects_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in JSON or YAML text, those in lists one by one.

    Raises:
        yaml.YAMLError: it is neither.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for document in yaml.load_all(text, Loader=loader):
        yield from _flat(document)


def _flat(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _flat(item)
    elif isinstance(document, dict):
        yield document


def add_objects(kube: KubeSeries, objects: Iterable[Mapping[str, Any]], at: datetime | None) -> int:
    """Take objects in; return how many were of a kind that is read."""
    read = 0
    claims: list[Mapping[str, Any]] = []
    slices: dict[tuple[str, str], str] = {}
    for thing in objects:
        kind, spec, status = str(thing.get("kind")), members_of(thing.get("spec")), members_of(thing.get("status"))
        meta = members_of(thing.get("metadata"))
        read += 1
        match kind:
            case "Pod":
                _pod(kube, meta, spec, status, at)
            case "Node":
                _node(kube, meta, spec, status, at)
            case "Namespace":
                labels = {sanitised(str(k)): str(v) for k, v in members_of(meta.get("labels")).items()}
                kube.namespaces.setdefault(str(meta.get("name")), {}).update(labels)
            case "ResourceQuota":
                _quota(kube, meta, spec, status)
            case "ClusterQueue":
                _queue(kube, meta, spec)
            case "ResourceClaim":
                claims.append(thing)
            case "ResourceSlice":
                slices |= _slice(spec)
            case _:
                read -= 1
    for claim in claims:
        _claim(kube, claim, slices)
    return read


def _pod(
    kube: KubeSeries, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any], at: datetime | None
) -> None:
    namespace, name, uid = str(meta.get("namespace") or "default"), str(meta.get("name")), meta.get("uid")
    pod = kube.pods.setdefault((namespace, name, uid), Pod(namespace, name, uid))
    pod.node = spec.get("nodeName") or pod.node
    for container in _list(spec.get("containers")):
        pod.containers[str(container.get("name"))] = _gpu_amounts(container)
    for container in _list(spec.get("initContainers")):
        sidecar = container.get("restartPolicy") == "Always"
        (pod.containers if sidecar else pod.inits)[str(container.get("name"))] = _gpu_amounts(container)
    annotations = members_of(meta.get("annotations"))
    if not any(pod.containers.values()):
        pod.containers[""] = _amounts(annotations)  # run:ai gives MIG instances so
    fraction = _decimal(annotations.get("gpu-fraction"))
    pod.fraction = fraction if fraction is not None and 0 < fraction <= 1 else None
    pod.start = _ms(status.get("startTime"))
    kube.with_phases = True
    phase = status.get("phase")
    ended = [
        _ms(members_of(members_of(each.get("state")).get("terminated")).get("finishedAt"))
        for each in _list(status.get("containerStatuses"))
    ]
    if phase in ("Running", "Unknown") and pod.start is not None:
        pod.running.append(pod.start)
        if at is not None:
            pod.running.append(round(at.timestamp() * 1000))
    elif phase in ("Succeeded", "Failed") and pod.start is not None:
        known = [t for t in ended if t is not None]
        if known:
            pod.running.append(pod.start)
            pod.end = max(known)


def _node(
    kube: KubeSeries, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any], at: datetime | None
) -> None:
    node = kube.nodes.setdefault(str(meta.get("name")), Node(str(meta.get("name"))))
    node.observed = at
    node.labels |= {sanitised(str(k)): str(v) for k, v in members_of(meta.get("labels")).items()}
    node.capacity |= _amounts(members_of(status.get("capacity")))
    node.allocatable |= _amounts(members_of(status.get("allocatable")))
    for condition in _list(status.get("conditions")):
        since = _ms(condition.get("lastTransitionTime"))
        if condition.get("type") != "Ready" or since is None:
            continue
        if condition.get("status") == "True":
            kube.ready[node.name] = since
        else:
            last = since if at is None else round(at.timestamp() * 1000)
            kube.spells.append(Spell(node.name, "down", str(condition.get("reason") or "not Ready"), since, last))
    if spec.get("unschedulable") and at is not None:
        now = round(at.timestamp() * 1000)
        kube.spells.append(Spell(node.name, "degraded", "cordoned", now, now))


def _quota(kube: KubeSeries, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    for part, used in ((members_of(spec.get("hard")), False), (members_of(status.get("used")), True)):
        for name, value in part.items():
            resource, count = sanitised(str(name).removeprefix("requests.")), _decimal(value)
            if is_gpu_resource(resource) and count is not None:
                quota = Quota("namespace", str(meta.get("namespace")), None, resource)
                kube.quotas.add(quota, str(meta.get("name")), float(count), used=used)


def _queue(kube: KubeSeries, meta: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    totals: dict[str, float] = {}
    for group in _list(spec.get("resourceGroups")):
        for flavor in _list(group.get("flavors")):
            for each in _list(flavor.get("resources")):
                resource, count = sanitised(str(each.get("name"))), _decimal(each.get("nominalQuota"))
                if is_gpu_resource(resource) and count is not None:
                    totals[resource] = totals.get(resource, 0.0) + float(count)
    for resource, total in totals.items():
        quota = Quota("kueue", str(meta.get("name")), spec.get("cohort") or None, resource)
        kube.quotas.add(quota, "", total, used=False)


def _slice(spec: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    pool = str(members_of(spec.get("pool")).get("name") or spec.get("nodeName"))
    found = {}
    for device in _list(spec.get("devices")):
        attributes = members_of(device.get("attributes")) or members_of(
            members_of(device.get("basic")).get("attributes")
        )
        uuid = members_of(attributes.get("uuid")).get("string")
        if uuid:
            found[pool, str(device.get("name"))] = str(uuid)
    return found


def _claim(kube: KubeSeries, claim: Mapping[str, Any], slices: Mapping[tuple[str, str], str]) -> None:
    status = members_of(claim.get("status"))
    namespace = str(members_of(claim.get("metadata")).get("namespace") or "default")
    results = _list(members_of(members_of(status.get("allocation")).get("devices")).get("results"))
    pods = [each for each in _list(status.get("reservedFor")) if each.get("resource") == "pods"]
    for result in results:
        if result.get("driver") != _DRIVER or result.get("adminAccess") is True:  # who looks on holds nothing
            continue
        device = slices.get((str(result.get("pool")), str(result.get("device"))))
        if device is None:
            kube.tally.add("claimed device that no ResourceSlice names", code="unresolved_owner")
            continue
        for each in pods:
            name, uid = str(each.get("name")), each.get("uid")
            pod = kube.pods.get((namespace, name, uid))
            if pod is not None:
                pod.devices[device] = max(len(pods), 1)


def _gpu_amounts(container: Mapping[str, Any]) -> Amounts:
    resources = members_of(container.get("resources"))
    # Who limits GPUs requests as many; run:ai's pods have requests alone.
    return _amounts({**members_of(resources.get("requests")), **members_of(resources.get("limits"))})


def _amounts(resources: Mapping[str, Any]) -> Amounts:
    found = {}
    for name, value in resources.items():
        resource, count = sanitised(str(name)), _decimal(value)
        if is_gpu_resource(resource) and count is not None:
            found[resource] = count
    return found


def _decimal(value: Any) -> Decimal | None:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and number >= 0 else None


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _ms(value: Any) -> int | None:
    if isinstance(value, datetime):  # YAML reads a bare timestamp
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    if not isinstance(value, str):
        return None
    try:
        return round(parse_time(value, _UTC).timestamp() * 1000)
    except UsageError:
        return None
