"""kube-state-metrics' series → pods, nodes, namespaces' labels and quotas.

Two jobs or replicas may show the same object: it counts once. Labels that Prometheus has renamed because they clash
with the scrape's own (``exported_namespace``) go before those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from statistics import median
from typing import Final

from pipelines.sources.kube_model import Node, Pod, is_gpu_resource, labels_of, sanitised
from pipelines.sources.kube_quotas import Quota, Quotas
from pipelines.sources.tally import Tally

_RUNNING: Final = ("Running", "Unknown")  # Unknown: its node is out of reach, and its devices are still its own
STALE_MS: Final = 300_000  # Prometheus's own look-back
_NEW_POD_GAP_MS: Final = 1_800_000  # between two pods of one name where no uid tells them apart


@dataclass(frozen=True)
class Series:
    """Samples of one label set, in order of time (ms)."""

    labels: Mapping[str, str]
    times: list[int]
    values: list[float]


@dataclass
class Spell:
    """A time in which something was the case: of a node's condition, [from, to] in ms, as far as samples say.

    Attributes:
        ended: a later sample says otherwise.
    """

    node: str
    state: str
    reason: str
    first: int
    last: int
    ended: bool = False


@dataclass
class KubeSeries:
    """What series say; add them in any order."""

    tally: Tally
    pods: dict[tuple[str, str, str | None], Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    spells: list[Spell] = field(default_factory=list)
    last: int | None = None
    spacings: list[int] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)  # last sample of each node and namespace
    first_seen: dict[str, int] = field(default_factory=dict)  # first sample of each node
    with_phases: bool = False
    ready: dict[str, int] = field(default_factory=dict)  # since when nodes are, where that is told

    def add(self, metric: str, labels: Mapping[str, str], times: list[int], values: list[float]) -> None:
        """Take in one series, its samples in order of time (ms)."""
        reader = _READERS.get(metric)
        if reader is None or not times:
            return
        self.last = max(times[-1], self.last or times[-1])
        if len(times) > 2 and len(self.spacings) < 1000:
            self.spacings.append(int(median(b - a for a, b in pairwise(times))))
        reader(self, Series(labels, times, values))

    @property
    def interval(self) -> int:
        """How far apart samples stand, in ms."""
        return int(median(self.spacings)) if self.spacings else 60_000

    def is_current(self, name: str) -> bool:
        """Whether a node or namespace is still shown at the end."""
        return self.last is not None and self.seen.get(name, 0) >= self.last - STALE_MS

    def pod(self, labels: Mapping[str, str]) -> Pod | None:
        """The pod that labels speak of."""
        namespace, name = label(labels, "namespace"), label(labels, "pod")
        if not namespace or not name:
            return None
        uid = label(labels, "uid") or label(labels, "pod_uid")
        found = self.pods.setdefault((namespace, name, uid), Pod(namespace, name, uid))
        found.node = label(labels, "node") or found.node
        return found

    def node(self, labels: Mapping[str, str], times: Sequence[int]) -> Node | None:
        """The node that labels speak of, at these times."""
        name = label(labels, "node")
        if name is None:
            return None
        self.seen[name] = max(times[-1], self.seen.get(name, 0))
        self.first_seen[name] = min(times[0], self.first_seen.get(name, times[0]))
        node = self.nodes.setdefault(name, Node(name))
        node.observed = datetime.fromtimestamp(self.seen[name] / 1000, UTC)
        return node


def metrics_read() -> Iterable[str]:
    """Names of the metrics that are read."""
    return tuple(_READERS)


def label(labels: Mapping[str, str], name: str) -> str | None:
    """A label of the object; an empty one is none."""
    return labels.get(f"exported_{name}") or labels.get(name) or None


def _requests(kube: KubeSeries, series: Series) -> None:
    _resources(kube, series, init=False)


def _init_requests(kube: KubeSeries, series: Series) -> None:
    _resources(kube, series, init=series.labels.get("restart_policy") != "Always")


def _resources(kube: KubeSeries, series: Series, *, init: bool) -> None:
    resource, container = sanitised(series.labels.get("resource", "")), label(series.labels, "container")
    if not is_gpu_resource(resource) or container is None:
        return
    pod, count = kube.pod(series.labels), _decimal(max(series.values))
    if pod is None or count is None:
        kube.tally.add("request for GPUs that names no pod or no number")
        return
    amounts = (pod.inits if init else pod.containers).setdefault(container, {})
    amounts[resource] = max(count, amounts.get(resource, Decimal(0)))


def _phase(kube: KubeSeries, series: Series) -> None:
    pod = kube.pod(series.labels)
    if pod is None:
        return
    kube.with_phases = True
    when = [t for t, value in zip(series.times, series.values, strict=True) if value == 1]
    (pod.running if series.labels.get("phase") in _RUNNING else pod.over).extend(when)


def _info(kube: KubeSeries, series: Series) -> None:
    kube.pod(series.labels)


def _started(kube: KubeSeries, series: Series) -> None:
    pod = kube.pod(series.labels)
    if pod is not None and series.values[-1] > 0:
        pod.start = round(series.values[-1] * 1000)


def _completed(kube: KubeSeries, series: Series) -> None:
    pod = kube.pod(series.labels)
    if pod is not None and series.values[-1] > 0:
        pod.end = round(series.values[-1] * 1000)


def _annotations(kube: KubeSeries, series: Series) -> None:
    fraction = _decimal(series.labels.get("annotation_gpu_fraction"))
    pod = kube.pod(series.labels) if fraction is not None else None
    if pod is not None and fraction is not None and 0 < fraction <= 1:
        pod.fraction = fraction


def _capacity(kube: KubeSeries, series: Series) -> None:
    _node_resource(kube, series, "capacity")


def _allocatable(kube: KubeSeries, series: Series) -> None:
    _node_resource(kube, series, "allocatable")


def _node_resource(kube: KubeSeries, series: Series, which: str) -> None:
    resource, count = sanitised(series.labels.get("resource", "")), _decimal(series.values[-1])
    node = kube.node(series.labels, series.times) if is_gpu_resource(resource) else None
    if node is not None and count is not None:
        getattr(node, which)[resource] = count


def _node_labels(kube: KubeSeries, series: Series) -> None:
    node = kube.node(series.labels, series.times)
    if node is not None:
        node.labels |= labels_of(series.labels)


def _condition(kube: KubeSeries, series: Series) -> None:
    if series.labels.get("condition") == "Ready" and series.labels.get("status") in ("false", "unknown"):
        _add_spells(kube, series, "down", "not Ready")


def _unschedulable(kube: KubeSeries, series: Series) -> None:
    _add_spells(kube, series, "degraded", "cordoned")


def _add_spells(kube: KubeSeries, series: Series, state: str, reason: str) -> None:
    node = kube.node(series.labels, series.times)
    if node is None:
        return
    begun: Spell | None = None
    for t, value in zip(series.times, series.values, strict=True):
        if value != 1:
            if begun is not None:
                begun.last, begun.ended = t, True
            begun = None
        elif begun is None:
            begun = Spell(node.name, state, reason, t, t)
            kube.spells.append(begun)
        else:
            begun.last = t


def _namespace_labels(kube: KubeSeries, series: Series) -> None:
    namespace = label(series.labels, "namespace")
    if namespace is not None:
        kube.namespaces.setdefault(namespace, {}).update(labels_of(series.labels))
        kube.seen[namespace] = max(series.times[-1], kube.seen.get(namespace, 0))


def _resource_quota(kube: KubeSeries, series: Series) -> None:
    name = series.labels.get("resource", "").removeprefix("requests.")
    namespace = label(series.labels, "namespace")
    if namespace is not None and is_gpu_resource(sanitised(name)):
        key = Quota("namespace", namespace, None, sanitised(name))
        kube.quotas.add(
            key,
            str(series.labels.get("resourcequota")),
            series.values[-1],
            used=series.labels.get("type") == "used",
            at=series.times[-1],
        )


def _queue(kube: KubeSeries, series: Series, *, used: bool) -> None:
    queue, resource = series.labels.get("cluster_queue"), sanitised(series.labels.get("resource", ""))
    if queue and is_gpu_resource(resource):
        key = Quota("kueue", queue, series.labels.get("cohort") or None, resource)
        kube.quotas.add(key, str(series.labels.get("flavor")), series.values[-1], used=used, at=series.times[-1])


def _queue_quota(kube: KubeSeries, series: Series) -> None:
    _queue(kube, series, used=False)


def _queue_usage(kube: KubeSeries, series: Series) -> None:
    _queue(kube, series, used=True)


def _decimal(value: float | str | None) -> Decimal | None:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and number >= 0 else None


_READERS: Final[Mapping[str, Callable[[KubeSeries, Series], None]]] = {
    "kube_pod_container_resource_requests": _requests,
    "kube_pod_container_resource_limits": _requests,  # of GPUs requests and limits are the same number
    "kube_pod_init_container_resource_requests": _init_requests,
    "kube_pod_init_container_resource_limits": _init_requests,
    "kube_pod_status_phase": _phase,
    "kube_pod_info": _info,
    "kube_pod_start_time": _started,
    "kube_pod_completion_time": _completed,
    "kube_pod_annotations": _annotations,
    "kube_node_status_capacity": _capacity,
    "kube_node_status_allocatable": _allocatable,
    "kube_node_labels": _node_labels,
    "kube_node_status_condition": _condition,
    "kube_node_spec_unschedulable": _unschedulable,
    "kube_namespace_labels": _namespace_labels,
    "kube_resourcequota": _resource_quota,
    "kueue_cluster_queue_nominal_quota": _queue_quota,
    "kueue_cluster_queue_resource_usage": _queue_usage,
}


def split_by_time(pods: Iterable[Pod]) -> list[Pod]:
    """Tell pods of one name apart where no uid does: by another phase, or a long time, between two of its samples."""
    found = []
    for pod in pods:
        pod.running.sort()
        pod.over.sort()
        if pod.uid is not None or not pod.running:
            found.append(pod)
            continue
        groups: list[list[int]] = [[pod.running[0]]]
        for before, t in pairwise(pod.running):
            between = any(before < other < t for other in pod.over)
            if between or t - before > _NEW_POD_GAP_MS:
                groups.append([])
            groups[-1].append(t)
        for nth, group in enumerate(groups):
            last = nth == len(groups) - 1
            end = None if last else groups[nth + 1][0]
            found.append(
                Pod(
                    pod.namespace, pod.name, None, pod.node, pod.containers, pod.inits, group,
                    [t for t in pod.over if t > group[-1] and (end is None or t < end)],
                    # Start and end are of the newest pod of the name.
                    _after(pod.start, groups[nth - 1][-1] if nth else 0) if last else None,
                    pod.end if last else None, pod.fraction, pod.devices,
                )
            )  # fmt: skip
    return found


def _after(start: int | None, before: int) -> int | None:
    return start if start is not None and start > before else None
