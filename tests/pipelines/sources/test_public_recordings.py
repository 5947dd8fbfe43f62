"""Recordings of real exporters and schedulers; they stand beside the checkout and are no part of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import polars as pl
import pytest

from exporter.errors import SourceError
from exporter.kernel_log import parse_xid
from pipelines.facts import Facts
from pipelines.sources.exposition import read_exposition
from pipelines.sources.kube_state import read_kube_state
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.sacct import read_sacct
from pipelines.sources.slurm_json import read_slurm_json
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.tables import Batch

PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data"
AT = datetime(2026, 10, 5, 12, tzinfo=UTC)
EXPOSITION = [
    path
    for folder in ("dcgm_exporter", "nvidia_gpu_exporter")
    for path in sorted((PUBLIC / folder).rglob("*"))
    if path.suffix in {".prom", ".ini", ".metrics"}
]
SONAR_FIELDS = (
    "JobID,JobIDRaw,User,Account,State,Start,End,AveCPU,AveDiskRead,AveDiskWrite,AveRSS,AveVMSize,ElapsedRaw,ExitCode,"
    "Layout,MaxRSS,MaxVMSize,MinCPU,ReqCPUS,ReqMem,ReqNodes,Reservation,Submit,Suspended,SystemCPU,TimelimitRaw,"
    "UserCPU,NodeList,Partition,AllocTRES,Priority,JobName"
)

pytestmark = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public recordings are not beside the checkout")


def expose(name: str) -> Batch:
    return read_exposition(PUBLIC / name, cluster="c", at=AT)


@pytest.mark.parametrize("path", EXPOSITION, ids=lambda path: path.name)
def test_every_recording_of_an_exporter_gives_samples_of_named_devices(path: Path) -> None:
    batch = read_exposition(path, cluster="c", at=AT)
    assert batch.samples.height >= 1
    assert batch.samples["device"].str.starts_with("GPU-").all()
    assert batch.samples.columns[16:]
    # Titles and rules of captures are the only lines that are no metric text.
    bad = sum(finding.count for finding in batch.findings if finding.code == "bad_line")
    lines = path.read_text().splitlines()
    titles = [
        line
        for line in lines
        if line and not line.startswith(("#", "DCGM", "nvidia", "TEST", "go_", "process", "promhttp"))
    ]
    assert bad == len(titles)


@pytest.mark.parametrize("path", [p for p in EXPOSITION if p.suffix == ".metrics"], ids=lambda path: path.name)
def test_recordings_of_nvidia_gpu_exporter_name_their_models(path: Path) -> None:
    samples = read_exposition(path, cluster="c", at=AT).samples
    assert samples["model"].str.contains("NVIDIA").all()
    assert samples["index"].is_not_null().all()


def test_mig_instances_carry_the_boards_energy_each() -> None:
    samples = expose("dcgm_exporter/runai_mig_a100/4_Active_Workloads.ini").samples
    assert samples.sort("instance").select("instance", "profile", "energy_joules_total").rows() == [
        ("5", "2g.10gb", 6890.956),
        ("7", "1g.5gb", 6890.956),
        ("8", "1g.5gb", 6890.956),
        ("9", "1g.5gb", 6890.956),
    ]


def test_a_capture_of_two_scrapes_at_one_time_is_duplicates() -> None:
    batch = expose("dcgm_exporter/runai_mig_a100/Empty_mig_disabled.ini")
    assert {finding.code: finding.count for finding in batch.findings if finding.code != "bad_line"} == {
        "duplicate_sample": 23
    }


def test_a_parent_and_its_instance_are_two_rows() -> None:
    samples = expose("dcgm_exporter/nvidia_docs_a100_mig.prom").samples
    active = samples.filter(pl.col("engine_active_ratio").is_not_null())
    assert active.select("instance", "engine_active_ratio").sort("engine_active_ratio").rows() == [
        (None, 0.995630),
        ("13", 0.995687),
    ]


def test_a_blank_temperature_is_no_temperature() -> None:
    samples = expose("dcgm_exporter/readme_blank_sentinel.prom").samples
    assert samples["memory_temperature_celsius"].is_nan().all()


def test_an_academic_clusters_accounting_gives_its_jobs_and_gpus() -> None:
    batch = read_sacct(
        PUBLIC / "slurm" / "sonar" / "tests__testdata__sacct_output.txt",
        cluster="c",
        zone=ZoneInfo("Europe/Oslo"),
        fields=SONAR_FIELDS.split(","),
    )
    assert batch.records["gpus"].cast(pl.Int64).sum() == 83
    assert batch.records["workload"].n_unique() == 65
    assert batch.records["model"].drop_nulls().unique().sort().to_list() == [
        "a100",
        "a100_80",
        "a40",
        "l40s",
        "rtx30",
    ]
    assert batch.records["end"].is_not_null().all()
    assert batch.findings == []


@pytest.mark.parametrize(
    "path", sorted((PUBLIC / "slurm" / "gcm").glob("sample-sacct-*.txt")), ids=lambda path: path.name
)
def test_accounting_with_broken_lines_reads_as_its_mended_copy(path: Path) -> None:
    mended = path.with_name(f"{path.stem}-expected.txt")
    if not mended.exists():
        mended = path
    records = [read_sacct(each, cluster="c", zone=ZoneInfo("UTC")).records for each in (path, mended)]
    assert records[0].equals(records[1])


def state(name: str, *fields: str) -> Batch:
    path = PUBLIC / "slurm" / name
    return read_slurm_state(path, cluster="c", zone=ZoneInfo("UTC"), at=AT, fields=fields or None)


@pytest.mark.parametrize(
    "path", sorted(p for p in (PUBLIC / "slurm").rglob("*") if p.is_file()), ids=lambda path: path.name
)
def test_every_answer_of_slurm_is_read_and_what_is_odd_is_counted(path: Path) -> None:
    batch = read_slurm_state(path, cluster="c", zone=ZoneInfo("UTC"), at=AT)
    assert {finding.code for finding in batch.findings} <= {"bad_line", "gpus_not_tracked"}


def test_gpus_of_partitions_and_their_weights() -> None:
    partitions = Facts(state("gcm/sample-scontrol-output.txt").facts)["slurm_partition"]
    assert partitions.select("partition", "gpus", pl.col("nodes").list.len(), "billing_weights").rows() == [
        ("partition1", 22384, 3140, "cpu=1,mem=0.125G,gres/gpu=16"),
        ("partition2", None, 1469, "cpu=2,mem=0.25G,gres/gpu=32"),
        ("partition3", 22384, 3140, "cpu=0,mem=0,gres/gpu=0"),
    ]


def test_limits_of_qos() -> None:
    limits = Facts(state("gcm/sample-sacctmgr-qos.txt").facts)["quota_limit"]
    assert limits.select("kind", "name", "gpus").rows() == [
        ("slurm_qos", "normal2", 8192.0),
        ("slurm_qos_per_user", "normal2", 1024.0),
        ("slurm_qos_per_user", "normal3", 16.0),
        ("slurm_qos", "normal4", 128.0),
        ("slurm_qos", "normal5", 512.0),
    ]


def test_nodes_of_sinfo_in_several_partitions_count_once() -> None:
    facts = Facts(state("gcm/sample-sinfo-output.txt").facts)
    assert facts["scheduler_node"].select("node", "gpus").rows() == [("node0201", 8), ("node1537", 8), ("node4180", 2)]
    assert dict(facts["condition"].select("node", "state").rows())["node0201"] == "down"


def test_a_table_without_a_header_is_read_by_its_fields() -> None:
    facts = Facts(
        state(
            "gcm/sinfo-output-for-structured.txt",
            "NODELIST",
            "GRES",
            "GRES_USED",
            "CPUS",
            "CPUSTATE",
            "STATE",
            "PARTITION",
        ).facts
    )
    assert facts["scheduler_node"].select("node", "gpus", "used").rows()[:2] == [
        ("node1074", 8, 0.0),
        ("node1221", 8, 8.0),
    ]


def test_states_of_nodes_over_slurmrestd() -> None:
    folder = "slurmrestd/24.05_0.0.41"
    found = {name: state(f"{folder}/slurm-node-{name}.json") for name in ("down", "drain", "draining", "mixed")}
    states = {name: Facts(batch.facts)["condition"]["state"].to_list() for name, batch in found.items()}
    assert states == {"down": ["down"], "drain": ["repair"], "draining": ["degraded"], "mixed": ["ok"]}
    assert Facts(found["drain"].facts)["condition"]["reason"].to_list() == ["ECC memory error"]


def test_a_cluster_that_doesnt_track_gpus_is_told_so_and_its_use_is_known() -> None:
    batch = state("slurmrestd/24.05_0.0.41/slurm-node-with-gpus-model-allocated.json")
    assert Facts(batch.facts)["scheduler_node"].select("model", "gpus", "used").rows() == [("h100", 4, 4.0)]
    assert [finding.code for finding in batch.findings] == ["gpus_not_tracked"]


@pytest.mark.parametrize(
    "path", sorted((PUBLIC / "slurm" / "slurmrestd").rglob("slurm*-job-*.json")), ids=lambda path: path.name
)
def test_jobs_over_slurmrestd_are_read(path: Path) -> None:
    batch = read_slurm_json(path, cluster="c")
    assert {finding.code for finding in batch.findings} <= {"bad_line", "gpus_not_tracked"}


@pytest.mark.parametrize(
    "path", sorted(p for p in (PUBLIC / "k8s").rglob("*") if p.is_file()), ids=lambda path: path.name
)
def test_every_file_of_kubernetes_is_read_and_what_is_odd_is_counted(path: Path) -> None:
    batch = read_kube_state(path, cluster="c", at=AT)
    assert {finding.code for finding in batch.findings} <= {"bad_line"}


def test_requests_of_a_pod_without_a_node_hold_nothing() -> None:
    batch = read_kube_state(PUBLIC / "k8s" / "ksm_nvidia_gpu_series.prom", cluster="c", at=AT)
    assert batch.records.is_empty()
    assert Facts(batch.facts)["scheduler_node"].select("node", "gpus").rows() == [("127.0.0.1", 4)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2.17_fractional_pod.yaml", ("runai-pa/frac-1-0-0", None, "0.5")),
        ("_2.9_mig_pod_1g-5gb.yaml", (None, "1g.5gb", "1")),
        ("__2.9_mig_pod_7g-5gb.yaml", (None, "7g.40gb", "1")),
    ],
)
def test_pods_with_parts_of_a_gpu(name: str, expected: tuple[str | None, str | None, str]) -> None:
    (row,) = read_kube_state(PUBLIC / "k8s" / "runai" / name, cluster="c", at=AT).records.rows(named=True)
    assert expected[0] in (None, row["workload"])
    assert (row["model"], row["gpus"]) == expected[1:]


def test_nodes_know_their_cards_under_mig_and_fractions() -> None:
    for name, gpus in (("_2.9_mig_node_3_instances.yaml", 1), ("_2.9_fraction_node_1_workload.yaml", 2)):
        batch = read_kube_state(PUBLIC / "k8s" / "runai" / name, cluster="c", at=AT)
        assert Facts(batch.facts)["scheduler_node"]["gpus"].to_list() == [gpus]


ANSWERS = sorted((PUBLIC / "prometheus_api").rglob("*.json"))


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.name)
def test_every_answer_of_prometheus_is_read_or_named_as_the_error_that_it_is(path: Path) -> None:
    told = json.loads(path.read_text())
    answers = httpx.MockTransport(lambda _: httpx.Response(200, content=path.read_bytes()))
    with PrometheusApi("http://prometheus", httpx.Client(transport=answers)) as api:
        if "result" not in told.get("data", {}):  # an error, and answers to other questions
            with pytest.raises(SourceError, match="answered /api/v1/query with"):
                api.query("x", AT)
            return
        series = api.query("x", AT)
    assert [one["metric"] for one in series] == [one["metric"] for one in told["data"]["result"]]


@pytest.mark.parametrize(
    "path", sorted((PUBLIC / "xid").iterdir()) if PUBLIC.is_dir() else [], ids=lambda path: path.name
)
def test_every_log_is_read_and_each_xid_in_it_told(path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines()
    found = [told for line in lines if (told := parse_xid(line)) is not None]
    assert len(found) == sum("NVRM: Xid (" in line for line in lines)
