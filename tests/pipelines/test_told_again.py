"""What several imports tell of the same pods, jobs, nodes and namespaces is one thing, whatever came first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pipelines.availability import published_availability
from pipelines.config import load
from pipelines.operations import report, run_once
from pipelines.report import Report

CONFIG: Final[dict[str, Any]] = {
    "currency": "USD",
    "tenants": [
        {"id": "vision", "match": [{"namespace": "vision*"}, {"slurm_partition": "gpu"}, {"namespace_label": "team=v"}]}
    ],
    "rates": [{"model": "*", "on_demand": "1.00"}],
}
GPU: Final = "nvidia.com/gpu"
LABELS: Final = {f"{GPU}.count": "2", f"{GPU}.product": "NVIDIA-H100"}
Pass = tuple[str, Sequence[Any]]
Passes = Callable[..., list[Report]]


def node(name: str = "n1", *, ready: str = "True", since: str = "10:00", labels: Any = LABELS, **spec: Any) -> Any:
    ready_since = {"type": "Ready", "status": ready, "lastTransitionTime": f"2026-10-05T{since}:00Z"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}, "conditions": [ready_since]},
    }


def pod(name: str = "p", namespace: str = "vision", gpus: int = 1) -> Any:
    limits = {GPU: str(gpus)} if gpus else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{name}-uid"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", "startTime": "2026-10-05T10:00:00Z"},
    }


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    """Bring a ledger up to date with what a cluster says at one hour after the other; return the reports."""

    def gone_through(*told: Pass) -> list[Report]:
        reports = []
        for at, objects in told:
            source = {"kube_state": "objects.json", "cluster": "prod", "at": f"2026-10-05T{at}:00Z"}
            (tmp_path / "gpuledger.yaml").write_text(yaml.safe_dump({**CONFIG, "sources": [source]}))
            (tmp_path / "objects.json").write_text(json.dumps({"kind": "List", "items": list(objects)}))
            config = load(tmp_path / "gpuledger.yaml")
            run_once(config)
            reports.append(report(config))
        return reports

    return gone_through


def billed(found: Report) -> dict[str, str]:
    return {t.tenant: t.charges.total for t in found.tenants if t.charges.total != "0.00"}


def trouble(folder: Path) -> list[str]:
    found = published_availability(load(folder / "gpuledger.yaml"))
    assert found is not None
    return [one.state for one in found.trouble]


def test_a_node_is_down_until_it_is_ready_again(passes: Passes, tmp_path: Path) -> None:
    found = passes(
        ("12:00", [node(ready="False", since="11:00"), pod()]),
        ("13:00", [node(since="12:30"), pod()]),
        ("14:00", [node(since="12:30"), pod()]),
    )
    # Two cards from 11:00 to 12:30; the pod held one of them from 10:00 to 11:00 and from 12:30 on.
    assert [r.fleet.down_gpu_hours for r in found] == [2, 3, 3]
    assert [billed(r) for r in found] == [{"vision": "1.00"}, {"vision": "1.50"}, {"vision": "2.50"}]
    assert trouble(tmp_path) == []


def test_a_node_that_is_cordoned_is_degraded_until_it_is_not(passes: Passes, tmp_path: Path) -> None:
    passes(("12:00", [node(unschedulable=True), pod()]))
    assert set(trouble(tmp_path)) == {"degraded"}
    passes(("13:00", [node(), pod()]))
    assert trouble(tmp_path) == []


def test_a_pod_whose_node_was_not_known_yet_is_billed_once(passes: Passes) -> None:
    assert billed(passes(("12:00", [pod()]), ("13:00", [node(), pod()]))[-1]) == {"vision": "3.00"}
    assert billed(passes(("12:00", [node(labels={}), pod()]), ("13:00", [node(), pod()]))[-1]) == {"vision": "3.00"}


def claim(namespace: str, name: str, devices: Sequence[str], **more: Any) -> Any:
    results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": d, "request": "r", **more} for d in devices]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": f"claim-{name}", "namespace": namespace},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"{name}-uid"}],
        },
    }


SLICE: Final = {
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "n1",
        "pool": {"name": "n1"},
        "devices": [
            {"name": f"gpu-{n}", "attributes": {"uuid": {"string": f"GPU-{n}"}, "type": {"string": "gpu"}}}
            for n in range(2)
        ],
    },
}


def test_a_pod_that_claims_two_devices_pays_for_both_and_who_looks_on_for_none(passes: Passes) -> None:
    watching = [pod("m", "vision-monitor", 0), claim("vision-monitor", "m", ["gpu-0", "gpu-1"], adminAccess=True)]
    held = [pod(gpus=0), claim("vision", "p", ["gpu-0", "gpu-1"])]
    found = passes(("12:00", [SLICE, *held, *watching]), ("13:00", [SLICE, *held, *watching]))
    assert [billed(r) for r in found] == [{"vision": "4.00"}, {"vision": "6.00"}]


def test_what_a_deleted_namespace_held_is_still_its_tenants(passes: Passes) -> None:
    named = {"kind": "Namespace", "metadata": {"name": "x", "labels": {"team": "v"}}}
    other = {"kind": "Namespace", "metadata": {"name": "y", "labels": {"team": "z"}}}
    found = passes(("12:00", [node(), pod(namespace="x"), named, other]), ("13:00", [node(), other]))
    assert [billed(r) for r in found] == [{"vision": "2.00"}] * 2


HEAD: Final = "JobID|JobIDRaw|Cluster|User|Account|Partition|QOS|Start|End|State|ElapsedRaw|AllocTRES|NodeList\n"


def job(tres: str, partition: str = "gpu") -> str:
    times = "2026-10-05T12:00:00|2026-10-05T13:00:00|COMPLETED|3600"
    return f"{HEAD}5|5|hpc|ann|a|{partition}|normal|{times}|cpu=8,{tres}|n1\n"


PLAIN, TYPED = "gres/gpu=2", "gres/gpu=2,gres/gpu:h100=2"


@pytest.mark.parametrize(
    "files",
    [(job(PLAIN), job(TYPED)), (job(PLAIN, ""), job(PLAIN)), (job(TYPED), job(TYPED))],
    ids=["type", "part", "same"],
)
def test_a_job_that_two_files_tell_of_is_billed_once_whatever_their_order(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    for order in permutations(files):
        folder = tmp_path / str(hash(order))
        folder.mkdir(exist_ok=True)
        sources = [{"sacct": f"{n}.txt", "cluster": "hpc"} for n in range(len(order))]
        (folder / "gpuledger.yaml").write_text(yaml.safe_dump({**CONFIG, "sources": sources}))
        for n, text in enumerate(order):
            (folder / f"{n}.txt").write_text(text)
        config = load(folder / "gpuledger.yaml")
        run_once(config)
        assert billed(report(config)) == {"vision": "2.00"}
