from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.devices import Device, GpuInstance, MigDevice, Process, Reading
from exporter.errors import SourceError
from exporter.identity import Identities
from exporter.owners import slurm_cgroups
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
    (claim,) = adapter(tmp_path, job_map=maps, jobs=lambda *_: jobs).find(IDENTITIES, {}).claims
    assert claim.owner.labels() == {
        "hpc_job": "8", "user": "ada", "account": "vision", "partition": "gpu", "qos": "normal",
    }  # fmt: skip


def test_a_job_younger_than_the_list_of_jobs_holds_its_card(tmp_path: Path, clock: Clock) -> None:
    listed = {"7": JobFacts("ada"), "8": JobFacts("bob")}
    jobs = [Jobs(listed, known=True, read_at=clock.now)]
    slurm = adapter(tmp_path, jobs=lambda *_: jobs[-1], clock=clock)
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


def test_a_step_neither_widens_nor_narrows_what_its_job_holds(tmp_path: Path) -> None:
    job = tmp_path / "cgroup/devices/slurm/uid_1000/job_7"
    write(job, **{"devices.list": "c 195:4 rw\nc 195:2 rw\n"})
    write(job / "step_0", **{"devices.list": "c 195:4 rw\n"})
    write(job / "step_1", **{"devices.list": "c 195:4 rw\nc 195:0 rw\n"})
    write(job / "step_batch/task_0", **{"devices.list": "c 195:0 rw\n"})
    assert held(adapter(tmp_path).find(IDENTITIES, {})) == {"GPU-g0": ["7"], "GPU-m": ["7"]}


def test_squeue_alone_is_enough(tmp_path: Path) -> None:
    jobs = Jobs({"9": JobFacts()}, {"9": ("0", "2")}, known=True)
    assert held(adapter(tmp_path, jobs=lambda *_: jobs).find(IDENTITIES, {})) == {"GPU-g6": ["9"], "GPU-m": ["9"]}


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


class Squeue:
    """A squeue that answers for these jobs and counts what it is asked."""

    def __init__(self, clock: Clock, *jobs: dict[str, object]) -> None:
        self.jobs = list(jobs)
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.ask = SlurmJobs("gpu2", run=self._run, clock=clock)

    def _run(self, command: Sequence[str]) -> str:
        self.asked.append(" ".join(command))
        if self.error:
            raise self.error
        number = next((word.removeprefix("--jobs=") for word in command if word.startswith("--jobs=")), None)
        return json.dumps({"jobs": [job for job in self.jobs if number in (None, str(job["job_id"]))]})


LIST = "squeue --json --nodelist=gpu2"


def test_where_nothing_tells_of_jobs_the_list_is_read_every_minute(clock: Clock) -> None:
    squeue = Squeue(clock, job())
    for _ in range(9):
        assert squeue.ask().facts.keys() == {"9"}
        clock.now += 15
    assert squeue.asked == [LIST] * 3


def test_where_cgroups_tell_of_jobs_slurmctld_is_asked_about_new_ones_alone(clock: Clock) -> None:
    squeue = Squeue(clock, job())
    for _ in range(36):  # nine minutes
        assert squeue.ask({"9"}, {"9"}).known
        clock.now += 15
    assert squeue.asked == [LIST]
    squeue.jobs.append(job(job_id=10, account="audio"))
    jobs = squeue.ask({"9", "10"}, {"9", "10"})
    assert squeue.asked[1:] == ["squeue --json --jobs=10"]
    assert (jobs.facts["10"].account, jobs.minors["10"]) == ("audio", ("3",))
    clock.now += 120
    squeue.ask({"9", "10"}, {"9", "10"})
    assert squeue.asked[2:] == [LIST]


def test_a_job_whose_cgroup_has_gone_is_asked_about(clock: Clock) -> None:
    squeue = Squeue(clock, job(array_job_id=7, array_task_id=1))
    assert squeue.ask({"9"}, {"9"}).minors == {"9": ("3",)}
    clock.now += 75
    # Between two steps of a job nothing may be left of it on the node, and it holds its cards.
    assert squeue.ask(set(), set()).minors == {"9": ("3",)}
    squeue.jobs.clear()
    clock.now += 75
    jobs = squeue.ask({"7_1"}, set())
    assert jobs.minors == jobs.facts == {}
    assert jobs.ended == {"9", "7_1"}
    assert squeue.asked == [LIST, "squeue --json --jobs=9", "squeue --json --jobs=9"]
    clock.now += 15
    assert squeue.ask(set(), set()).ended == frozenset()
    squeue.jobs.append(job())
    assert squeue.ask({"9"}, {"9"}).facts.keys() == {"9"}  # it was requeued and runs here once more


def test_a_job_that_slurmctld_has_forgotten_has_ended(clock: Clock) -> None:
    squeue = Squeue(clock, job())
    squeue.ask({"9"}, {"9"})
    squeue.error = subprocess.CalledProcessError(1, "squeue", stderr="slurm_load_jobs error: Invalid job id specified")
    clock.now += 75
    assert squeue.ask({"9"}, set()).ended == {"9"}
    assert len(squeue.asked) == 2


