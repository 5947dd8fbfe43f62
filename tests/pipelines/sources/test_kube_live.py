"""kube-state-metrics in a Prometheus: what is asked, and that two passes tell of one pod once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, cast

from pipelines.config import Source
from pipelines.sources.kube_live import read_kube_live
from pipelines.sources.prometheus.query_api import PrometheusApi

START = datetime(2026, 10, 5, 10, tzinfo=UTC)
POD = {"namespace": "ml.a", "pod": "p", "uid": "u1"}


class Server:
    """Answers range selectors from stored series, and writes down what it was asked."""

    def __init__(self, series: Mapping[str, list[tuple[dict[str, str], dict[int, float]]]]) -> None:
        self.asked: list[str] = []
        self._series = series

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def metric_names(self, start: datetime, end: datetime) -> list[str]:  # noqa: ARG002  as the API's
        return sorted(self._series)

    def query(self, expression: str, at: datetime) -> list[dict[str, Any]]:
        self.asked.append(expression)
        found = re.fullmatch(r'(\w+)(?:\{(\w+)=~"(.*)"\})?\[(\d+)ms\]', expression)
        assert found is not None
        name, key, pattern, span = found.groups()
        until = at.timestamp() * 1000
        result = []
        for labels, samples in self._series[name]:
            if key and not re.fullmatch(pattern.replace("\\\\", "\\"), labels.get(key, "")):
                continue
            told: dict[str, str] = {"__name__": str(name)} | labels
            inside = [[t / 1000, str(value)] for t, value in samples.items() if until - int(span) <= t <= until]
            if inside:
                result.append({"metric": told, "values": inside})
        return result


def source() -> Source:
    context = {"path": Path("gpuledger.yaml"), "zone": None}
    return Source.model_validate({"kube_state": "http://prometheus:9090", "cluster": "prod"}, context=context)


def server(minutes: int) -> Server:
    times = [round((START + timedelta(minutes=m)).timestamp() * 1000) for m in range(minutes)]

    def every(value: float) -> dict[int, float]:
        return dict.fromkeys(times, value)

    request = {**POD, "container": "c", "resource": "nvidia_com_gpu", "node": "n1"}
    other = {"namespace": "web", "pod": "w", "uid": "u2"}
    return Server(
        {
            "kube_pod_container_resource_requests": [
                (request, every(2)),
                ({**other, "container": "c", "resource": "cpu"}, every(4)),
            ],
            "kube_pod_status_phase": [
                ({**POD, "phase": "Running"}, every(1)),
                ({**other, "phase": "Running"}, every(1)),
            ],
            "kube_pod_start_time": [(POD, every(START.timestamp() - 60))],
            "kube_node_status_capacity": [({"node": "n1", "resource": "nvidia_com_gpu"}, every(8))],
            "node_load1": [({"instance": "x"}, every(1))],
        }
    )


def test_only_pods_with_gpus_are_asked_about() -> None:
    asked = server(60)
    batch = read_kube_live(source(), (START, START + timedelta(hours=1)), api=cast("PrometheusApi", asked))
    (row,) = batch.records.rows(named=True)
    assert (row["workload"], row["gpus"], row["nodes"], row["ended"]) == ("ml.a/p", "2", ["n1"], False)
    assert (row["start"], row["end"]) == (START - timedelta(minutes=1), START + timedelta(hours=1))
    assert set(batch.facts["scheduler_node"]["gpus"]) == {8}
    phases = [query for query in asked.asked if query.startswith("kube_pod_status_phase")]
    assert phases
    assert all("web" not in query for query in phases)
    assert not any(query.startswith("node_load1") for query in asked.asked)


def test_a_later_pass_tells_the_same_start() -> None:
    window = (START + timedelta(minutes=50), START + timedelta(hours=2))
    (row,) = read_kube_live(source(), window, api=cast("PrometheusApi", server(120))).records.rows(named=True)
    assert (row["start"], row["end"]) == (START - timedelta(minutes=1), START + timedelta(hours=2))


def test_a_long_window_is_asked_in_parts() -> None:
    asked = server(10)
    read_kube_live(
        source(), (START - timedelta(hours=20), START + timedelta(hours=1)), api=cast("PrometheusApi", asked)
    )
    assert len([query for query in asked.asked if query.startswith("kube_node_status_capacity")]) == 4
