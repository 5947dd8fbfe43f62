from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.devices import Device, GpuInstance, MigDevice, Process, Reading
from exporter.errors import SourceError
from exporter.identity import Identities
from exporter.owners.claims import Claims
from exporter.owners.processes import ProcessAdapter
from exporter.owners.slurm import SlurmAdapter
from exporter.owners.slurm_jobs import JobFacts, Jobs, SlurmJobs, gpu_minors, parse_jobs
from exporter.owners.static import StaticAdapter
from tests.exporter.conftest import SHARED, Clock

# Index and minor number run against each other, as on the node of jobstats 34.
DEVICES = [
    Device("GPU-g0", 0, 4, "00000000:01:00.0", "P100"),
    Device("GPU-g6", 6, 0, "00000000:07:00.0", "A5000"),
    Device("GPU-m", 2, 2, "00000000:03:00.0", "A100", mig=True,
           instances=(GpuInstance("7", "1g.5gb", (MigDevice("MIG-m7", "0"),)),)),
]  # fmt: skip
IDENTITIES = Identities(DEVICES)


def held(found: Claims) -> dict[str, list[str]]:
    """Jobs by device, "UUID" or "UUID/instance"."""
    table: dict[str, list[str]] = {}
    for claim in found.claims:
        name = claim.target.uuid + (f"/{claim.target.instance}" if claim.target.instance else "")
        table.setdefault(name, []).append(claim.owner.job)
    return table


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / name.replace("__", "-")).write_text(text)
    return folder


def adapter(tmp_path: Path, **options: object) -> SlurmAdapter:
    settings = {"gpustat": tmp_path / "gpustat", "cgroup_root": tmp_path / "cgroup"} | options
    return SlurmAdapter(**settings)  # type: ignore[arg-type]


def test_gpustat_numbers_are_minor_numbers(tmp_path: Path) -> None:
    write(tmp_path / "gpustat", **{"0": "1 1000\n"})
    assert held(adapter(tmp_path).find(IDENTITIES, {})) == {"GPU-g6": ["1"]}


def test_gpustat_files_by_uuid_beat_their_numbered_twins(tmp_path: Path) -> None:
    write(tmp_path / "gpustat", **{"0": "1 1000", "GPU__g0": "1 1000", "MIG__m7": "77 1001"})
    assert held(adapter(tmp_path).find(IDENTITIES, {})) == {"GPU-g0": ["1"], "GPU-m/7": ["77"]}


def test_the_job_map_takes_indices_instances_and_uuids(tmp_path: Path) -> None:
    maps = write(tmp_path / "map", **{"GPU__g6": "42\n", "0": "43\n", "2.7": "77\n", "9": "5\n", "note": "hello\n"})
    found = adapter(tmp_path, job_map=maps).find(IDENTITIES, {})
    assert held(found) == {"GPU-g0": ["43"], "GPU-g6": ["42"], "GPU-m/7": ["77"]}
    assert found.unresolved == ("9",)


def test_jobs_that_share_a_card_stand_one_a_line(tmp_path: Path) -> None:
    maps = write(tmp_path / "map", **{"0": "43\n44_1\ns4XyZ9\n\n"})
    assert held(adapter(tmp_path, job_map=maps).find(IDENTITIES, {})) == {"GPU-g0": ["43", "44_1", "s4XyZ9"]}


def test_files_of_ended_jobs_hold_nothing_where_squeue_answers(tmp_path: Path) -> None:
    maps = write(tmp_path / "map", **{"0": "7\n8\n"})
    jobs = Jobs({"8": JobFacts("ada", "vision", "gpu", "normal")}, known=True)
    (claim,) = adapter(tmp_path, job_map=maps, jobs=lambda: jobs).find(IDENTITIES, {}).claims
    assert claim.owner.labels() == {
        "hpc_job": "8", "user": "ada", "account": "vision", "partition": "gpu", "qos": "normal",
    }  # fmt: skip


