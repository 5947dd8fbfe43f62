"""kube-state-metrics and kubectl's objects: what pods hold, what nodes have, quotas and labels of namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import SourceError
from pipelines.facts import Facts
from pipelines.sources.kube_state import read_kube_state
from pipelines.tables import Batch

START = datetime(2026, 10, 5, 10, tzinfo=UTC)
Read = Callable[..., Batch]
GPU = "nvidia_com_gpu"


@pytest.fixture
def kube(tmp_path: Path) -> Read:
    def read(text: str, *, name: str = "kube.prom", **options: Any) -> Batch:
        (tmp_path / name).write_text(text)
        return read_kube_state(tmp_path / name, **{"cluster": "prod", **options})

    return read


def ms(minute: float) -> int:
    return round((START + timedelta(minutes=minute)).timestamp() * 1000)


def series(metric: str, minutes: Iterable[int], value: float = 1, /, **labels: str) -> str:
    told = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return "".join(f"{metric}{{{told}}} {value} {ms(minute)}\n" for minute in minutes)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def pod(
    minutes: Iterable[int],
    *,
    phase: str = "Running",
    gpus: float = 1,
    resource: str = GPU,
    after: tuple[str, Iterable[int]] | None = None,
    **labels: str,
) -> str:
    """A pod in a phase at some minutes, then in another; its requests are shown in both."""
    minutes = list(minutes)
    who = {"namespace": "ml", "pod": "p", "uid": "u1", **labels}
    later = list(after[1]) if after else []
    text = series("kube_pod_status_phase", minutes, phase=phase, **who)
    if after:
        text += series("kube_pod_status_phase", later, phase=after[0], **who)
    request = {"container": "c", "node": "n1", "resource": resource, "unit": "integer"}
    return text + series("kube_pod_container_resource_requests", [*minutes, *later], gpus, **who, **request)


def held(batch: Batch) -> list[tuple[str, str, float]]:
    """Workload, GPUs and minutes of each record."""
    return [
        (row["workload"], row["gpus"], (row["end"] - row["start"]).total_seconds() / 60)
        for row in batch.records.sort("start", "workload").rows(named=True)
    ]


def facts(batch: Batch, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return Facts(batch.facts)[table].select(columns).rows()


class TestPods:
    def test_a_pod_that_is_over_holds_nothing_though_its_requests_are_still_shown(self, kube: Read) -> None:
        text = pod(range(10), after=("Succeeded", range(10, 40)), uid="a", pod="done") + pod(range(40), uid="b")
        assert held(kube(text)) == [("ml/done", "1", 10.0), ("ml/p", "1", 40.0)]

    def test_a_pod_that_waits_holds_nothing(self, kube: Read) -> None:
        assert held(kube(pod(range(30), phase="Pending"))) == []

    def test_a_pod_out_of_reach_still_holds_its_devices(self, kube: Read) -> None:
        assert held(kube(pod(range(30), phase="Unknown"))) == [("ml/p", "1", 30.0)]

    def test_init_containers_count_by_the_largest_of_them(self, kube: Read) -> None:
        who = {"namespace": "ml", "pod": "p", "uid": "u1"}
        text = series("kube_pod_status_phase", range(10), phase="Running", **who)
        for metric, container, gpus in [
            ("kube_pod_init_container_resource_requests", "init", 4),
            ("kube_pod_container_resource_requests", "a", 1),
            ("kube_pod_container_resource_requests", "b", 1),
        ]:
            text += series(metric, range(10), gpus, container=container, resource=GPU, unit="integer", **who)
        assert held(kube(text)) == [("ml/p", "4", 10.0)]

    def test_two_pods_of_one_name_are_told_apart_by_their_uid(self, kube: Read) -> None:
        text = pod(range(20), uid="uid1", pod="job-0") + pod(range(60, 70), uid="uid2", pod="job-0")
        assert held(kube(text)) == [("ml/job-0", "1", 20.0), ("ml/job-0", "1", 10.0)]

    def test_without_a_uid_a_long_time_tells_them_apart(self, kube: Read) -> None:
        text = (pod(range(20)) + pod(range(60, 70))).replace(',uid="u1"', "")
        assert held(kube(text)) == [("ml/p", "1", 20.0), ("ml/p", "1", 10.0)]

    def test_an_outage_of_kube_state_metrics_is_no_end_of_a_pod(self, kube: Read) -> None:
        assert held(kube(pod([*range(20), *range(80, 90)]))) == [("ml/p", "1", 90.0)]

    def test_two_jobs_that_show_the_same_pod_count_once(self, kube: Read) -> None:
        text = pod(range(10), job="kube-state-metrics") + pod(range(10), job="opencost")
        assert held(kube(text)) == [("ml/p", "1", 10.0)]

    def test_a_pods_own_namespace_goes_before_that_of_the_scrape(self, kube: Read) -> None:
        text = pod(range(10)).replace('namespace="ml"', 'namespace="monitoring",exported_namespace="ml"')
        assert held(kube(text)) == [("ml/p", "1", 10.0)]

    def test_its_start_and_completion_are_its_own_where_they_are_told(self, kube: Read) -> None:
        who = {"namespace": "ml", "pod": "p", "uid": "u1"}
        text = pod(range(10), after=("Succeeded", [10]))
        text += series("kube_pod_start_time", range(10), ms(-5) / 1000, **who)
        text += series("kube_pod_completion_time", [10], ms(9.5) / 1000, **who)
        assert held(kube(text)) == [("ml/p", "1", 14.5)]

    def test_what_still_runs_is_open_and_what_is_gone_is_over(self, kube: Read) -> None:
        batch = kube(pod(range(60), uid="a", pod="stays") + pod(range(10), uid="b", pod="deleted"))
        assert dict(batch.records.select("workload", "ended").rows()) == {"ml/stays": False, "ml/deleted": True}

    def test_pods_without_gpus_give_nothing(self, kube: Read) -> None:
        assert kube(pod(range(10), resource="cpu")).records.is_empty()


class TestShares:
    def node(self, **labels: str) -> str:
        told = {f"label_nvidia_com_gpu_{name}": value for name, value in labels.items()}
        return series("kube_node_labels", [0, 9], node="n1", **told)

    def test_replicas_are_parts_of_a_gpu(self, kube: Read) -> None:
        text = self.node(replicas="4", count="1", product="NVIDIA-A100-SXM4-80GB-SHARED")
        text += "".join(pod(range(10), uid=f"u{n}", pod=f"p{n}") for n in range(3))
        batch = kube(text)
        assert held(batch) == [(f"ml/p{n}", "0.25", 10.0) for n in range(3)]
        assert batch.records["model"].unique().to_list() == ["NVIDIA A100 SXM4 80GB"]
        assert set(facts(batch, "scheduler_node", "gpus", "slots")) == {(1, 4)}

    def test_a_node_that_shows_no_gpu_but_shared_ones_has_its_physical_cards(self, kube: Read) -> None:
        text = self.node(replicas="4") + series("kube_node_status_capacity", [0, 9], 0, node="n1", resource=GPU)
        text += series("kube_node_status_capacity", [0, 9], 4, node="n1", resource="nvidia_com_gpu_shared")
        batch = kube(text + pod(range(10), resource="nvidia_com_gpu_shared"))
        assert held(batch) == [("ml/p", "0.25", 10.0)]
        assert set(facts(batch, "scheduler_node", "gpus", "slots")) == {(1, 4)}

    def test_slices_of_unknown_size_are_said_and_not_billed_as_gpus(self, kube: Read) -> None:
        batch = kube(pod(range(10), resource="nvidia_com_gpu_shared"))
        assert batch.records.is_empty()
        assert [(f.code, f.count) for f in batch.findings] == [("gpus_not_tracked", 1)]

    def test_cores_of_hami_are_percent_of_each_gpu(self, kube: Read) -> None:
        text = pod(range(10), gpus=2) + pod(range(10), gpus=30, resource="nvidia_com_gpucores")
        assert held(kube(text)) == [("ml/p", "0.6", 10.0)]

    def test_mig_instances_are_named_by_their_profile(self, kube: Read) -> None:
        batch = kube(pod(range(10), gpus=2, resource="nvidia_com_mig_1g_5gb"))
        assert batch.records.select("model", "gpus").rows() == [("1g.5gb", "2")]


class TestNodesQuotasAndLabels:
    def test_a_node_that_is_not_ready_is_down_meanwhile(self, kube: Read) -> None:
        labels = {"node": "n1", "condition": "Ready"}
        text = series("kube_node_status_condition", range(5), 0, status="false", **labels)
        text += series("kube_node_status_condition", range(5, 9), 1, status="false", **labels)
        text += series("kube_node_status_condition", range(9, 20), 0, status="false", **labels)
        ((state, begins, ends),) = facts(kube(text), "condition", "state", "from", "to")
        assert (state, begins, ends) == ("down", START + timedelta(minutes=5), START + timedelta(minutes=9))

    def test_a_node_that_came_back_just_now_is_no_longer_down(self, kube: Read) -> None:
        text = series("kube_node_status_capacity", range(20), 8, node="n1", resource=GPU)
        labels = {"node": "n1", "condition": "Ready", "status": "false"}
        text += series("kube_node_status_condition", range(12, 18), 1, **labels)
        text += series("kube_node_status_condition", range(18, 20), 0, **labels)
        told = facts(kube(text), "condition", "state", "from", "to", "observed")
        bounds = (START + timedelta(minutes=12), START + timedelta(minutes=18), None)
        assert told[0] == ("down", *bounds)
        assert [(state, observed) for state, _, _, observed in told[1:]] == [("ok", START + timedelta(minutes=19))]

    def test_a_quota_that_is_no_longer_shown_is_none(self, kube: Read) -> None:
        of = {"resource": "requests.nvidia.com/gpu", "type": "hard"}
        text = series("kube_resourcequota", range(5), 8, namespace="gone", **of)
        text += series("kube_resourcequota", range(60), 4, namespace="there", **of)
        assert facts(kube(text), "quota_limit", "name", "gpus") == [("there", 4.0)]

    def test_a_node_that_is_no_longer_shown_is_not_listed(self, kube: Read) -> None:
        text = series("kube_node_status_capacity", range(5), 8, node="gone", resource=GPU)
        text += series("kube_node_status_capacity", range(60), 8, node="there", resource=GPU)
        told = facts(kube(text), "scheduler_node", "node", "observed")
        assert {node for node, at in told if at > minute(30)} == {"there"}

    def test_nodes_are_listed_as_they_come_and_go(self, kube: Read) -> None:
        spans = {"stays": range(60), "goes": range(20), "comes": range(30, 60), "late": range(2, 60)}
        text = "".join(series("kube_node_status_capacity", span, 8, node=n, resource=GPU) for n, span in spans.items())
        told: dict[datetime, set[str]] = {}
        for node, at in facts(kube(text), "scheduler_node", "node", "observed"):
            told.setdefault(at, set()).add(node)
        assert told == {
            minute(0): {"stays", "goes", "late"},
            minute(20): {"stays", "late"},
            minute(30): {"stays", "comes", "late"},
            minute(59): {"stays", "comes", "late"},
        }

    def test_quotas_of_namespaces_and_of_kueue(self, kube: Read) -> None:
        text = "".join(
            series("kube_resourcequota", [0], value, namespace="ml", resource=f"requests.{name}", type=kind)
            for name, kind, value in [("nvidia.com/gpu", "hard", 8), ("nvidia.com/gpu", "used", 3), ("cpu", "hard", 9)]
        )
        for flavor, value in (("a100", 8), ("h100", 16)):
            labels = {"cluster_queue": "cq", "flavor": flavor, "resource": "nvidia.com/gpu"}
            text += series("kueue_cluster_queue_nominal_quota", [0], value, **labels)
        assert facts(kube(text), "quota_limit", "kind", "name", "gpus", "used") == [
            ("kueue", "cq", 24.0, None),
            ("namespace", "ml", 8.0, 3.0),
        ]

    def test_labels_of_namespaces_are_kept(self, kube: Read) -> None:
        text = series("kube_namespace_labels", [0], namespace="ml", label_team="vision", label_env="prod")
        assert facts(kube(text), "namespace_label", "namespace", "label", "value") == [
            ("ml", "env", "prod"),
            ("ml", "team", "vision"),
        ]

    def test_text_without_times_needs_to_be_told_when_it_was_asked(self, kube: Read) -> None:
        line = 'kube_node_status_capacity{node="n1",resource="nvidia_com_gpu"} 8\n'
        with pytest.raises(SourceError, match="add `at`"):
            kube(line)
        assert facts(kube(line, at=START), "scheduler_node", "gpus") == [(8,)]

    def test_bad_lines_are_counted_and_the_rest_kept(self, kube: Read) -> None:
        batch = kube(pod(range(10)) + 'kube_pod_info{a="b} 1 1\nkube_pod_info{namespace="ml",pod="p"} x 1\n')
        assert held(batch) == [("ml/p", "1", 10.0)]
        assert sum(f.count for f in batch.findings if f.code == "bad_line") == 2


class TestObjects:
    def test_a_claimed_device_is_known_by_its_uuid(self, kube: Read) -> None:
        objects = [
            {
                "kind": "Pod",
                "metadata": {"namespace": "ml", "name": "p", "uid": "u1"},
                "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
                "status": {"phase": "Running", "startTime": "2026-10-05T10:00:00Z"},
            },
            {
                "kind": "ResourceClaim",
                "metadata": {"namespace": "ml", "name": "c"},
                "status": {
                    "allocation": {
                        "devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]}
                    },
                    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u1"}],
                },
            },
            {
                "kind": "ResourceSlice",
                "spec": {
                    "nodeName": "n1",
                    "pool": {"name": "n1"},
                    "devices": [{"name": "gpu-0", "basic": {"attributes": {"uuid": {"string": "GPU-a"}}}}],
                },
            },
        ]
        text = json.dumps({"kind": "List", "items": objects})
        batch = kube(text, name="all.json", at=START + timedelta(hours=1))
        assert batch.records.select("workload", "device", "gpus", "ended").rows() == [("ml/p", "GPU-a", "1", False)]
        assert held(batch) == [("ml/p", "1", 60.0)]

    def test_objects_in_yaml_are_the_same(self, kube: Read) -> None:
        text = """\
