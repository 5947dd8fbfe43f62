"""What training loops say of themselves: read, summed per hour, paid for, and believed about waiting."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
import polars as pl
import pytest

from exporter.training_metrics import TRAINING_METRICS
from gpuledger.training import StepMeter
from pipelines.analysis.measured import overruled
from pipelines.analysis.tables import WINDOW, Analysis
from pipelines.config import Source
from pipelines.facts import TRAINING
from pipelines.instants import HOUR_MS
from pipelines.sources.exposition import read_exposition
from pipelines.sources.prometheus import read_prometheus
from pipelines.tables import RECORD
from pipelines.training import PROGRESS, progress, progress_of
from tests.pipelines.sources.prometheus_double import URL, Server, matrix

HOUR = 1_772_442_000_000  # 2026-03-02T09:00:00Z
NO_RECORDS = pl.DataFrame(schema=RECORD)


def line(key: str, value: float, minute: float, *, rank: int = 0, job: str = "77", **labels: str) -> str:
    (metric,) = [m for m in TRAINING_METRICS if m.key == key]
    named = {"hpc_job": job, "rank": str(rank), "run": "bert", **labels}
    text = ",".join(f'{k}="{v}"' for k, v in named.items() if v)
    return f"{metric.name}{{{text}}} {value} {HOUR + round(minute * 60_000)}"


def scraped(minute: float, steps: float, *, start: float = 0, rank: int = 0, **totals: float) -> list[str]:
    began = (HOUR + start * 60_000) / 1000
    values = {"start_time_seconds": began, "steps": steps, **totals}
    return [line(key, value, minute, rank=rank) for key, value in values.items()]


def read(lines: list[str], folder: Path) -> pl.DataFrame:
    path = folder / "training.prom"
    path.write_text("\n".join(lines) + "\n")
    batch = read_exposition(path, cluster="hpc")
    assert batch.samples.is_empty()
    return batch.facts.get("training", pl.DataFrame(schema=TRAINING))


def test_each_rank_has_its_last_totals_of_each_hour(tmp_path: Path) -> None:
    rows = read([*scraped(5, 10), *scraped(55, 110), *scraped(65, 130), *scraped(55, 100, rank=1)], tmp_path)
    assert rows.select("labelled_as", "rank", "steps").rows() == [("77", "0", 110), ("77", "0", 130), ("77", "1", 100)]
    assert rows["start"].unique().to_list() == [datetime(2026, 3, 2, 9, tzinfo=UTC)]


def test_counts_are_of_their_hour_and_begin_anew_with_the_process(tmp_path: Path) -> None:
    lines = [*scraped(55, 110, start=1), *scraped(110, 200, start=1), *scraped(119, 30, start=112)]
    rows = progress(read(lines, tmp_path), NO_RECORDS)
    assert rows.schema == pl.Schema(PROGRESS)
    assert rows.sort("hour", "first").select("hour", "steps").rows() == [
        (HOUR, 110), (HOUR + HOUR_MS, 90), (HOUR + HOUR_MS, 30),
    ]  # fmt: skip


def test_a_counter_that_starts_again_without_a_start_time_counts_its_new_value(tmp_path: Path) -> None:
    rows = progress(read([line("steps", 100, 30), line("steps", 40, 90)], tmp_path), NO_RECORDS)
    assert rows["steps"].to_list() == [100, 40]


def test_two_imports_of_one_hour_count_once(tmp_path: Path) -> None:
    first, second = read(scraped(20, 50), tmp_path), read(scraped(50, 110), tmp_path)
    assert progress(pl.concat([first, second]), NO_RECORDS)["steps"].to_list() == [110]
    assert progress(pl.concat([second, first, second]), NO_RECORDS)["steps"].to_list() == [110]


def test_jobs_have_the_name_that_accounting_gives_them(tmp_path: Path) -> None:
    record = {"kind": "slurm", "cluster": "hpc", "workload": "12_3", "labelled_as": "77"}
    records = pl.concat([NO_RECORDS, pl.DataFrame([record])], how="diagonal")
    assert progress(read(scraped(5, 1), tmp_path), records)["workload"].to_list() == ["12_3"]


def test_pods_and_scraped_labels_name_the_workload(tmp_path: Path) -> None:
    ours = line("steps", 5, 1, job="", namespace="monitoring", pod="p", exported_namespace="nlp", exported_pod="t-0")
    assert read([ours], tmp_path)["labelled_as"].to_list() == ["nlp/t-0"]
    path = tmp_path / "nobody.prom"
    path.write_text(line("steps", 5, 1, job="") + "\n")
    batch = read_exposition(path, cluster="hpc")
    assert batch.facts == {}
    assert [f.code for f in batch.findings] == ["bad_line"]


def test_device_samples_beside_them_are_read_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "both.prom"
    gpu = [f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-1",Hostname="n1"}} {v} {HOUR + v * 1000}' for v in (10, 20)]
    path.write_text("\n".join([gpu[0], *scraped(1, 7), gpu[1]]) + "\n")
    batch = read_exposition(path, cluster="hpc")
    assert batch.samples["gpu_util_ratio"].to_list() == [0.1, 0.2]
    assert batch.facts["training"]["steps"].to_list() == [7]


def test_a_prometheus_that_scrapes_them_is_read() -> None:
    hour = HOUR / 1000
    labels = {"exported_namespace": "nlp", "exported_pod": "t-0", "rank": "1", "run": "bert", "job": "trainings"}
    totals = {
        "gpuledger_training_steps_total": [(hour + 60, "10"), (hour + 1800, "50"), (hour + 3660, "90")],
        "gpuledger_training_start_time_seconds": [(hour + t, str(hour)) for t in (60, 1800, 3660)],
    }
    gpu = ({"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-a"}, [(hour + 60, "40")])

    def query(request: httpx.Request) -> httpx.Response:
        name = request.url.params["query"].partition("[")[0]
        return matrix((labels, totals[name])) if name in totals else matrix(gpu)

    server = Server([*totals, "DCGM_FI_DEV_GPU_UTIL", "up"], query=query)
    window = (datetime(2026, 3, 2, 9, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    batch = read_prometheus(Source(prometheus=URL, cluster="hpc"), window, api=server.api())
    assert batch.samples["gpu_util_ratio"].to_list() == [0.4]
    assert batch.facts["training"].select("labelled_as", "rank", "steps").rows() == [
        ("nlp/t-0", "1", 50), ("nlp/t-0", "1", 90),
    ]  # fmt: skip
    assert progress(batch.facts["training"], NO_RECORDS)["steps"].to_list() == [50, 40]


def test_the_meters_own_textfile_is_read(tmp_path: Path) -> None:
    meter = StepMeter("bert", environ={"SLURM_JOB_ID": "77", "RANK": "2"}, export=f"textfile:{tmp_path}")
    for batch in meter.batches(range(3)):
        with meter.step(samples=batch, tokens=10):
            pass
    meter.close()
    (path,) = tmp_path.glob("*.prom")
    rows = read_exposition(path, cluster="hpc", at=datetime(2026, 3, 2, 9, 30, tzinfo=UTC)).facts["training"]
    assert rows.select("labelled_as", "run", "rank", "steps", "samples", "tokens", "epochs").row(0) == (
        "77", "bert", "2", 3, 3, 30, 1,
    )  # fmt: skip
    assert rows["communication_seconds"].to_list() == [None]


def test_steps_are_the_jobs_and_tokens_are_summed_over_ranks(tmp_path: Path) -> None:
    lines = [
        *scraped(30, 100, tokens=2e6, epochs=1, step_seconds=80, data_wait_seconds=20),
        *scraped(30, 100, rank=1, tokens=2e6, epochs=1, step_seconds=90, data_wait_seconds=10),
    ]
    found = progress_of(progress(read(lines, tmp_path), NO_RECORDS), "hpc", "77")
    assert found is not None
    assert (found.ranks, found.steps, found.tokens, found.epochs) == (2, 100, 4e6, 1)
    assert found.waits == pytest.approx(0.15)
    assert found.communicates is None
    assert found.costs(Decimal("8.00")) == {
        "step": Decimal("0.08"), "million_tokens": Decimal(2), "thousand_samples": None, "epoch": Decimal(8),
    }  # fmt: skip
    assert progress_of(pl.DataFrame(schema=PROGRESS), "hpc", "77") is None


def test_a_slow_rank_is_named_where_the_others_agree(tmp_path: Path) -> None:
    lines = [row for rank in range(4) for row in scraped(30, 100, rank=rank, step_seconds=130 if rank == 2 else 100)]
    found = progress_of(progress(read(lines, tmp_path), NO_RECORDS), "hpc", "77")
    assert found is not None
    assert found.slowest_rank == "2"


def windows(**hours: str) -> pl.DataFrame:
    rows = [
        {
            "cluster": "hpc",
            "workload": "77",
            "hour": HOUR + n * HOUR_MS,
            "cause": cause,
            "confidence": 0.7,
            "evidence": "[]",
        }
        for n, cause in enumerate(hours.values())
    ]
    return pl.DataFrame(rows, schema_overrides=WINDOW).pipe(
        lambda t: pl.concat([pl.DataFrame(schema=WINDOW), t], how="diagonal")
    )


@pytest.mark.parametrize(
    ("inferred", "wait", "cause"),
    [
        ("compute", 0.5, "input"),
        ("unknown", 0.11, "input"),
        ("input", 0.3, "input"),
        ("input", 0.01, "unknown"),
        ("input", 0.07, "input"),
        ("compute", 0.01, "compute"),
        ("idle", 0.9, "idle"),
    ],
)
def test_a_measured_wait_overrules_an_inferred_cause(inferred: str, wait: float, cause: str, tmp_path: Path) -> None:
    told = progress(
        read(scraped(30, 100, step_seconds=100 * (1 - wait), data_wait_seconds=100 * wait), tmp_path), NO_RECORDS
    )
    analysis = Analysis(windows(first=inferred, second=inferred))
    once = overruled(analysis, told)
    assert once.windows["cause"].to_list() == [cause, inferred]  # the second hour wasn't measured
    assert overruled(once, told).windows.equals(once.windows)
    if cause != inferred:
        assert "measured_data_wait" in once.windows["evidence"][0]


def test_without_measurements_nothing_is_overruled() -> None:
    analysis = Analysis(windows(first="input"))
    assert overruled(analysis, pl.DataFrame(schema=PROGRESS)) is analysis
