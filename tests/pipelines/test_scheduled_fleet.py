"""What schedulers say, through the whole pipeline: capacity, devices, outages, tenants, evidence, what is free."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exporter.errors import UsageError, WorkError
from pipelines.availability import Availability, availability, refuse_unless_fits
from pipelines.booking import Booking
from pipelines.config import load
from pipelines.operations import replay, run_once
from pipelines.publish import published_fleet

START = datetime(2026, 10, 5, 10, tzinfo=UTC)
Site = Callable[..., Path]
HEAD = "JobID|JobIDRaw|Account|User|Partition|QOS|State|Start|End|ElapsedRaw|NodeList|AllocTRES|AdminComment\n"


def clock(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S")


def job(
    number: int, begin: float, end: float, *, nodes: str = "n1", gpus: int = 1, account: str = "vision", note: str = ""
) -> str:
    state = f"COMPLETED|{clock(begin)}|{clock(end)}|{round((end - begin) * 60)}"
    return f"{number}|{number}|{account}|ada|gpu|normal|{state}|{nodes}|gres/gpu={gpus}|{note}\n"


def still_running(number: int, begin: float, now: float, *, nodes: str = "n1", gpus: int = 1) -> str:
    state = f"RUNNING|{clock(begin)}|Unknown|{round((now - begin) * 60)}"
    return f"{number}|{number}|vision|ada|gpu|normal|{state}|{nodes}|gres/gpu={gpus}|\n"


def node(name: str, *, gpus: int = 4, state: str = "IDLE", reason: str = "") -> str:
    told = f"NodeName={name} Arch=x86_64\n   Gres=gpu:h100:{gpus}\n   State={state}\n   CfgTRES=cpu=8,gres/gpu={gpus}\n"
    return told + (f"   Reason={reason}\n" if reason else "")


def asked(minutes: float, *answers: str) -> str:
    return f"# {clock(minutes)}Z\n" + "".join(answers)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Write a site: its files by name, each of which is a source of the kind that its name begins with."""

    def write(files: dict[str, str], **config: Any) -> Path:
        options = {"slurm_state": {"devices": "cards.csv"}} if "cards.csv" in files else {}
        sources = [
            {kind: name, "cluster": "hpc", **options.get(kind, {})}
            for name in files
            if (kind := name.partition(".")[0]) != "cards"
        ]
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        content = {
            "currency": "USD",
            "sources": sources,
            "tenants": [{"id": "vision", "match": [{"slurm_account": "vision"}]}],
            "rates": [{"model": "*", "on_demand": "1.00"}],
            **config,
        }
        (tmp_path / "gpuledger.yaml").write_text(json.dumps(content))
        return tmp_path

    return write


