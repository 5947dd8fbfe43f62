"""The ledger against a real Slurm: its GPU-hours are what sacct and sreport count, each in its own way.

Run by `make test-slurm`, apart from the suite: it starts a database and a cluster, and takes about two minutes.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from pipelines.config import Source
from pipelines.facts import Facts
from pipelines.operations import replay
from pipelines.report import Report
from pipelines.slurm_billing import billing, weights_of
from pipelines.sources.sacct import read_sacct
from pipelines.sources.slurm_json import read_slurm_json
from pipelines.sources.slurm_rest import read_slurm_rest
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.tables import Batch
from tests.slurm.cluster import GPUS_PER_NODE, NODES, SHARDS_PER_GPU, WEIGHTS, Slurm, can_sign, missing

pytestmark = [
    pytest.mark.skipif(os.environ.get("GPULEDGER_SLURM") != "1", reason="a cluster takes minutes: make test-slurm"),
    pytest.mark.skipif(
        bool(missing()),
        reason=f"{' '.join(missing())} not installed: apt-get install slurm-wlm slurmdbd mariadb-server munge",
    ),
]

FIELDS: Final = "JobID,JobIDRaw,Account,User,Partition,QOS,State,Start,End,ElapsedRaw,NodeList,AllocTRES,AdminComment"
CONFIG: Final = """\
currency: USD
sources:
  - {sacct: jobs.txt, cluster: loopback, shards_per_gpu: 4, billing: recorded}
  - {slurm_state: state.txt, cluster: loopback, devices: cards.csv, shards_per_gpu: 4}
tenants:
  - {id: vision, match: [{slurm_account: vision}]}
  - {id: research, match: [{slurm_account_tree: research}]}
rates:
  - {model: "*", on_demand: "1.00"}
"""


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A cluster on which something of every kind has run, and what it said of it."""
    folder = tmp_path_factory.mktemp("site")
    with Slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield _work(slurm, folder)


def _work(slurm: Slurm, folder: Path) -> SimpleNamespace:
    jobs = {
        "typed": slurm.submit("-A", "vision", "--gres=gpu:a100:2", script="sleep 6"),
        "total": slurm.submit("-A", "audio", "-N1", "--gpus=3", script="sleep 4"),
        "several nodes": slurm.submit("-A", "audio", "-N2", "--gres=gpu:1", script="srun -N2 sleep 3; sleep 2"),
        "array": slurm.submit("-A", "vision", "--array=0-2", "--gres=gpu:1", script="sleep 3"),
        "fails": slurm.submit("-A", "audio", "--gres=gpu:1", script="sleep 2; exit 3"),
        "no gpu": slurm.submit("-A", "audio", script="sleep 2"),
        "requeued": slurm.submit("-A", "vision", "--gres=gpu:1", "--requeue", script="sleep 8"),
        "heterogeneous": slurm.submit(
            "-A",
            "vision",
            "-n1",
            "--gres=gpu:1",
            "-t",
            "10",
            ":",
            "-A",
            "vision",
            "-n1",
            "--gres=gpu:2",
            script="sleep 3",
        ),
        "never starts": slurm.submit("-A", "vision", "--gres=gpu:1", "--begin=now+1hour"),
    }
    for name in ("typed", "total", "several nodes", "fails", "no gpu", "requeued", "heterogeneous"):
        slurm.wait_for_state(jobs[name], "RUNNING", "COMPLETED", "FAILED")
    slurm.wait_for_state(jobs["requeued"], "RUNNING")
    slurm.wait(
        "it runs for some seconds",
        lambda: "RunTime=00:00:00" not in slurm.run("scontrol", "show", "job", jobs["requeued"]),
    )
    slurm.run("scontrol", "requeue", jobs["requeued"])
    slurm.run("scancel", jobs["never starts"])
    slurm.run("scontrol", "update", "nodename=n2", "state=drain", "reason=XID 79")
    slurm.run("scontrol", "create", "reservation", "reservationname=train", "starttime=now+1hour", "duration=60",
              "nodes=n1", "accounts=vision")  # fmt: skip
    for name in ("typed", "total", "several nodes", "fails", "no gpu", "requeued", "heterogeneous"):
        slurm.wait_for_state(jobs[name], "COMPLETED", "FAILED")
    slurm.wait("the array", lambda: not slurm.run("squeue", "-h", "-j", jobs["array"]).strip())
    # Shards and whole GPUs exclude each other: this one waits until the others are done.
    jobs["shards"] = slurm.submit("-A", "audio", "--gres=shard:2", script="sleep 4")
    slurm.wait_for_state(jobs["shards"], "COMPLETED")
    running = slurm.submit("-A", "audio", "--gres=gpu:2", script="sleep 300")
    slurm.wait_for_state(running, "RUNNING")
    now = slurm.run("date", "-u", "+# %FT%TZ")
    show = [
        ("job", "-d"), ("node", "-d"), ("reservation",), ("partition",), ("config",),
    ]  # fmt: skip
    answers = [now, *(slurm.run("scontrol", "show", *words) for words in show)]
    answers.append(slurm.run("sacctmgr", "-P", "show", "assoc", "format=Cluster,Account,User,ParentName,GrpTRES"))
    (folder / "state.txt").write_text("".join(answers))
    slurm.run("scancel", running)
    slurm.wait_for_accounts(running)
    cards = [f"{node},{minor},GPU-{node}-{minor}\n" for node in NODES for minor in range(GPUS_PER_NODE)]
    (folder / "cards.csv").write_text("node,minor,device\n" + "".join(cards))
    (folder / "jobs.txt").write_text(slurm.run("sacct", "-P", "--duplicates", "-S", "now-1hour", "-o", FIELDS))
    (folder / "jobs.json").write_text(slurm.run("sacct", "--json", "--duplicates", "-S", "now-1hour"))
    (folder / "gpuledger.yaml").write_text(CONFIG)
    return SimpleNamespace(slurm=slurm, folder=folder, jobs={**jobs, "running": running})


