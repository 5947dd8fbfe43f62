"""kube-state-metrics as a Prometheus has stored it: asked metric by metric, and of pods only those with GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pipelines.sources.kube_model import is_gpu_resource, sanitised
from pipelines.sources.kube_series import KubeSeries, label, metrics_read
from pipelines.sources.kube_state import batch_of
from pipelines.sources.prometheus.connection import AnswerTooLargeError
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.tally import Tally
from pipelines.tables import Batch

if TYPE_CHECKING:
    from pipelines.config import Source

FIRST: Final = timedelta(days=30)
"""How far back the first pass looks: pods tell their start themselves, whatever the window."""
_WINDOW: Final = timedelta(hours=6)
_SHORTEST: Final = timedelta(minutes=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_REQUESTS: Final = tuple(name for name in metrics_read() if "_resource_" in name and "_container_" in name)

_Samples = dict[str, tuple[str, dict[str, str], dict[int, float]]]


def read_kube_live(
    source: Source,
    window: tuple[datetime, datetime] | None,
    *,
    api: PrometheusApi | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Batch:
    """What pods held in ``window``, and nodes, conditions, quotas and namespaces' labels; without one, of `FIRST`.

    Raises:
        SourceError: the server can't be asked, or answers in part only.
    """
    start, end = window or (now() - FIRST, now())
    # The sign-in keys are the same; only the URL stands under another name.
    asked = source.model_copy(update={"prometheus": source.written})
    kube = KubeSeries(Tally(source.written))
    with api or PrometheusApi.of(asked) as server:
        there = set(server.metric_names(start, end))
        found: _Samples = {}
        for metric in _REQUESTS:
            if metric in there:
                _read(server, metric, "", start, end, found)
        namespaces = sorted({str(label(labels, "namespace")) for _, labels, _ in found.values() if _is_of_gpu(labels)})
        for metric in metrics_read():
            if metric not in there or metric in _REQUESTS:
                continue
            of_pods = metric.startswith("kube_pod_")
            for matcher in _matchers(namespaces) if of_pods else [""]:
                _read(server, metric, matcher, start, end, found)
    with_gpus = {_pod(labels) for metric, labels, _ in found.values() if metric in _REQUESTS and _is_of_gpu(labels)}
    for metric, labels, samples in found.values():
        if metric.startswith("kube_pod_") and _pod(labels) not in with_gpus and metric != "kube_pod_annotations":
            continue
        kube.add(metric, labels, sorted(samples), [samples[t] for t in sorted(samples)])
    return batch_of(kube, cluster=source.cluster or "default", at=end)


def _matchers(namespaces: list[str]) -> list[str]:
    """Select pods of these namespaces, whatever the label is called."""
    if not namespaces:
        return []
    quoted = "|".join(re.escape(name) for name in namespaces).replace("\\", "\\\\")
    return [f'{{{key}=~"{quoted}"}}' for key in ("namespace", "exported_namespace")]


def _is_of_gpu(labels: dict[str, str]) -> bool:
    return is_gpu_resource(sanitised(labels.get("resource", "")))


def _pod(labels: dict[str, str]) -> tuple[str | None, str | None]:
    return label(labels, "namespace"), label(labels, "pod")


def _read(api: PrometheusApi, metric: str, matcher: str, start: datetime, end: datetime, into: _Samples) -> None:
    lower = start
    while lower < end:
        upper = min(lower + _WINDOW, end)
        _read_window(api, metric, matcher, lower, upper, into)
        lower = upper


def _read_window(api: PrometheusApi, metric: str, matcher: str, start: datetime, end: datetime, into: _Samples) -> None:
    # As in `prometheus`: evaluated 1 ms before the end, so that it spans [start, end) whatever the server's version.
    expression = f"{metric}{matcher}[{(end - start) // _MILLISECOND}ms]"
    try:
        result: list[dict[str, Any]] = api.query(expression, end - _MILLISECOND)
    except AnswerTooLargeError:
        if end - start <= _SHORTEST:
            raise
        middle = start + (end - start) // 2
        _read_window(api, metric, matcher, start, middle, into)
        _read_window(api, metric, matcher, middle, end, into)
        return
    first = round(start.timestamp() * 1000)
    for series in result:
        labels = {str(name): str(value) for name, value in series["metric"].items()}
        _, _, samples = into.setdefault(f"{metric}{sorted(labels.items())}", (metric, labels, {}))
        for seconds, value in series.get("values", ()):
            t = round(float(seconds) * 1000)
            if t >= first and value != "NaN":
                samples[t] = float(value)