def test_a_job_younger_than_the_list_of_jobs_holds_its_card(tmp_path: Path, clock: Clock) -> None:
    listed = {"7": JobFacts("ada"), "8": JobFacts("bob")}
    jobs = [Jobs(listed, known=True, read_at=clock.now)]
    slurm = adapter(tmp_path, jobs=lambda: jobs[-1], clock=clock)
    write(tmp_path / "gpustat", **{"4": "7 1000"})
    assert held(slurm.find(IDENTITIES, {})) == {"GPU-g0": ["7"]}
    clock.now += 15
    write(tmp_path / "gpustat", **{"0": "9 1000"})
    assert held(slurm.find(IDENTITIES, {})) == {"GPU-g0": ["7"], "GPU-g6": ["9"]}
    clock.now += 45
    # 7 has ended, and its file lingers; 9 was never on any list, not on one that is younger than its file either.
    jobs.append(Jobs({"8": JobFacts("bob")}, known=True, read_at=clock.now))
    assert held(slurm.find(IDENTITIES, {})) == {}


def test_a_job_without_processes_holds_what_its_cgroup_allows(tmp_path: Path) -> None:
    write(
        tmp_path / "cgroup/devices/slurm/uid_1000/job_8812",
        **{"devices.list": "c 1:3 rwm\nc 195:255 rw\nc 195:4 rw\nb 8:0 rwm\n"},
    )
    assert held(adapter(tmp_path).find(IDENTITIES, {})) == {"GPU-g0": ["8812"]}


def test_squeue_alone_is_enough(tmp_path: Path) -> None:
    jobs = Jobs({"9": JobFacts()}, {"9": ("0", "2")}, known=True)
    assert held(adapter(tmp_path, jobs=lambda: jobs).find(IDENTITIES, {})) == {"GPU-g6": ["9"], "GPU-m": ["9"]}


def test_no_trace_of_slurm_is_no_claim(tmp_path: Path) -> None:
    assert adapter(tmp_path).find(IDENTITIES, {}) == Claims()


@pytest.mark.parametrize(
    ("detail", "minors"),
    [
        ("gpu:h100:4(IDX:0-3)", ["0", "1", "2", "3"]),
        ("gpu:A100:4(S:0-1),gpu:NV_A100_40GB:2(IDX:0,3),shard:h100:16(IDX:7)", ["0", "3"]),
        ("gpu:2(IDX:5,7)", ["5", "7"]),
        ("gpu:2", []),
        ("gpu:2(IDX:N/A)", []),
        ("", []),
    ],
)
def test_indices_of_a_gres_detail(detail: str, minors: list[str]) -> None:
    assert gpu_minors(detail) == minors


def job(**fields: object) -> dict[str, object]:
    base = {"job_id": 9, "job_state": ["RUNNING"], "user_name": "ada", "account": "vision", "partition": "gpu",
            "qos": "normal", "nodes": "gpu[1-2]",
            "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:3)"]}  # fmt: skip
    return base | fields


def test_a_job_holds_the_cards_of_its_own_node() -> None:
    jobs = parse_jobs({"jobs": [job()]}, "gpu2.example.org")
    assert jobs.minors == {"9": ("3",)}
    assert jobs.facts["9"].account == "vision"


@pytest.mark.parametrize("state", ["PENDING", ["COMPLETED"], ["TIMEOUT"]])
def test_a_job_that_does_not_run_holds_nothing(state: object) -> None:
    assert parse_jobs({"jobs": [job(job_state=state)]}, "gpu1").facts == {}


def test_array_tasks_and_sluids_name_one_job() -> None:
    number = {"set": True, "infinite": False, "number": 3}
    entry = job(array_job_id={"set": True, "number": 7}, array_task_id=number, sluid="s4XyZ9")
    assert parse_jobs({"jobs": [entry]}, "gpu1").facts.keys() == {"9", "7_3", "s4XyZ9"}


def test_squeue_is_asked_once_a_minute_and_may_be_missing(clock: Clock) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        if command[0] == "squeue":
            raise subprocess.CalledProcessError(1, list(command))
        return json.dumps({"jobs": [job()]})

    jobs = SlurmJobs("gpu1", run=run, clock=clock)
    assert jobs().facts.keys() == {"9"}
    assert jobs().known
    assert [command[0] for command in asked] == ["squeue", "scontrol"]
    clock.now += 61
    jobs()
    assert len(asked) == 4

    def missing(command: Sequence[str]) -> str:
        raise FileNotFoundError(command[0])

    assert not SlurmJobs("gpu1", run=missing, clock=clock)().known


needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the public captures in ../shared/data")


@needs_shared
@pytest.mark.parametrize(
    ("name", "node", "minors"),
    [
        ("slurm-job-gpus-running.json", "gpu1", {"9": ("0", "1", "2", "3")}),
        ("slurm-job-gpus-multi-nodes.json", "gpu2", {"11": ("0", "1", "2", "3")}),
        ("slurm-job-gpus-running.json", "gpu2", {}),
        ("slurm-job-gpus-pending.json", "gpu1", {}),
    ],
)
def test_recorded_answers_of_slurmrestd(name: str, node: str, minors: dict[str, tuple[str, ...]]) -> None:
    document = json.loads((SHARED / "slurm/slurmrestd/24.05_0.0.41" / name).read_text())
    assert parse_jobs(document, node).minors == minors


@needs_shared
def test_recorded_answer_of_an_old_squeue() -> None:
    document = json.loads((SHARED / "slurm/rivosinc/squeue_out.json").read_text())
    assert parse_jobs(document, "cs75").facts["26515966"].account == "account1"


def process_tree(tmp_path: Path, **cgroups: str) -> Path:
    for pid, path in cgroups.items():
        write(tmp_path / "proc" / pid.removeprefix("p"), cgroup=f"0::{path}\n")
    return tmp_path / "proc"


def test_processes_tell_their_job_pod_or_user(tmp_path: Path) -> None:
    proc = process_tree(
        tmp_path,
        p1="/system.slice/slurmstepd.scope/job_4/step_0",
        p2="/kubepods/burstable/pod3cae2e45-052c-4b11-80d3-4d7b2d2d3464/" + "a" * 64,
        p3="/user.slice/user-0.slice/session-3.scope",
        p4="/system.slice/docker-" + "b" * 64 + ".scope",
    )
    readings = {
        "GPU-g0": Reading(DEVICES[0], processes=(Process(1), Process(2), Process(99))),
        "GPU-m": Reading(DEVICES[2], processes=(Process(3, instance="7"), Process(4))),
    }
    found = ProcessAdapter(proc).find(IDENTITIES, readings)
    named = {(claim.target.uuid, claim.target.instance): [] for claim in found.claims}
    for claim in found.claims:
        owner = claim.owner
        named[claim.target.uuid, claim.target.instance].append(owner.job or owner.pod_uid or owner.workload)
    assert named == {
        ("GPU-g0", ""): ["4", "3cae2e45-052c-4b11-80d3-4d7b2d2d3464"],
        ("GPU-m", "7"): ["user:root"],
        ("GPU-m", ""): ["docker:bbbbbbbbbbbb"],
    }


def test_a_static_file_names_owners_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text(
        "owners:\n"
        "- {device: GPU-g0, workload: wall, user: ada}\n"
        "- {device: 6, job: 8812}\n"
        "- {device: MIG-m7, namespace: lab, pod: nb}\n"
        "- {device: GPU-x, workload: gone}\n"
    )
    found = StaticAdapter(path).find(IDENTITIES, {})
    assert [(claim.target.uuid, claim.target.instance, claim.owner.labels()) for claim in found.claims] == [
        ("GPU-g0", "", {"workload": "wall", "user": "ada"}),
        ("GPU-g6", "", {"hpc_job": "8812"}),
        ("GPU-m", "7", {"namespace": "lab", "pod": "nb"}),
    ]
    assert found.unresolved == ("GPU-x",)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("owners: [{device: GPU-g0, owner: ada}]", "owners.0.*unknown key 'owner'"),
        ("owners: [3]", "owners.0.*mapping with `device`"),
        ("tenants: []", "a list `owners`"),
        ("owners: [", "not YAML"),
    ],
)
def test_a_wrong_static_file_says_where(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text(text)
    with pytest.raises(SourceError, match=match):
        StaticAdapter(path).find(IDENTITIES, {})