kind: Pod
metadata: {name: p, namespace: ml, uid: u1, annotations: {gpu-fraction: "0.5"}}
spec: {nodeName: n1, containers: [{name: c}]}
status:
  phase: Succeeded
  startTime: 2026-10-05T10:00:00Z
  containerStatuses: [{state: {terminated: {finishedAt: "2026-10-05T10:30:00Z"}}}]
---
kind: ResourceQuota
metadata: {name: q, namespace: ml}
spec: {hard: {requests.nvidia.com/gpu: "8"}}
status: {used: {requests.nvidia.com/gpu: "1"}}
---
kind: ClusterQueue
metadata: {name: cq}
spec:
  cohort: all
  resourceGroups: [{flavors: [{name: a, resources: [{name: nvidia.com/gpu, nominalQuota: 16}]}]}]
---
kind: Namespace
metadata: {name: ml, labels: {team: vision, example.org/owner: ada}}
"""
        batch = kube(text, name="all.yaml", at=START)
        assert held(batch) == [("ml/p", "0.5", 30.0)]
        assert facts(batch, "quota_limit", "name", "within", "gpus", "used") == [
            ("cq", "all", 16.0, None),
            ("ml", None, 8.0, 1.0),
        ]
        assert facts(batch, "namespace_label", "label", "value") == [("example_org_owner", "ada"), ("team", "vision")]

    @pytest.mark.parametrize("text", ["", "a: [", "just text", "[1, 2]", "kind: Deployment\n"])
    def test_what_holds_nothing_is_said(self, kube: Read, text: str) -> None:
        batch = kube(text, name="x.yaml", at=START)
        assert batch.records.is_empty()
        assert [f.code for f in batch.findings] == ["bad_line"]