def report(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(replay(folder).to_json())
    return told


def free(folder: Path) -> Availability:
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return availability(*_published(folder))


def _published(folder: Path) -> tuple[Any, Any, Any]:
    config = load(folder / "gpuledger.yaml")
    metered, as_of = published_fleet(config.ledger)
    return metered, config, as_of


class TestCapacity:
    def test_listed_nodes_are_capacity_though_no_job_ran_there(self, site: Site) -> None:
        folder = site({"sacct.txt": HEAD + job(1, 0, 60), "slurm_state.txt": asked(60, node("n1"), node("n2"))})
        assert report(folder)["fleet"]["capacity_gpu_hours"] == 8.0

    def test_a_node_exists_from_the_answer_that_lists_it_to_the_one_that_no_longer_does(self, site: Site) -> None:
        answers = asked(0, node("n1"), node("old")), asked(30, node("n1"), node("new", gpus=8))
        folder = site(
            {"sacct.txt": HEAD + job(1, 0, 60), "slurm_state.txt": answers[0], "slurm_state.later.txt": answers[1]}
        )
        # n1 for an hour, the old node for the first half, the new one for the second.
        assert report(folder)["fleet"]["capacity_gpu_hours"] == 4 + 2 + 4

    def test_a_node_that_the_inventory_lists_is_as_that_says(self, site: Site) -> None:
        files = {"inventory.csv": "node,gpus\nn1,2\n", "slurm_state.txt": asked(60, node("n1"), node("n2"))}
        assert report(site({"sacct.txt": HEAD + job(1, 0, 60), **files}))["fleet"]["capacity_gpu_hours"] == 2 + 4


class TestDevices:
    def test_a_running_job_is_on_the_cards_of_its_minor_numbers(self, site: Site) -> None:
        running = (
            f"JobId=5 JobName=x\n   UserId=ada(1) Account=vision\n   JobState=RUNNING\n   RunTime=00:30:00\n"
            f"   StartTime={clock(0)} EndTime={clock(600)}\n   NodeList=n1\n   AllocTRES=gres/gpu=1\n"
            "   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:0)\n"
        )
        metrics = "".join(
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="{card}",Hostname="n1",gpu="{index}",modelName="NVIDIA H100"}} {busy} '
            f"{round((START + timedelta(minutes=m)).timestamp() * 1000)}\n"
            for m in range(30)
            for card, index, busy in [("GPU-g0", 0, 0), ("GPU-g6", 6, 97)]
        )
        # NVML's index 6 is minor 0: IDX:0 is the busy card.
        folder = site(
            {
                "metrics.prom": metrics,
                "slurm_state.txt": asked(30, running),
                "cards.csv": "node,minor,device\nn1,0,GPU-g6\nn1,4,GPU-g0\n",
            }
        )
        (vision,) = report(folder)["tenants"]
        assert vision["workloads"][0]["utilization"] == pytest.approx(0.97)
        assert vision["gpu_hours"]["allocated"] == pytest.approx(0.5)

    def test_the_end_that_accounting_tells_later_wins(self, site: Site) -> None:
        running = (
            f"JobId=5 JobName=x\n   UserId=ada(1) Account=vision\n   JobState=RUNNING\n   RunTime=00:30:00\n"
            f"   StartTime={clock(0)}\n   NodeList=n1\n   AllocTRES=gres/gpu=1\n"
        )
        folder = site({"sacct.txt": HEAD + job(5, 0, 90), "slurm_state.txt": asked(30, running)})
        assert report(folder)["tenants"][0]["gpu_hours"]["allocated"] == 1.5


