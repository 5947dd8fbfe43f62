"""Answers of Slurm's controller: nodes, reservations, limits, the account tree, and running jobs with their devices."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.facts import Facts, joined, standing
from pipelines.sources.slurm_nodes import state_of
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.tables import Batch

AT = "# 2026-10-05T12:00:00Z\n"
NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
Read = Callable[..., Batch]


@pytest.fixture
def state(tmp_path: Path) -> Read:
    def read(text: str | bytes, **options: Any) -> Batch:
        path = tmp_path / "state.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_slurm_state(path, **{"cluster": "hpc", "zone": ZoneInfo("UTC"), **options})

    return read


def facts(batch: Batch, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return Facts(batch.facts)[table].select(columns).rows()


def node(name: str = "gpu01", **members: str) -> str:
    told = {"Gres": "gpu:a100:4", "State": "IDLE", "CfgTRES": "cpu=8,gres/gpu=4", **members}
    return f"NodeName={name} Arch=x86_64 CoresPerSocket=8\n" + "".join(f"   {k}={v}\n" for k, v in told.items()) + "\n"


def job(number: str = "7", **members: str) -> str:
    told = {
        "UserId": "ada(1000)",
        "Account": "vision",
        "QOS": "normal",
        "JobState": "RUNNING",
        "RunTime": "01:00:00",
        "StartTime": "2026-10-05T11:00:00",
        "EndTime": "2026-10-05T23:00:00",
        "Partition": "gpu",
        "NodeList": "gpu01",
        "AllocTRES": "cpu=8,gres/gpu=2,gres/gpu:a100=2",
        **members,
    }
    return f"JobId={number} JobName=train\n" + "".join(f"   {k}={v}\n" for k, v in told.items()) + "\n"


def detail(nodes: str, gres: str) -> dict[str, str]:
    return {"Nodes": f"{nodes} CPU_IDs=0-7 Mem=0 GRES={gres}"}


class TestNodes:
    @pytest.mark.parametrize(
        ("gres", "expected"),
        [
            ("gpu:a100:4", [("a100", 4)]),
            ("gpu:4", [(None, 4)]),
            ("gpu:A100:4(S:0-1),gpu:NV_A100_40GB:2(IDX:0,3)", [("A100", 4), ("NV_A100_40GB", 2)]),
            ("gpu:h100:4(S:0-1),shard:h100:16(S:0-1)", [("h100", 4)]),
            ("craynetwork:4", []),
            ("(null)", []),
        ],
    )
    def test_gpus_are_counted_by_type_and_shards_are_none(
        self, state: Read, gres: str, expected: list[tuple[str | None, int]]
    ) -> None:
        batch = state(AT + node(Gres=gres))
        assert sorted(facts(batch, "scheduler_node", "model", "gpus"), key=str) == sorted(expected, key=str)
        assert batch.findings == []

    def test_a_node_told_once_for_each_of_its_partitions_counts_once(self, state: Read) -> None:
        header = "HOSTNAMES|PARTITION|STATE|GRES\n"
        batch = state(AT + header + "gpu01|p1|mixed|gpu:h100:8\n" + "gpu01|p2|mixed|gpu:h100:8\n")
        assert facts(batch, "scheduler_node", "node", "gpus") == [("gpu01", 8)]

    def test_what_is_in_use_is_counted_from_gres_used(self, state: Read) -> None:
        batch = state(AT + node(Gres="gpu:h100:8", GresUsed="gpu:h100:5(IDX:0-4)", CfgTRES="cpu=192,mem=800G"))
        assert facts(batch, "scheduler_node", "gpus", "used") == [(8, 5.0)]
        (finding,) = batch.findings
        assert (finding.code, finding.count) == ("gpus_not_tracked", 1)
        assert "AccountingStorageTRES" in finding.detail

    @pytest.mark.parametrize(
        ("told", "expected"),
        [
            ("IDLE", "ok"),
            ("ALLOCATED", "ok"),
            ("MIXED+PLANNED", "ok"),
            ("IDLE+DRAIN", "repair"),
            ("MIXED+DRAIN", "degraded"),
            ("DRAINING", "degraded"),
            ("IDLE+MAINTENANCE", "repair"),
            ("DOWN", "down"),
            ("IDLE*", "down"),
            ("DOWN*+DRAIN", "down"),
            ("drained*", "down"),
            ("failing", "degraded"),
        ],
    )
    def test_a_nodes_state_is_one_of_four(self, state: Read, told: str, expected: str) -> None:
        assert facts(state(AT + node(State=told)), "condition", "state") == [(expected,)]

    def test_a_draining_node_keeps_its_reason_and_since_when(self, state: Read) -> None:
        batch = state(AT + node(State="IDLE+DRAIN", Reason="XID 79 a=b [root@2026-10-04T08:00:00]"))
        assert facts(batch, "condition", "reason", "from", "observed") == [
            ("XID 79 a=b", datetime(2026, 10, 4, 8, tzinfo=UTC), NOON)
        ]

    def test_a_drained_node_is_out_of_use_since_its_last_job_left(self, state: Read) -> None:
        reason = "fans [root@2026-10-04T08:00:00]"
        batch = state(AT + node(State="IDLE+DRAIN", LastBusyTime="2026-10-04T09:30:00", Reason=reason))
        assert facts(batch, "condition", "from") == [(datetime(2026, 10, 4, 9, 30, tzinfo=UTC),)]

    def test_states_of_json_are_read_with_their_flags(self) -> None:
        assert state_of(["IDLE", "DRAIN"]) == "repair"
        assert state_of([]) == "ok"

    def test_cards_are_named_where_their_minors_are_known(self, state: Read, tmp_path: Path) -> None:
        (tmp_path / "cards.csv").write_text("node,minor,device\ngpu01,1,GPU-b\ngpu01,0,GPU-a\n")
        batch = state(AT + node(Gres="gpu:a100:2"), devices=tmp_path / "cards.csv")
        assert facts(batch, "scheduler_node", "devices") == [(["GPU-a", "GPU-b"],)]


class TestRunningJobs:
    def test_a_running_job_is_held_as_far_as_it_has_come(self, state: Read) -> None:
        (row,) = state(AT + job()).records.rows(named=True)
        assert (row["workload"], row["gpus"], row["model"], row["nodes"]) == ("7", "2", "a100", ["gpu01"])
        assert (row["start"].hour, row["end"].hour, row["ended"]) == (11, 12, False)
        assert (row["slurm_account"], row["slurm_user"]) == ("vision", "ada")

    def test_it_holds_the_card_of_its_minor_number_not_of_its_index(self, state: Read, tmp_path: Path) -> None:
        # NVML index 6 is minor 0, index 0 is minor 4: IDX:0 is the former.
        (tmp_path / "cards.prom").write_text(
            'gpuledger_device_info{node="gpu01.example",gpu="6",uuid="GPU-g6",model="H100",minor="0"} 1\n'
            'gpuledger_device_info{node="gpu01.example",gpu="0",uuid="GPU-g0",model="H100",minor="4"} 1\n'
        )
        batch = state(AT + job(**detail("gpu01", "gpu:a100:1(IDX:0)")), devices=tmp_path / "cards.prom")
        assert facts(batch, "holding", "labelled_as", "node", "device") == [("7", "gpu01", "GPU-g6")]

    def test_equal_cards_on_several_nodes_are_told_once(self, state: Read, tmp_path: Path) -> None:
        (tmp_path / "cards.csv").write_text("node,minor,device\na1,0,GPU-1\na1,1,GPU-2\na2,0,GPU-3\na2,1,GPU-4\n")
        text = AT + job(NodeList="a[1-2]", **detail("a[1-2]", "gpu:2(IDX:0-1)"))
        batch = state(text, devices=tmp_path / "cards.csv")
        assert [device for (device,) in facts(batch, "holding", "device")] == ["GPU-1", "GPU-2", "GPU-3", "GPU-4"]

    def test_without_gpus_in_its_tres_a_job_holds_what_its_nodes_say(self, state: Read) -> None:
        text = AT + job(AllocTRES="cpu=8,node=2", NodeList="a[1-2]", **detail("a[1-2]", "gpu:h100:4(IDX:0-3)"))
        assert state(text).records["gpus"].to_list() == ["8"]

    def test_a_job_in_several_partitions_that_waits_holds_nothing(self, state: Read) -> None:
        text = AT + job(
            JobState="PENDING", Partition="debug,high", StartTime="Unknown", NodeList="", AllocTRES="(null)"
        )
        assert state(text).records.is_empty()

    def test_a_name_that_looks_like_keys_decides_nothing(self, state: Read) -> None:
        spoof = "JobId=8 JobName=x UserId=root(0) Account=evil StartTime=2020-01-01T00:00:00 "
        line = spoof + " ".join(line.strip() for line in job("8").splitlines()[1:] if line) + "\n"
        (row,) = state(AT + line).records.rows(named=True)
        assert (row["slurm_account"], row["slurm_user"], row["start"].year) == ("vision", "ada", 2026)

    def test_an_array_task_has_the_id_that_people_see(self, state: Read) -> None:
        (row,) = state(AT + job("41", ArrayJobId="40", ArrayTaskId="3")).records.rows(named=True)
        assert (row["workload"], row["labelled_as"]) == ("40_3", "41")

    def test_shards_are_parts_of_a_gpu_where_their_number_is_known(self, state: Read) -> None:
        text = AT + job(AllocTRES="cpu=1,gres/shard=1")
        assert state(text, shards_per_gpu=4).records["gpus"].to_list() == ["0.25"]
        batch = state(text)
        assert batch.records.is_empty()
        assert [(f.code, f.count) for f in batch.findings] == [("gpus_not_tracked", 1)]

    def test_squeue_with_a_header_is_read_too(self, state: Read) -> None:
        header = "JOBID|ACCOUNT|USER|PARTITION|QOS|STATE|START_TIME|TIME_USED|NODELIST|TRES_ALLOC|TRES_PER_NODE\n"
        batch = state(
            AT
            + header
            + "1|vision|ada|gpu|normal|RUNNING|2026-10-05T11:00:00|1:00:00|n1|cpu=1,gres/gpu=1|N/A\n"
            + "2|vision|ada|gpu|normal|RUNNING|2026-10-05T11:30:00|30:00|n[1-32]|gres/gpu=256|gres/gpu:8\n"
            + "3|vision|ada|gpu,high|normal|PENDING|N/A|0:00|||N/A\n"
        )
        # What a node was asked for is no count of the job's: its allocation is.
        assert batch.records.select("workload", "gpus").rows() == [("1", "1"), ("2", "256")]
        assert batch.records["end"].dt.hour().to_list() == [12, 12]


class TestReservationsAndLimits:
    def test_a_reservation_says_who_what_and_when(self, state: Read) -> None:
        batch = state(
            AT + "ReservationName=train StartTime=2026-10-06T00:00:00 EndTime=2026-10-07T00:00:00 Duration=1-00:00:00\n"
            "   Nodes=gpu[01-02] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=gpu Flags=SPEC_NODES\n"
            "   TRES=cpu=16,gres/gpu=8,gres/gpu:a100=8\n"
            "   Users=(null) Groups=(null) Accounts=vision,audio Licenses=(null) State=INACTIVE\n"
        )
        columns = ("booking", "accounts", "nodes", "model", "gpus", "maintenance")
        assert facts(batch, "booking", *columns) == [
            ("train", ["vision", "audio"], ["gpu01", "gpu02"], "a100", 8, False)
        ]

    def test_a_reservation_for_maintenance_is_one_nobody_can_use(self, state: Read) -> None:
        text = "ReservationName=m StartTime=2026-10-06T00:00:00 EndTime=2026-10-07T00:00:00\n"
        text += "   Nodes=n1 Flags=MAINT,IGNORE_JOBS\n"
        assert facts(state(AT + text), "booking", "gpus", "maintenance") == [(None, True)]

    def test_limits_of_a_qos_and_the_tree_of_accounts(self, state: Read) -> None:
        batch = state(
            AT + "Name|Priority|GrpTRES|MaxTRESPU|MaxTRESPA\n"
            "normal|0||gres/gpu=8|cpu=32,gres/gpu=16\n"
            "big|0|cpu=4096,gres/gpu=128,gres/gpu:h100=64||\n"
            "Cluster|Account|User|ParentName|GrpTRES\n"
            "hpc|root|||\nhpc|research||root|gres/gpu=64\nhpc|vision||research|\nhpc|vision|ada||gres/gpu=4\n"
            "other|elsewhere||root|\n"
        )
        assert sorted(facts(batch, "quota_limit", "kind", "name", "model", "gpus"), key=str) == [
            ("slurm_account", "research", None, 64.0),
            ("slurm_qos", "big", "h100", 64.0),
            ("slurm_qos", "big", None, 128.0),
            ("slurm_qos_per_account", "normal", None, 16.0),
            ("slurm_qos_per_user", "normal", None, 8.0),
            ("slurm_user", "ada", None, 4.0),
        ]
        assert facts(batch, "slurm_account", "account", "parent") == [
            ("root", None),
            ("research", "root"),
            ("vision", "research"),
        ]

    def test_a_partition_keeps_its_weights(self, state: Read) -> None:
        batch = state(
            AT + "PartitionName=gpu AllowGroups=ALL QoS=part\n   Nodes=n[1-2] State=UP TRES=cpu=8,gres/gpu=16\n"
            "   TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=12\n"
        )
        assert facts(batch, "slurm_partition", "partition", "nodes", "gpus", "billing_weights", "qos") == [
            ("gpu", ["n1", "n2"], 16, "CPU=1.0,Mem=0.25G,GRES/gpu=12", "part")
        ]

    def test_a_configuration_that_doesnt_track_gpus_is_told_so(self, state: Read) -> None:
        head = "Configuration data as of 2026-10-05T12:00:00\n"
        (finding,) = state(head + "AccountingStorageTRES   = cpu,mem,billing\n").findings
        assert finding.code == "gpus_not_tracked"
        assert state(head + "AccountingStorageTRES   = cpu,gres/gpu,billing\n").findings == []


class TestFiles:
    def test_answers_of_all_kinds_may_stand_in_one_file(self, state: Read) -> None:
        text = AT + node() + job() + "No reservations in the system\n" + "PartitionName=gpu Nodes=gpu01\n"
        batch = state(gzip.compress(text.encode()))
        assert sorted(batch.facts) == ["booking", "condition", "scheduler_node", "slurm_partition"]
        assert batch.records.height == 1
        assert batch.findings == []

    @pytest.mark.parametrize(
        "later",
        [
            "# 2026-10-05T13:00:00Z\nNo reservations in the system\n",
            json.dumps({"reservations": [], "last_update": int(NOON.timestamp()) + 3600}),
        ],
    )
    def test_the_last_reservation_ends_with_the_answer_that_there_is_none(self, state: Read, later: str) -> None:
        held = AT + (
            "ReservationName=demo StartTime=2026-10-01T00:00:00 EndTime=2026-10-09T00:00:00 Duration=8-00:00:00\n"
            "   Nodes=gpu01 NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=gpu Flags=\n"
        )
        before, nodes_only = state(held).facts, state(AT.replace("T12", "T13") + node()).facts
        assert standing(joined([before, nodes_only]))["booking"]["booking"].to_list() == ["demo"]  # wasn't asked
        assert standing(joined([before, state(later).facts]))["booking"].is_empty()
        assert standing(joined([state(later).facts, before]))["booking"].is_empty()  # in whichever order

    def test_an_answer_that_failed_or_broke_off_ends_no_reservation(self, state: Read) -> None:
        failed = {"reservations": [], "last_update": int(NOON.timestamp()), "errors": [{"error": "no controller"}]}
        assert Facts(state(json.dumps(failed)).facts)["booking"].is_empty()
        assert Facts(state('{"reservations": [], "last_update": 1791201600, "err').facts)["booking"].is_empty()
        assert Facts(state(AT + "slurm_load_reservations error: Unable to contact\n").facts)["booking"].is_empty()

    def test_json_says_when_it_was_asked(self, state: Read) -> None:
        answer = {
            "nodes": [{"name": "n1", "gres": "gpu:h100:4", "state": ["IDLE", "DRAIN"], "reason": "ECC"}],
            "last_update": {"set": True, "infinite": False, "number": int(NOON.timestamp())},
        }
        batch = state(json.dumps(answer))
        assert facts(batch, "condition", "state", "reason", "observed") == [("repair", "ECC", NOON)]

    def test_answers_that_nobody_dated_are_said(self, state: Read) -> None:
        (finding,) = state(node()).findings
        assert "without a time" in finding.detail
        assert state(node(), at=NOON).findings == []

    def test_long_names_glued_to_a_column_are_counted_not_lost(self, state: Read) -> None:
        header = "HOSTNAMES|STATE|GRES\n"
        batch = state(AT + header + "a-node-of-21-chars-0001193000 mixed gpu:4\nn1|mixed|gpu:4\n")
        assert facts(batch, "scheduler_node", "node") == [("n1",)]
        assert [(f.code, f.count) for f in batch.findings] == [("bad_line", 1)]

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe garbage\n", b"{", b"[1]\n", b'{"jobs": 3}', b"=\n"])
    def test_garbage_is_counted_and_never_a_crash(self, state: Read, content: bytes) -> None:
        batch = state(content)
        assert batch.records.is_empty()
        assert all(finding.code == "bad_line" for finding in batch.findings)

    def test_a_file_that_is_missing_is_one_line(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="no such file"):
            read_slurm_state(tmp_path / "absent", cluster="c", zone=ZoneInfo("UTC"))
