"""Public captures of real exporters and schedulers, replayed; each was looked at by hand.

They stand beside the checkout and are no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from pipelines.operations import replay
from tests.end_to_end.commands import findings

PUBLIC: Final = Path(__file__).resolve().parents[3] / "shared" / "data"
SONAR: Final = PUBLIC / "slurm" / "sonar" / "tests__testdata__sacct_output.txt"
SONAR_FIELDS: Final = (
    "JobID,JobIDRaw,User,Account,State,Start,End,AveCPU,AveDiskRead,AveDiskWrite,AveRSS,AveVMSize,ElapsedRaw,ExitCode,"
    "Layout,MaxRSS,MaxVMSize,MinCPU,ReqCPUS,ReqMem,ReqNodes,Reservation,Submit,Suspended,SystemCPU,TimelimitRaw,"
    "UserCPU,NodeList,Partition,AllocTRES,Priority,JobName"
)
CONFIG: Final = """\
currency: USD
timezone: Europe/Oslo
sources:
{sources}
tenants:
  - {{id: dynamo, match: [{{namespace: "dynamo-*"}}]}}
  - {{id: university, match: [{{slurm_account: "*"}}]}}
rates:
  - {{model: "*", on_demand: "60.00"}}
"""

pytestmark = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public captures are not beside the checkout")


def report_of(folder: Path, *sources: str) -> dict[str, Any]:
    lines = "\n".join(f"  - {{{source}}}" for source in sources)
    (folder / "gpuledger.yaml").write_text(CONFIG.format(sources=lines))
    return replay(folder).model_dump(mode="json", by_alias=True)


def scrape(path: Path, at: str = "2026-10-05T12:00:00Z") -> str:
    return f'metrics: "{path}", cluster: lab, at: {at}'


@dataclass(frozen=True)
class Seen:
    """What is in a capture, counted by hand. One scrape stands for a minute; a card-minute costs 1.00.

    Attributes:
        stranded: sevenths and eighths of a card that the layout of its MIG instances leaves over, in card-minutes.
        watts: power of all cards without an energy counter; where one has a counter, energy is not known from a
            single reading.
    """

    cards: int = 1
    stranded: float = 0
    held: int = 0
    watts: float | None = None
    found: dict[str, int] = field(default_factory=dict)


H100_WATTS: Final = 113.611 + 68.347 + 65.709 + 67.316 + 68.717 + 65.742 + 67.328 + 66.997
SEEN: Final = {
    # Eight H100, of which one carries a pod; it draws 114 W at 0 % and the others 66 to 69 W.
    "aicr_h100_eks.prom": Seen(cards=8, held=1, watts=H100_WATTS),
    # A T4 at 91 % without an owner. Cards without a memory thermometer say 0 °C: no temperature of a powered card.
    "ericsson-ccd_v1.35.prom": Seen(found={"invalid_sample": 1}),
    "rafay_v1.35.prom": Seen(found={"invalid_sample": 1}),
    # The same 23 series twice in one document.
    "kops_v1.35.prom": Seen(found={"invalid_sample": 1, "duplicate_sample": 23}),
    # Two documents in one: a card with a blank temperature, and an A100 with one 1g.5gb: 6/7 of it is left over.
    # Its own GR_ENGINE_ACTIVE is not added to its instance's.
    "nvidia_docs_a100_mig.prom": Seen(cards=2, stranded=6 / 7, found={"invalid_sample": 1}),
    # Three series three times, the second time with owner labels that are empty; one of them is blank.
    "readme_blank_sentinel.prom": Seen(found={"invalid_sample": 1, "duplicate_sample": 6}),
    # The same twice, and TEST_METRIC, which nobody knows.
    "upstream_test_rendered.prom": Seen(found={"invalid_sample": 1, "duplicate_sample": 3}),
    # The first line of each .ini is a title.
    # 2g.10gb and three 1g.5gb: 2/7 + 3/7 (in eighths of its memory 2/8 + 3/8, which is less).
    "4_Active_Workloads.ini": Seen(stranded=2 / 7, found={"bad_line": 1}),
    "Active_1g.5gb.ini": Seen(stranded=6 / 7, found={"bad_line": 1}),
    "Idle_1g.5gb_allocated.ini": Seen(stranded=6 / 7, found={"bad_line": 1}),
    # MIG mode without an instance: idle, nothing is stranded.
    "Emtpy_MIG_enabled.ini": Seen(found={"bad_line": 1}),
    # Two scrapes of one card with rules between them: three lines are no metric, 23 series are there twice.
    "Empty_mig_disabled.ini": Seen(found={"bad_line": 3, "duplicate_sample": 23}),
    # Two H200; the first has 3g.71gb (3/7 of its compute, half of its memory) and 1g.18gb (1/7): 5/14 is left over.
    "demo__seeded.metrics": Seen(cards=2, stranded=5 / 14),
    "linux-x86_64__nvidia-geforce-rtx-2080-super__595.71.05__idle.metrics": Seen(watts=39.32),
    "linux-x86_64__nvidia-geforce-rtx-2080-super__595.71.05__load.metrics": Seen(watts=111.5),
    "linux-x86_64__nvidia-geforce-rtx-2080-super__610.57.04__idle.metrics": Seen(watts=39.17),
    "linux-x86_64__nvidia-geforce-rtx-2080-super__610.57.04__load.metrics": Seen(watts=98.14),
    "linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05__idle.metrics": Seen(watts=26.2),
    "linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05__load.metrics": Seen(watts=84.24),
    "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__idle.metrics": Seen(watts=69.85),
    "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load.metrics": Seen(watts=631.95),
    "linux-x86_64__nvidia-h100-mig__590.48.01__idle.metrics": Seen(watts=71.15),
    "linux-x86_64__nvidia-h100-mig__590.48.01__load.metrics": Seen(watts=433.78),
    "linux-x86_64__nvidia-h200__590.48.01__idle.metrics": Seen(watts=77.71),
    "linux-x86_64__nvidia-h200__590.48.01__load.metrics": Seen(watts=627.4),
}


def captures() -> list[Path]:
    return [
        path
        for exporter in ("dcgm_exporter", "nvidia_gpu_exporter")
        for path in sorted((PUBLIC / exporter).rglob("*"))
        if path.suffix in {".prom", ".ini", ".metrics"}
    ]


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.name)
def test_a_capture_reports_what_is_in_it(tmp_path: Path, path: Path) -> None:
    seen = SEEN[path.name]
    report = report_of(tmp_path, scrape(path))
    fleet = report["fleet"]
    assert fleet["devices"] == seen.cards
    for column, cards in {
        "capacity": seen.cards,
        "allocated": seen.held,
        "stranded": seen.stranded,
        "idle": seen.cards - seen.held - seen.stranded,
        "down": 0,
        "unobserved": 0,
    }.items():
        assert fleet[f"{column}_gpu_hours"] * 60 == pytest.approx(cards, abs=1e-4)
    assert fleet["energy_kwh"] == (None if seen.watts is None else pytest.approx(seen.watts / 60_000, abs=1e-6))
    assert fleet["cost"] == f"{seen.cards}.00"
    assert fleet["billed"] == f"{seen.held}.00"
    assert findings(report) == seen.found


def test_every_capture_was_looked_at() -> None:
    assert {path.name for path in captures()} == set(SEEN)


def test_the_one_pod_of_a_capture_is_its_tenants(tmp_path: Path) -> None:
    report = report_of(tmp_path, scrape(PUBLIC / "dcgm_exporter" / "aicr_h100_eks.prom"))
    (dynamo,) = report["tenants"]
    (workload,) = dynamo["workloads"]
    assert workload["workload"] == "dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5"
    # It holds its card and does nothing with it: known, and not the same as not known.
    assert (workload["utilization"], workload["coverage"], dynamo["waste"]) == (0.0, 1.0, "1.00")


def test_the_energy_on_every_instance_is_the_boards_once(tmp_path: Path) -> None:
    capture = PUBLIC / "dcgm_exporter" / "runai_mig_a100" / "4_Active_Workloads.ini"
    later = tmp_path / "later.ini"
    later.write_text(capture.read_text().replace(" 6890956", f" {6890956 + 3_600_000}"))
    report = report_of(tmp_path, scrape(capture), scrape(later, "2026-10-05T12:01:00Z"))
    # 3,600,000 mJ are 3.6 kJ, which is 1 Wh: once, and not on each of four series.
    assert report["fleet"]["energy_kwh"] == pytest.approx(0.001)


def test_an_academic_clusters_accounting(tmp_path: Path) -> None:
    report = report_of(tmp_path, f'sacct: "{SONAR}", cluster: fox, fields: [{SONAR_FIELDS}]')
    # Counted again from the text, apart from the reader: rows without a step whose AllocTRES names GPUs.
    names = SONAR_FIELDS.split(",")
    rows = [dict(zip(names, line.split("|"), strict=False)) for line in SONAR.read_text().splitlines()]
    jobs = [row for row in rows if "." not in row["JobID"]]
    assert len(jobs) == 122
    hours = {}
    for job in jobs:
        tres = dict(entry.split("=") for entry in job["AllocTRES"].split(",") if "=" in entry)
        if "gres/gpu" in tres:
            hours[job["JobID"]] = int(tres["gres/gpu"]) * int(job["ElapsedRaw"]) / 3600
    (university,) = report["tenants"]
    reported = {workload["workload"]: workload["gpu_hours"] for workload in university["workloads"]}
    assert reported == {job: pytest.approx(held, abs=1e-6) for job, held in hours.items()}
    assert len(reported) == 65
    assert university["gpu_hours"]["allocated"] == pytest.approx(933.3425)
    assert findings(report) == {}
    # Nothing measured them: how well they were used is not known, which is not 0.
    assert (university["utilization"], university["coverage"]) == (None, 0.0)
