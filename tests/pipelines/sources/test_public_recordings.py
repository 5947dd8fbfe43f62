"""Recordings of real exporters and schedulers; they stand beside the checkout and are no part of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from pipelines.sources.exposition import read_exposition
from pipelines.sources.sacct import read_sacct
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
