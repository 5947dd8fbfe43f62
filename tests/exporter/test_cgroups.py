from __future__ import annotations

import csv
import re

import pytest

from exporter.owners.cgroups import Membership, classify, parse_proc_cgroup
from tests.exporter.conftest import SHARED

ID = "2b180104511194aab36fd295d3e217439f3ddb5bc88277f37b4952abee85c40e"
POD = "3cae2e45-052c-4b11-80d3-4d7b2d2d3464"
SLICE = POD.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/slurm/uid_1000/job_8812", Membership("slurm", "8812", uid="1000")),
        ("/slurm_gpu01/uid_1000/job_8812/step_0/task_0", Membership("slurm", "8812", uid="1000", step="0")),
        ("/system.slice/slurmstepd.scope/job_4/step_0/user/task_0", Membership("slurm", "4", step="0")),
        ("/system.slice/gpu01_slurmstepd.scope/job_4/step_extern/user", Membership("slurm", "4", step="extern")),
        ("/system.slice/slurmstepd.scope/job_s4XyZ9/step_0", Membership("slurm", "s4XyZ9", step="0")),
        ("/system.slice/slurmstepd.scope", Membership("service", "slurmstepd.scope")),
        (f"/kubepods/burstable/pod{POD}/{ID}", Membership("kubernetes", POD, ID)),
        (f"/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope", Membership("kubernetes", POD, ID, "crio")),
        (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope",
         Membership("kubernetes", POD, ID, "containerd")),
        (f"/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{ID}",
         Membership("kubernetes", POD, ID, "containerd")),
        (f"/system.slice/docker-{ID}.scope", Membership("container", ID, runtime="docker")),
        (f"/docker/{ID}", Membership("container", ID, runtime="docker")),
        (f"/machine.slice/libpod-{ID}.scope/container", Membership("container", ID, runtime="podman")),
        ("/lxc.payload.web", Membership("lxc", "web")),
        ("/torque/1182724.batch", Membership("torque", "1182724")),
        ("/user.slice/user-1000.slice/session-3.scope", Membership("user", "1000", uid="1000")),
        ("/system.slice/docker.service", Membership("service", "docker.service")),
        ("/system.slice/slurmstepd.scope/system", Membership("service", "slurmstepd.scope")),
        ("/kubepods/burstable", Membership("other")),
        ("/", Membership("other")),
    ],
)  # fmt: skip
def test_a_path_names_whom_it_belongs_to(path: str, expected: Membership) -> None:
    assert classify(path) == expected


def test_a_pod_in_a_container_is_the_pod() -> None:
    outer = "7" * 64
    path = (
        f"/system.slice/docker-{outer}.scope/kubelet.slice/kubelet-kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope"
    )
    assert classify(path) == Membership("kubernetes", POD, ID, "containerd")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4/step_0", "/system.slice/slurmstepd.scope/job_4/step_0"),
        ("11:memory:/user.slice\n4:devices:/slurm/uid_1/job_9\n1:name=systemd:/a\n", "/slurm/uid_1/job_9"),
        ("0::/\n12:cpu,cpuacct:/x\n3:memory:/slurm/uid_1/job_9\n", "/slurm/uid_1/job_9"),
        ("0::/user.slice", "/user.slice"),
        ("", "/"),
    ],
)
def test_the_telling_line_of_proc_cgroup_is_found(text: str, path: str) -> None:
    assert parse_proc_cgroup(text) == path


PATTERNS = [
    # What each line of the recorded paths is, told in another way than the code does: the last match counts.
    (r"user-\d+\.slice", "user"),
    (r"system\.slice/(docker\.service|slurmstepd\.scope(/system)?|user\.slice)$", "service"),
    (r"lxc", "lxc"),
    (r"[0-9a-f]{64}", "container"),
    (r"torque/\d", "torque"),
    (r"pod[0-9a-f]{3}", "kubernetes"),
    (r"/job_\d+", "slurm"),
]


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the public captures in ../shared/data")
def test_every_recorded_path_is_classified() -> None:
    with (SHARED / "cgroups/cgroup_paths.tsv").open(encoding="utf-8") as file:
        paths = [row["cgroup_path"] for row in csv.DictReader(file, delimiter="\t")]
    assert len(paths) >= 120
    # Roots that no process is in belong to nobody.
    assert {path for path in paths if classify(path).kind == "other"} <= {
        *(f"/{controller}/torque" for controller in ("cpuacct", "cpuset", "memory")),
        *(f"/kubepods/{quality}" for quality in ("besteffort", "burstable")),
    }
    for path in paths:
        expected = next((kind for pattern, kind in reversed(PATTERNS) if re.search(pattern, path)), "other")
        found = classify(path)
        assert found.kind == expected, path
        if expected in {"slurm", "torque"}:
            assert found.id in path
            assert found.id.isdigit()
        if expected == "kubernetes":
            assert found.id.replace("-", "_") in path.replace("-", "_")
            inside = re.findall(r"[0-9a-f]{64}", path)
            assert found.container in (inside[-1:] or [found.container, ""])
        if expected == "container":
            assert found.id == re.findall(r"[0-9a-f]{64}", path)[-1]
