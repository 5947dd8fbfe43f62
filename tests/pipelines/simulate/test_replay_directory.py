"""What `simulate` writes: the same bytes for the same arguments, in the formats that sources read."""

from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporter.catalog import BY_KEY
from pipelines.config import load
from pipelines.simulate import simulate
from pipelines.simulate.write import SACCT_FIELDS
from pipelines.tables import SAMPLE_LABELS

FILES = {"allocations.csv", "gpuledger.yaml", "inventory.csv", "sacct.txt", "samples.parquet", "truth.json"}
START = date(2026, 11, 1)


def small(out: Path, **changed: Any) -> Path:
    simulate(out, **({"gpus": 8, "days": 1, "seed": 1, "start": START, "interval_s": 300} | changed))
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_same_arguments_write_the_same_bytes(tmp_path: Path) -> None:
    first, second = contents(small(tmp_path / "a")), contents(small(tmp_path / "b"))
    assert first.keys() == FILES
    assert first == second


def test_another_seed_is_another_fleet(tmp_path: Path) -> None:
    first, second = contents(small(tmp_path / "a")), contents(small(tmp_path / "b", seed=2))
    assert all(first[name] != second[name] for name in ("samples.parquet", "truth.json", "inventory.csv"))


def test_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    small(tmp_path / "a", seed=2)
    assert contents(small(tmp_path / "a")) == contents(small(tmp_path / "b"))


@pytest.mark.parametrize("gpus", [1, 2, 5, 9, 66])
def test_a_fleet_may_have_any_number_of_gpus(tmp_path: Path, gpus: int) -> None:
    small(tmp_path, gpus=gpus)
    told = json.loads((tmp_path / "truth.json").read_text())
    assert told["fleet"]["devices"] == gpus
    assert told["fleet"]["capacity_gpu_hours"] == 25 * gpus  # the day on which the clock is set back
    assert pl.scan_parquet(tmp_path / "samples.parquet").select(pl.col("device").n_unique()).collect().item() == gpus


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"gpus": 0}, "gpus: 0"),
        ({"days": 0}, "days: 0"),
        ({"interval_s": 7}, "interval: 7"),
        ({"interval_s": 600}, "600"),
    ],
)
def test_arguments_that_make_no_fleet_are_named(tmp_path: Path, changed: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        small(tmp_path / "out", **changed)
    assert not (tmp_path / "out").exists()


def test_progress_counts_the_days(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    small(tmp_path, days=2, progress=lambda done, of: calls.append((done, of)))
    assert calls == [(day, 3) for day in (1, 2, 3)]  # two local days and a margin


def test_the_configuration_is_valid_and_names_every_source(fleet: Path) -> None:
    config = load(fleet / "gpuledger.yaml")
    assert [source.kind for source in config.sources] == ["samples", "sacct", "allocations", "inventory"]
    assert config.idle.policy == "proportional"
    assert config.sla.credit_downtime
    assert all(isinstance(rate.on_demand, Decimal) for rate in config.rates)
    assert {r.tenant for r in config.reservations} <= {t.id for t in config.tenants}


@pytest.mark.parametrize(
    ("start", "days", "billed"),
    [
        (date(2026, 11, 1), 30, ("2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z")),
        (date(2026, 10, 30), 33, ("2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z")),
        (date(2026, 11, 2), 29, ("2026-11-02T05:00:00Z", "2026-12-01T05:00:00Z")),
    ],
)
def test_a_whole_local_month_is_the_period_where_there_is_one(
    tmp_path: Path, start: date, days: int, billed: tuple[str, str]
) -> None:
    small(tmp_path, gpus=1, start=start, days=days)
    period = json.loads((tmp_path / "truth.json").read_text())["period"]
    assert (period["from"], period["to"]) == billed
    assert ("period: 2026-11" in (tmp_path / "gpuledger.yaml").read_text()) == (days >= 30)


def test_samples_are_the_wide_table_with_catalogue_columns(samples: pl.DataFrame) -> None:
    labels = {name: dtype for name, dtype in samples.schema.items() if name in SAMPLE_LABELS}
    assert labels == SAMPLE_LABELS
    metrics = [name for name in samples.columns if name not in SAMPLE_LABELS]
    assert set(metrics) <= BY_KEY.keys()
    assert all(samples.schema[name] == pl.Float64 for name in metrics)


def test_no_two_rows_are_of_one_series_at_one_time(samples: pl.DataFrame) -> None:
    assert samples.select(list(SAMPLE_LABELS)).is_unique().all()
    assert samples.select("time", "device", "instance", "slice").is_unique().all()


def test_samples_begin_before_the_period_and_end_after_it(samples: pl.DataFrame, told: dict[str, Any]) -> None:
    begin, end = (pl.Series([told["period"][key]]).str.to_datetime(time_zone="UTC")[0] for key in ("from", "to"))
    assert samples["time"].min() < begin
    assert samples["time"].max() > end


def test_accounting_has_one_row_for_each_run_and_its_step(fleet: Path) -> None:
    with (fleet / "sacct.txt").open() as file:
        rows = list(csv.DictReader(file, delimiter="|"))
    assert tuple(rows[0]) == SACCT_FIELDS
    jobs = [row for row in rows if "." not in row["JobID"]]
    steps = [row for row in rows if row["JobID"].endswith(".batch")]
    assert {row["JobID"].split(".")[0] for row in steps} == {
        row["JobID"] for row in jobs if "gres/gpu" in row["AllocTRES"]
    }
    assert any("gres/gpu" not in row["AllocTRES"] for row in jobs)