def rows(text: str) -> list[dict[str, str]]:
    head, *lines = (line.split("|") for line in text.splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def counted(folder: Path) -> dict[str, Decimal]:
    """GPU-seconds by account as sacct's own rows add up: elapsed × (GPUs + shards ÷ shards per GPU), jobs alone."""
    seconds: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows((folder / "jobs.txt").read_text()):
        if "." in row["JobID"]:
            continue
        gpus = re.search(r"gres/gpu=(\d+)", row["AllocTRES"])
        shards = re.search(r"gres/shard=(\d+)", row["AllocTRES"])
        held = Decimal(gpus[1] if gpus else 0) + Decimal(shards[1] if shards else 0) / SHARDS_PER_GPU
        seconds[row["Account"]] += held * int(row["ElapsedRaw"])
    return seconds


def test_every_kind_of_job_is_in_the_accounts(worked: SimpleNamespace) -> None:
    states = {row["JobID"]: row["State"] for row in rows((worked.folder / "jobs.txt").read_text())}
    ids = worked.jobs
    assert {states[ids[name]] for name in ("typed", "total", "several nodes", "shards")} == {"COMPLETED"}
    assert states[ids["fails"]] == "FAILED"
    assert {f"{ids['array']}_{task}" for task in range(3)} <= states.keys()
    assert {f"{ids['heterogeneous']}+{part}" for part in range(2)} <= states.keys()
    runs = [r for r in rows((worked.folder / "jobs.txt").read_text()) if r["JobID"] == ids["requeued"]]
    assert [run["State"] for run in runs] == ["REQUEUED", "COMPLETED"]
    assert f"{ids['several nodes']}.0" in states


def test_the_ledgers_gpu_hours_are_saccts(worked: SimpleNamespace) -> None:
    report = replay(worked.folder)
    seconds = counted(worked.folder)
    assert seconds["vision"] > 0 < seconds["audio"]
    hours = {tenant.tenant: tenant.gpu_hours.allocated for tenant in report.tenants}
    assert hours == {
        "vision": pytest.approx(float(seconds["vision"]) / 3600, abs=1e-6),
        "research": pytest.approx(float(seconds["audio"]) / 3600, abs=1e-6),
    }
    assert report.unattributed_gpu_hours == 0


def test_saccts_json_says_the_same_as_its_text(worked: SimpleNamespace) -> None:
    batch = read_slurm_json(worked.folder / "jobs.json", cluster="loopback", shards_per_gpu=SHARDS_PER_GPU)
    seconds: dict[str, Decimal] = defaultdict(Decimal)
    for row in batch.records.rows(named=True):
        seconds[row["slurm_account"]] += Decimal(row["gpus"]) * int((row["end"] - row["start"]).total_seconds())
    assert seconds == {account: total for account, total in counted(worked.folder).items() if total}


@pytest.mark.skipif(not can_sign(), reason="needs slurmrestd: apt-get install slurmrestd slurm-wlm-jwt-plugin")
def test_slurmrestd_says_the_same_as_the_files(worked: SimpleNamespace) -> None:
    url, token = worked.slurm.rest()
    context = {"path": worked.folder / "gpuledger.yaml", "zone": None}
    keys = {"slurmrestd": url, "cluster": "loopback", "bearer_token_file": token, "shards_per_gpu": 4}
    source = Source.model_validate(keys, context=context)
    asked = read_slurm_rest(source, (datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC)))
    text = read_sacct(worked.folder / "jobs.txt", cluster="loopback", zone=ZoneInfo("UTC"), shards_per_gpu=4)
    columns = ("workload", "start", "end", "gpus", "model", "nodes", "slurm_account", "ended")

    def told(batch: Batch) -> set[str]:
        return {str(row) for row in batch.records.select(columns).rows()}

    assert told(text) <= told(asked)  # both runs of the requeued job too
    assert {row["node"] for row in asked.facts["scheduler_node"].rows(named=True)} == set(NODES)
    assert asked.facts["booking"]["booking"].to_list() == ["train"]
    assert "vision" in asked.facts["slurm_account"]["account"].to_list()
    assert [finding for finding in asked.findings if finding.code == "bad_line"] == []