class TestOutages:
    def test_a_drained_node_is_down_from_its_reason_on_and_holds_nobody(self, site: Site) -> None:
        drained = node("n2", state="IDLE+DRAIN", reason=f"XID 79 [root@{clock(30)}]")
        folder = site({"sacct.txt": HEAD + job(1, 0, 60), "slurm_state.txt": asked(60, node("n1"), drained)})
        fleet = report(folder)["fleet"]
        assert (fleet["down_gpu_hours"], fleet["capacity_gpu_hours"]) == (2.0, 8.0)

    def test_a_node_that_is_well_again_was_down_until_it_was_asked(self, site: Site) -> None:
        down = asked(20, node("n1", state="DOWN", reason=f"fans [root@{clock(10)}]"))
        well = asked(40, node("n1"))
        folder = site(
            {"sacct.txt": HEAD + job(1, 0, 60, nodes="n9"), "slurm_state.a.txt": down, "slurm_state.b.txt": well}
        )
        assert report(folder)["fleet"]["down_gpu_hours"] == 4 * 0.5

    def test_reserved_gpus_that_go_out_while_held_are_credited(self, site: Site) -> None:
        files = {
            "inventory.csv": "node,device,model\nn1,GPU-a,H100\n",
            "allocations.csv": f"start,end,device,tenant,workload\n{clock(0)}Z,{clock(60)}Z,GPU-a,vision,train\n",
            "calendar.csv": f"node,device,state,reason,from,to\nn1,,down,power,{clock(30)}Z,{clock(60)}Z\n",
        }
        reservation = {
            "id": "r",
            "tenant": "vision",
            "gpus": 1,
            "from": f"{clock(0)}Z",
            "to": f"{clock(60)}Z",
            "rate": "2.00",
        }
        (vision,) = report(site(files, reservations=[reservation]))["tenants"]
        assert vision["gpu_hours"]["allocated"] == 0.5
        assert (vision["charges"]["reservation"], vision["charges"]["credit"]) == ("2.00", "-1.00")
        assert vision["availability"] == 0.5

    @pytest.mark.parametrize("match", [{"namespace": "a"}, {"namespace_label": "team=vision"}], ids=min)
    def test_who_held_what_goes_out_is_known_by_labels_of_its_namespace_too(
        self, site: Site, match: dict[str, str]
    ) -> None:
        times = [round((START + timedelta(minutes=m)).timestamp() * 1000) for m in range(61)]
        labels = 'gpu="0",UUID="GPU-a",modelName="H100",Hostname="n1",namespace="a",pod="p",container="c"'
        files = {
            "metrics.prom": "".join(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 50 {t}\n" for t in times),
            "kube_state.prom": "".join(
                f'kube_namespace_labels{{namespace="a",label_team="vision"}} 1 {t}\n' for t in times
            ),
            "calendar.csv": f"node,device,state,reason,from,to\nn1,,down,power,{clock(30)}Z,{clock(60)}Z\n",
        }
        bounds = {"from": f"{clock(0)}Z", "to": f"{clock(60)}Z"}
        reservation = {"id": "r", "tenant": "vision", "gpus": 1, "rate": "2.00", **bounds}
        folder = site(files, reservations=[reservation], tenants=[{"id": "vision", "match": [match]}])
        (vision,) = report(folder)["tenants"]
        assert (vision["charges"]["reservation"], vision["charges"]["credit"]) == ("2.00", "-1.00")

    def test_a_tenants_availability_is_of_what_was_meant_for_it(self, site: Site) -> None:
        files = {
            "inventory.csv": "node,device,model,owner\nn1,GPU-a,H100,\nn2,GPU-b,H100,web\nn3,GPU-c,H100,\n",
            "allocations.csv": "start,end,device,tenant,workload\n"
            f"{clock(0)}Z,{clock(60)}Z,GPU-a,vision,train\n{clock(0)}Z,{clock(30)}Z,GPU-b,web,shop\n",
            "calendar.csv": "node,device,state,reason,from,to\n"
            f"n2,,repair,fans,{clock(30)}Z,{clock(60)}Z\nn3,,down,power,{clock(0)}Z,{clock(60)}Z\n",
        }
        booked = {
            "id": "r",
            "tenant": "vision",
            "gpus": 2,
            "from": f"{clock(0)}Z",
            "to": f"{clock(60)}Z",
            "rate": "1.00",
        }
        tenants = [{"id": "vision"}, {"id": "web"}, {"id": "none"}]
        told = report(site(files, tenants=tenants, reservations=[booked]))["tenants"]
        # Nobody was to have n3; web owns n2, which was out for half of the time; half of vision's two GPUs were unused.
        assert {t["tenant"]: t["availability"] for t in told} == {"vision": 1.0, "web": 0.5}


class TestTenants:
    TREE = (
        "Cluster|Account|User|ParentName|GrpTRES\n"
        "hpc|root|||\nhpc|research||root|\nhpc|vision||research|\nhpc|web||root|\n"
    )

    def test_a_tenant_is_chosen_by_an_account_and_all_below_it(self, site: Site) -> None:
        jobs = HEAD + job(1, 0, 60) + job(2, 0, 60, account="web") + job(3, 0, 60, account="research")
        folder = site(
            {"sacct.txt": jobs, "slurm_state.txt": asked(60, node("n1")) + self.TREE},
            tenants=[{"id": "science", "match": [{"slurm_account_tree": "research"}]}],
        )
        told = report(folder)
        assert told["tenants"][0]["gpu_hours"]["allocated"] == 2.0
        assert told["unattributed_gpu_hours"] == 1.0

    def test_a_tenant_is_chosen_by_a_label_of_its_namespace(self, site: Site) -> None:
        times = [round((START + timedelta(minutes=m)).timestamp() * 1000) for m in range(60)]
        text = "".join(
            f'kube_pod_status_phase{{namespace="{ns}",pod="p",uid="{ns}",phase="Running"}} 1 {t}\n'
            f'kube_pod_container_resource_requests{{namespace="{ns}",pod="p",uid="{ns}",container="c",node="k1",'
            f'resource="nvidia_com_gpu"}} 2 {t}\n'
            f'kube_namespace_labels{{namespace="{ns}",label_team="{team}"}} 1 {t}\n'
            for t in times
            for ns, team in [("a", "vision"), ("b", "other")]
        )
        folder = site({"kube_state.prom": text}, tenants=[{"id": "t", "match": [{"namespace_label": "team=vis*"}]}])
        told = report(folder)
        assert told["tenants"][0]["gpu_hours"]["allocated"] == 2.0
        assert [w["workload"] for w in told["tenants"][0]["workloads"]] == ["a/p"]
        assert told["unattributed_gpu_hours"] == 2.0


class TestPartsOfCards:
    """Pods whose cards no exporter shows: parts of one card stand on one card."""

    def pods(self, count: int, resource: str, gpus: float, *, labels: str = "", capacity: str = "") -> str:
        times = [round((START + timedelta(minutes=m)).timestamp() * 1000) for m in range(60)]
        told = "".join(
            f'kube_pod_status_phase{{namespace="a",pod="p{n}",uid="u{n}",phase="Running"}} 1 {t}\n'
            f'kube_pod_container_resource_requests{{namespace="a",pod="p{n}",uid="u{n}",container="c",node="k1",'
            f'resource="{resource}"}} {gpus} {t}\n'
            for n in range(count)
            for t in times
        )
        ends = (times[0], times[-1])
        told += "".join(f'kube_node_labels{{node="k1",{labels}}} 1 {t}\n' for t in ends if labels)
        return told + "".join(f'kube_node_status_capacity{{node="k1",{capacity} {t}\n' for t in ends if capacity)

    TENANT: ClassVar = [{"id": "t", "match": [{"namespace": "a"}]}]

    def test_three_of_four_slices_of_one_card_for_an_hour(self, site: Site) -> None:
        text = self.pods(
            3, "nvidia_com_gpu", 1, labels='label_nvidia_com_gpu_replicas="4",label_nvidia_com_gpu_count="1"',
            capacity='resource="nvidia_com_gpu"} 4',
        )  # fmt: skip
        told = report(site({"kube_state.prom": text}, tenants=self.TENANT, rates=[{"model": "*", "on_demand": "2.00"}]))
        assert told["tenants"][0]["gpu_hours"]["allocated"] == 0.75
        assert told["tenants"][0]["charges"]["usage"] == "1.50"
        fleet = told["fleet"]
        assert (fleet["capacity_gpu_hours"], fleet["allocated_gpu_hours"]) == (1.0, 0.75)

    @pytest.mark.parametrize("capacity", ["", 'resource="nvidia_com_gpu"} 1'])
    def test_mig_instances_are_parts_of_one_card_listed_or_not(self, site: Site, capacity: str) -> None:
        text = self.pods(7, "nvidia_com_mig_1g_5gb", 1, capacity=capacity)
        told = report(site({"kube_state.prom": text}, tenants=self.TENANT))
        assert told["tenants"][0]["gpu_hours"]["allocated"] == pytest.approx(1.0, abs=1e-5)
        assert told["fleet"]["capacity_gpu_hours"] == 1.0
        assert all(w["gpu_hours"] == pytest.approx(1 / 7, abs=1e-5) for w in told["tenants"][0]["workloads"])

    def test_what_does_not_fit_beside_the_others_is_said(self, site: Site) -> None:
        text = self.pods(3, "nvidia_com_gpu", 1) + self.pods(3, "nvidia_com_gpucores", 40)
        text += self.pods(0, "", 0, capacity='resource="nvidia_com_gpu"} 1')
        told = report(site({"kube_state.prom": text}, tenants=self.TENANT))
        assert told["tenants"][0]["gpu_hours"]["allocated"] == pytest.approx(0.8)
        assert [f["code"] for f in told["findings"]] == ["conflicting_owner"]


def test_a_summary_stands_for_samples_that_are_gone(site: Site) -> None:
    told = {"nodes": {"n1": {"gpu_utilization": {"0": 90.0, "1": 30.0}}}}
    note = "JS1:" + base64.b64encode(gzip.compress(json.dumps(told).encode())).decode()
    broken = "JS1:" + base64.b64encode(gzip.compress(json.dumps({"nodes": {"n1": {}}}).encode())).decode()
    jobs = HEAD + job(1, 0, 60, gpus=2, note=note) + job(2, 60, 120, gpus=1, note=broken)
    told_report = report(site({"sacct.txt": jobs}))
    by_name = {w["workload"]: w for w in told_report["tenants"][0]["workloads"]}
    assert (by_name["1"]["utilization"], by_name["1"]["coverage"]) == (pytest.approx(0.6), 1.0)
    assert (by_name["2"]["utilization"], by_name["2"]["coverage"]) == (None, 0.0)
    assert [f["code"] for f in told_report["findings"]] == ["summarised_use"]


class TestAvailability:
    FILES: ClassVar = {
        "sacct.txt": HEAD + still_running(1, 0, 60, gpus=3) + job(2, 0, 30, nodes="n2", gpus=4),
        "slurm_state.txt": asked(
            60, node("n1"), node("n2"), node("n3", state="DOWN", reason="x [root@2026-10-05T10:00:00]")
        ),
    }

    def reservation(self, name: str, gpus: int, begin: float = 120, end: float = 240) -> dict[str, Any]:
        return {
            "id": name, "tenant": "vision", "model": "h100", "gpus": gpus, "rate": "1.00",
            "from": f"{clock(begin)}Z", "to": f"{clock(end)}Z",
        }  # fmt: skip

    def test_what_is_free_now_by_model_and_by_largest_block(self, site: Site) -> None:
        (h100,) = free(site(self.FILES)).models
        assert (h100.cards, h100.held, h100.free, h100.down) == (12, 3, 5, 4)
        assert (h100.free_whole, h100.largest_block) == (5, 4)
        assert [(b.node, b.gpus) for b in h100.blocks] == [("n2", 4), ("n1", 1)]

    def test_a_job_that_ends_at_the_last_instant_holds_nothing_then(self, site: Site) -> None:
        ends = job(1, 0, 60, gpus=3) + job(2, 0, 30, nodes="n2", gpus=4) + still_running(3, 50, 60)
        (h100,) = free(site({**self.FILES, "sacct.txt": HEAD + ends})).models
        assert (h100.cards, h100.held, h100.free, h100.free_whole, h100.largest_block) == (12, 1, 7, 7, 4)

    def test_windows_ahead_leave_out_what_is_reserved(self, site: Site) -> None:
        found = free(site(self.FILES, reservations=[self.reservation("r1", 6)]))
        assert [(w.from_, w.to, w.gpus, w.largest_block) for w in found.windows[:3]] == [
            (START + timedelta(minutes=60), START + timedelta(minutes=120), 8, 4),
            (START + timedelta(minutes=120), START + timedelta(minutes=240), 2, 2),
            (START + timedelta(minutes=240), START + timedelta(minutes=60, days=14), 8, 4),
        ]
        assert found.refusals == []

    def test_a_double_booking_is_refused_with_what_it_collides_with(self, site: Site) -> None:
        found = free(site(self.FILES, reservations=[self.reservation("r1", 6), self.reservation("r2", 4)]))
        assert [(p.id, p.fits) for p in found.reservations] == [("r1", True), ("r2", False)]
        (line,) = found.refusals
        assert line.startswith(
            "r2: 4 GPUs of h100 from 2026-10-05T12:00Z to 2026-10-05T14:00Z don't fit beside r1: 2 are"
        )

    def test_slurms_reservations_and_maintenance_count_too(self, site: Site) -> None:
        train = f"ReservationName=train StartTime={clock(120)} EndTime={clock(240)}\n   Nodes=n1 Accounts=other\n"
        maint = f"ReservationName=m StartTime={clock(300)} EndTime={clock(360)}\n   Nodes=n[1-2] Flags=MAINT\n"
        files = {**self.FILES, "slurm_state.txt": self.FILES["slurm_state.txt"] + train + maint}
        found = free(site(files, reservations=[self.reservation("r1", 5), self.reservation("r2", 1, 310, 320)]))
        assert {p.id: p.fits for p in found.reservations} == {"r1": True, "train": False, "r2": False}
        full = [(w.from_ - START, w.to - START) for w in found.windows if w.gpus == 0]
        assert [(a.seconds // 60, b.seconds // 60) for a, b in full] == [(120, 240), (300, 360)]

    def test_maintenance_and_reservations_are_of_their_own_cluster(self, site: Site) -> None:
        maint = f"ReservationName=m StartTime={clock(300)} EndTime={clock(360)}\n   Nodes=n1 Flags=MAINT\n"
        train = f"ReservationName=train StartTime={clock(120)} EndTime={clock(240)}\n   Nodes=n1 Accounts=other\n"
        files = {
            "sacct.txt": HEAD + job(1, 0, 30, gpus=2),
            "slurm_state.txt": asked(60, node("n1", gpus=2)) + maint + train,
        }
        folder = site(files)
        (folder / "hall.txt").write_text(asked(60, node("n1", gpus=4)))
        content = json.loads((folder / "gpuledger.yaml").read_text())
        content["sources"].append({"slurm_state": "hall.txt", "cluster": "hall"})
        (folder / "gpuledger.yaml").write_text(json.dumps(content))
        found = free(folder)
        assert [(p.id, p.gpus, p.fits) for p in found.reservations] == [("train", 2, True)]
        assert [w.gpus for w in found.windows] == [6, 4, 6, 4, 6]

    def test_one_more_is_refused_or_not(self, site: Site) -> None:
        folder = site(self.FILES, reservations=[self.reservation("r1", 6)])
        free(folder)
        metered, config, _ = _published(folder)

        def want(gpus: int, begin: float, end: float) -> Booking:
            span = START + timedelta(minutes=begin), START + timedelta(minutes=end)
            return Booking("this request", "configuration", "", "*", gpus, *span)

        refuse_unless_fits(metered, config, want(2, 100, 300))
        refuse_unless_fits(metered, config, want(8, 240, 300))
        with pytest.raises(WorkError, match=r"this request: 3 GPUs of \* .* don't fit beside r1: 2 are there"):
            refuse_unless_fits(metered, config, want(3, 100, 300))
        with pytest.raises(UsageError, match="is past"):
            refuse_unless_fits(metered, config, want(1, 0, 10))

    def test_what_is_wrong_and_what_is_limited_is_shown(self, site: Site) -> None:
        qos = "Name|GrpTRES|MaxTRESPU|MaxTRESPA\nbig|gres/gpu=64||\n"
        found = free(site({**self.FILES, "slurm_state.txt": self.FILES["slurm_state.txt"] + qos}))
        assert {(t.node, t.state, t.reason) for t in found.trouble} == {("n3", "down", "x")}
        assert [(limit.name, limit.gpus) for limit in found.limits] == [("big", 64.0)]

    def test_the_newest_result_of_each_acceptance_test_is_shown_what_failed_first(self, tmp_path: Path) -> None:
        def diag(memory: str, pcie: str) -> str:
            tests = [
                {"name": name, "results": [{"gpu_id": "0", "status": told}]}
                for name, told in (("Memory", memory), ("PCIe", pcie))
            ]
            return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"tests": tests}]}})

        for name, text in (
            ("sacct.txt", self.FILES["sacct.txt"]),
            ("a.json", diag("FAIL", "PASS")),
            ("b.json", diag("PASS", "FAIL")),
        ):
            (tmp_path / name).write_text(text)
        sources: list[dict[str, str]] = [{"sacct": "sacct.txt", "cluster": "hpc"}]
        for name, day in (("a.json", "2026-09-01"), ("b.json", "2026-10-01")):
            sources.append({"acceptance": name, "cluster": "hpc", "node": "n1", "at": day})
        config = {"currency": "USD", "sources": sources, "rates": [{"model": "*", "on_demand": "1.00"}]}
        (tmp_path / "gpuledger.yaml").write_text(json.dumps(config))
        assert [(t.test, t.outcome) for t in free(tmp_path).tests] == [("PCIe", "fail"), ("Memory", "pass")]