def test_many_new_jobs_are_one_list(clock: Clock) -> None:
    squeue = Squeue(clock)
    squeue.ask(set(), set())
    squeue.jobs.extend(job(job_id=number) for number in range(20))
    ids = {str(number) for number in range(20)}
    clock.now += 75
    assert squeue.ask(ids, ids).facts.keys() == ids
    assert squeue.asked == [LIST, LIST]


def test_an_outage_of_slurmctld_leaves_what_was_known(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    squeue = Squeue(clock, job())
    squeue.ask()
    squeue.error = subprocess.TimeoutExpired("squeue", 10)
    for _ in range(8):
        clock.now += 15
        assert squeue.ask().facts.keys() == {"9"}
    assert len(squeue.asked) == 3  # a busy slurmctld isn't asked by scontrol too
    assert len(caplog.messages) == 1
    clock.now += 3600
    assert squeue.ask() == Jobs()


def test_a_node_of_another_name_is_said(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    squeue = Squeue(clock)
    squeue.error = subprocess.CalledProcessError(1, "squeue", stderr="squeue: error: Invalid node name gpu2")
    assert not squeue.ask().known
    assert squeue.asked == [LIST]
    assert "--node-name takes Slurm's NodeName" in caplog.text


def test_scontrol_answers_where_squeue_cannot(clock: Clock) -> None:
    def run(command: Sequence[str]) -> str:
        if command[0] == "squeue":
            raise FileNotFoundError(command[0])
        return json.dumps({"jobs": [job()]})

    assert SlurmJobs("gpu2", run=run, clock=clock)().minors == {"9": ("3",)}

    def missing(command: Sequence[str]) -> str:
        raise FileNotFoundError(command[0])

    assert not SlurmJobs("gpu1", run=missing, clock=clock)().known


@pytest.mark.parametrize(
    ("folder", "jobs"),
    [
        ("system.slice/slurmstepd.scope/job_12", {"12"}),
        ("system.slice/gpu2_slurmstepd.scope/job_12/step_0", {"12"}),
        ("system.slice/slurmstepd.scope/system", set()),
        ("freezer/slurm_gpu2/uid_1000/job_12", {"12"}),
        ("devices/slurm/uid_1000/job_12", {"12"}),
        ("system.slice/sshd.service", None),
    ],
)
def test_jobs_of_the_nodes_cgroups(tmp_path: Path, folder: str, jobs: set[str] | None) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert slurm_cgroups.running(tmp_path) == jobs


def test_the_adapter_tells_which_jobs_it_finds(tmp_path: Path) -> None:
    told: list[tuple[object, object]] = []

    def ask(found: object, alive: object) -> Jobs:
        told.append((found, alive))
        return Jobs()

    slurm = adapter(tmp_path, jobs=ask)
    slurm.find(IDENTITIES, {})
    write(tmp_path / "gpustat", **{"0": "7 1000"})
    slurm.find(IDENTITIES, {})
    (tmp_path / "cgroup/system.slice/slurmstepd.scope/job_8").mkdir(parents=True)
    slurm.find(IDENTITIES, {})
    assert told == [(set(), None), ({"7"}, {"7"}), ({"7", "8"}, {"8"})]


def test_an_id_that_squeue_says_has_ended_holds_nothing(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path / "gpustat", **{"0": "7 1000"})
    jobs = Jobs(known=True, read_at=clock.now - 60, ended=frozenset({"7"}))
    assert held(adapter(tmp_path, jobs=lambda *_: jobs, clock=clock).find(IDENTITIES, {})) == {}


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
        "- {device: 6, job: 12_3}\n"
        "- {device: MIG-m7, namespace: lab, pod: nb}\n"
        "- {device: GPU-x, workload: gone}\n"
    )
    found = StaticAdapter(path).find(IDENTITIES, {})
    assert [(claim.target.uuid, claim.target.instance, claim.owner.labels()) for claim in found.claims] == [
        ("GPU-g0", "", {"workload": "wall", "user": "ada"}),
        ("GPU-g6", "", {"hpc_job": "12_3"}),
        ("GPU-m", "7", {"namespace": "lab", "pod": "nb"}),
    ]
    assert found.unresolved == ("GPU-x",)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("owners: [{device: GPU-g0, owner: ada}]", "owners.0.*unknown key 'owner'"),
        ("owners: [3]", "owners.0.*a mapping was expected"),
        ("tenants: []", "unknown key 'tenants'"),
        ("owners: [", "not YAML"),
        ("owners: [{device: GPU-g0, user: [ada]}]", "owners.0..user: .'ada'. was found, text"),
        ("owners: [{device: GPU-g0, user: true}]", "owners.0..user: True was found"),
        ("owners: [{device: GPU-g0, user: 1.5}]", "owners.0..user: 1.5 was found"),
        ("owners: [{device: GPU-g0, user: }]", "owners.0..user: None was found"),
        ("owners: [{device: GPU-g0, user: ''}]", "owners.0..user: '' was found"),
        ("owners: [{device: {a: 1}, user: ada}]", "owners.0..device: "),
        ("owners: [{user: ada}]", "owners.0..device: is missing"),
        ("owners: [{device: GPU-g0}]", "owners.0.: device GPU-g0 has no owner"),
        ("owners: [{device: GPU-g0, user: ada, user: bob}]", "'user' stands twice"),
    ],
)
def test_a_wrong_static_file_says_where(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text(text)
    with pytest.raises(SourceError, match=match):
        StaticAdapter(path).find(IDENTITIES, {})
