from __future__ import annotations

import pytest

from pipelines.sources.identity import Identity, identify, split_uuid
from pipelines.tables import SAMPLE_LABELS

UUID = "1c67088e-9ecb-4564-bb97-6151ecc2ef64"


def known(labels: dict[str, str]) -> dict[str, str]:
    """What is known by these labels, apart from the cluster."""
    identity = identify(labels, "c")
    assert identity is not None
    columns = [name for name in SAMPLE_LABELS if name != "time"]
    return {
        name: value for name, value in zip(columns, identity, strict=True) if value is not None and name != "cluster"
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # dcgm-exporter, old and new host label, empty labels as absent
        (
            {"gpu": "0", "UUID": "GPU-a", "device": "nvidia0", "modelName": "NVIDIA L4", "Hostname": "n1", "pod": ""},
            {"device": "GPU-a", "index": "0", "model": "NVIDIA L4", "node": "n1"},
        ),
        ({"UUID": "GPU-a", "hostname": "n1"}, {"device": "GPU-a", "node": "n1"}),
        ({"UUID": "GPU-a", "Hostname": "n1", "node": "other"}, {"device": "GPU-a", "node": "n1"}),
        ({"UUID": "GPU-a", "kubernetes_node": "n1"}, {"device": "GPU-a", "node": "n1"}),
        ({"UUID": "GPU-a", "instance": "10.0.0.5:9400"}, {"device": "GPU-a", "node": "10.0.0.5"}),
        ({"UUID": "GPU-a", "instance": "[fe80::1]:9400"}, {"device": "GPU-a", "node": "fe80::1"}),
        ({"UUID": "GPU-a", "Hostname": "n1", "instance": "10.0.0.5:9400"}, {"device": "GPU-a", "node": "n1"}),
        # MIG
        (
            {"UUID": "GPU-a", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.5gb"},
            {"device": "GPU-a", "instance": "7", "profile": "1g.5gb"},
        ),
        ({"UUID": "MIG-GPU-a-b/9/0"}, {"device": "GPU-a-b", "instance": "9"}),
        ({"UUID": "MIG-GPU-a-b/9/0", "GPU_I_ID": "8"}, {"device": "GPU-a-b", "instance": "8"}),
        # the workload, before and after Prometheus renamed clashing labels
        (
            {"UUID": "GPU-a", "namespace": "v", "pod": "p", "container": "m", "pod_uid": "u"},
            {"device": "GPU-a", "namespace": "v", "pod": "p", "container": "m", "pod_uid": "u"},
        ),
        (
            {
                "UUID": "GPU-a",
                "namespace": "monitoring",
                "pod": "dcgm-exporter-x",
                "exported_namespace": "v",
                "exported_pod": "p",
                "exported_container": "m",
                "exported_pod_uid": "u",
            },
            {"device": "GPU-a", "namespace": "v", "pod": "p", "container": "m", "pod_uid": "u"},
        ),
        ({"UUID": "GPU-a", "exported_pod": "", "pod": "p"}, {"device": "GPU-a", "pod": "p"}),
        ({"UUID": "GPU-a", "hpc_job": "42", "job": "dcgm"}, {"device": "GPU-a", "job": "42", "scrape_job": "dcgm"}),
        ({"UUID": "GPU-a", "vgpu": "3"}, {"device": "GPU-a", "slice": "3"}),
        ({"UUID": "GPU-a", "prometheus_replica": "a"}, {"device": "GPU-a", "replica": "a"}),
        ({"UUID": "GPU-a", "replica": "a"}, {"device": "GPU-a", "replica": "a"}),
        ({"UUID": "GPU-a", "__replica__": "a"}, {"device": "GPU-a", "replica": "a"}),
        # nvidia_gpu_exporter
        ({"uuid": UUID, "instance": "n1:9835"}, {"device": f"GPU-{UUID}", "node": "n1"}),
        (
            {"uuid": UUID, "gpu_instance_id": "2"},
            {"device": f"GPU-{UUID}", "instance": "2"},
        ),
        # our own
        (
            {
                "uuid": "GPU-a",
                "gpu": "0",
                "model": "NVIDIA L4",
                "node": "n1",
                "gpu_instance": "7",
                "gpu_profile": "1g.6gb",
            },
            {
                "device": "GPU-a",
                "index": "0",
                "model": "NVIDIA L4",
                "node": "n1",
                "instance": "7",
                "profile": "1g.6gb",
            },
        ),
        (
            {"uuid": "GPU-a", "mig_instance": "7", "mig_profile": "1g.6gb"},
            {"device": "GPU-a", "instance": "7", "profile": "1g.6gb"},
        ),
        # no UUID
        ({"gpu": "3", "Hostname": "n1"}, {"device": "n1/3", "index": "3", "node": "n1"}),
        ({"gpu": "3", "Hostname": "n1", "device": "nvidia3"}, {"device": "n1/3", "index": "3", "node": "n1"}),
    ],
)
def test_labels_say_what_and_whose_a_device_is(labels: dict[str, str], expected: dict[str, str]) -> None:
    assert known(labels) == expected


@pytest.mark.parametrize("labels", [{}, {"gpu": "0"}, {"Hostname": "n1"}, {"UUID": "", "gpu": "0"}])
def test_labels_that_name_no_device_give_none(labels: dict[str, str]) -> None:
    assert identify(labels, "c") is None


@pytest.mark.parametrize(
    ("uuid", "card", "instance"),
    [
        ("GPU-0", "GPU-0", None),
        (UUID, f"GPU-{UUID}", None),
        (f"GPU-{UUID}", f"GPU-{UUID}", None),
        (f"MIG-{UUID}", f"MIG-{UUID}", None),
        (f"MIG-GPU-{UUID}/7/0", f"GPU-{UUID}", "7"),
        ("GPU-a/7", "GPU-a/7", None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_a_uuid_names_card_and_instance(uuid: str | None, card: str | None, instance: str | None) -> None:
    assert split_uuid(uuid) == (card, instance)


def test_an_identity_has_the_label_columns_in_their_order() -> None:
    columns = [name for name in SAMPLE_LABELS if name != "time"]
    assert [name.replace("gpu_index", "index") for name in Identity._fields] == columns