def test_a_running_job_holds_the_cards_that_slurm_gave_it(worked: SimpleNamespace) -> None:
    batch = state(worked)
    held = [
        d
        for job, d in Facts(batch.facts)["holding"].select("labelled_as", "device").rows()
        if job == worked.jobs["running"]
    ]
    text = (worked.folder / "state.txt").read_text()
    block = text[text.index(f"JobId={worked.jobs['running']} ") :]
    node, first, last = re.findall(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\d+ GRES=gpu:a100:2\(IDX:(\d)-(\d)\)", block)[0]
    assert held == [f"GPU-{node}-{first}", f"GPU-{node}-{last}"]


def test_nodes_the_drain_the_reservation_and_the_tree_of_accounts(worked: SimpleNamespace) -> None:
    facts = Facts(state(worked).facts)
    assert sorted(facts["scheduler_node"].select("node", "model", "gpus").rows()) == [
        (node, "a100", GPUS_PER_NODE) for node in NODES
    ]
    conditions = {row["node"]: row for row in facts["condition"].rows(named=True)}
    assert (conditions["n1"]["state"], conditions["n2"]["state"]) == ("ok", "repair")
    assert conditions["n2"]["reason"] == "XID 79"
    assert datetime.now(UTC) - conditions["n2"]["from"] < timedelta(minutes=10)
    (booking,) = facts["booking"].rows(named=True)
    assert (booking["booking"], booking["accounts"], booking["nodes"]) == ("train", ["vision"], ["n1"])
    assert booking["to"] - booking["from"] == timedelta(hours=1)
    assert dict(facts["slurm_account"].select("account", "parent").rows())["vision"] == "research"
    assert facts["quota_limit"].select("kind", "name", "gpus").rows() == [("slurm_account", "research", 64.0)]
    assert [finding for finding in state(worked).findings if finding.code != "bad_line"] == []


def test_billing_weights_are_reproduced(worked: SimpleNamespace) -> None:
    (partition,) = Facts(state(worked).facts)["slurm_partition"].rows(named=True)
    assert partition["billing_weights"] == WEIGHTS
    weights, seen = weights_of(WEIGHTS), 0
    for row in rows((worked.folder / "jobs.txt").read_text()):
        told = re.search(r"billing=(\d+)", row["AllocTRES"])
        if told and "." not in row["JobID"]:
            assert int(billing(row["AllocTRES"], weights)) == int(told[1])
            seen += 1
    assert seen >= 10


def test_sreports_hours_are_the_ledgers_once_they_are_rolled_up(worked: SimpleNamespace) -> None:
    folder = worked.folder
    gpus, billed = counted_of_gpus(folder), billed_seconds(replay(folder))
    (folder / "gpuledger.yaml").write_text(
        CONFIG.replace("billing: recorded", f'billing: weights, billing_weights: {{"*": "{WEIGHTS}"}}')
    )
    assert billed_seconds(replay(folder)) == billed
    worked.slurm.roll_up(hours=4)
    bounds = [f"{datetime.now(UTC) + timedelta(hours=h):%Y-%m-%dT%H:00:00}" for h in (-6, -1)]
    told: dict[str, dict[str, int]] = {}

    def summed() -> bool:
        text = worked.slurm.run(
            "sreport", "-n", "-P", "-t", "Seconds", "-T", "gres/gpu,billing", "cluster", "AccountUtilizationByUser",
            f"Start={bounds[0]}", f"End={bounds[1]}", "format=Account,Login,TRESName,Used",
        )  # fmt: skip
        for account, login, tres, used in (line.split("|") for line in text.split()):
            if login:
                told.setdefault(tres, {})[account] = int(used)
        return bool(told)

    worked.slurm.wait("sreport", summed)
    assert told == {"gres/gpu": gpus, "billing": billed}


def billed_seconds(report: Report) -> dict[str, int]:
    """Units × seconds by account."""
    return {row.account or "": round(row.billing_hours * 3600) for row in report.slurm_billing}


def counted_of_gpus(folder: Path) -> dict[str, int]:
    """GPU-seconds by account without shards, which are a TRES of their own."""
    seconds: dict[str, int] = defaultdict(int)
    for row in rows((folder / "jobs.txt").read_text()):
        gpus = re.search(r"gres/gpu=(\d+)", row["AllocTRES"])
        if gpus and "." not in row["JobID"]:
            seconds[row["Account"]] += int(gpus[1]) * int(row["ElapsedRaw"])
    return dict(seconds)


def state(worked: SimpleNamespace) -> Batch:
    return read_slurm_state(
        worked.folder / "state.txt", cluster="loopback", zone=ZoneInfo("UTC"), devices=worked.folder / "cards.csv",
        shards_per_gpu=SHARDS_PER_GPU,
    )  # fmt: skip
