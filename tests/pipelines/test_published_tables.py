"""The tables that readers aggregate say what the reports say."""

from __future__ import annotations

import csv
from typing import Final

import polars as pl
import pytest

from pipelines.config import Config, load
from pipelines.operations import report, run_once
from pipelines.publish import CHARGE, current, published_fleet
from pipelines.published_tables import fleet_tables, tenant_tables
from pipelines.store import opened

CONFIG: Final = """\
currency: USD
timezone: America/New_York
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants:
  - {id: vision}
  - {id: language}
rates:
  - {model: "H100", to: 2026-11-02, on_demand: "2.50"}
  - {model: "H100", from: 2026-11-02, on_demand: "3.00", reserved: "2.00"}
reservations:
  - {id: r1, tenant: vision, model: "H100", gpus: 1, from: 2026-11-01, to: 2026-11-03}
overheads:
  - {name: storage, monthly: "100.00"}
"""
ALLOCATIONS: Final = [
    ("2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z", "", "GPU-1", "", "vision", "train", ""),
    ("2026-11-01T01:00:00Z", "2026-11-01T23:00:00Z", "", "GPU-2", "", "language", "tune", ""),
    ("2026-11-02T01:00:00Z", "2026-11-02T02:00:00Z", "", "GPU-2", "", "", "stray", ""),
    ("2026-11-02T03:00:00Z", "2026-11-02T04:00:00Z", "", "GPU-2", "", "", "repair", "down"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    with (folder / "allocations.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["start", "end", "gpus", "device", "model", "tenant", "workload", "class"])
        rows.writerows(ALLOCATIONS)
    days = "2026-10-31T04:00:00Z,2026-11-03T05:00:00Z"
    (folder / "inventory.csv").write_text(
        f"node,device,model,gpus,slots,owner,from,to\nn1,GPU-1,H100,,,,{days}\nn1,GPU-2,H100,,,,{days}\n"
    )
    loaded = load(folder / "gpuledger.yaml")
    run_once(loaded)
    return loaded


@pytest.fixture(scope="module")
def tables(config: Config) -> dict[str, pl.DataFrame]:
    publication = current(config.ledger)
    assert publication is not None
    metered, _ = published_fleet(config.ledger)
    months = ("2026-10", "2026-11")
    with opened(config.ledger / "published" / publication.fleet, read_only=True) as connection:
        charges = connection.sql("FROM charge").pl().cast(CHARGE)  # type: ignore[arg-type]  polars' stubs lack instances
    return fleet_tables(metered, {m: report(config, period=m) for m in months}, charges, config)


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
def test_device_time_by_state_is_the_report_s(tables: dict[str, pl.DataFrame], config: Config, month: str) -> None:
    fleet = report(config, period=month).fleet
    rows = tables["device_day"].filter(pl.col("period") == month)
    by_state = dict(rows.group_by("state").agg(pl.col("gpu_hours").sum()).iter_rows())
    for state in ("allocated", "idle", "down", "unobserved"):
        assert by_state.get(state, 0.0) == pytest.approx(getattr(fleet, f"{state}_gpu_hours")), state


def test_device_time_is_cut_at_local_midnight(tables: dict[str, pl.DataFrame]) -> None:
    train = tables["device_day"].filter((pl.col("tenant") == "vision") & (pl.col("device") == "GPU-1"))
    hours = {str(day): round(h, 9) for day, h in train.group_by("day").agg(pl.col("gpu_hours").sum()).iter_rows()}
    assert hours == {"2026-10-31": 16.0, "2026-11-01": 25.0, "2026-11-02": 7.0}


def test_on_demand_weights_follow_the_rate_card(tables: dict[str, pl.DataFrame]) -> None:
    prices = tables["device_day"].select("day", price=(pl.col("on_demand_weight") / pl.col("gpu_hours")).round(9))
    assert {(str(day), price) for day, price in prices.iter_rows()} == {
        ("2026-10-31", 2.5),
        ("2026-11-01", 2.5),
        ("2026-11-02", 3.0),
    }


def test_charges_by_day_add_up_to_the_usage_lines(tables: dict[str, pl.DataFrame], config: Config) -> None:
    found = {t.tenant: float(t.charges.usage) for t in report(config, period="2026-11").tenants}
    rows = tables["charge_day"].filter((pl.col("period") == "2026-11") & (pl.col("class") != "reserved"))
    sums = dict(rows.group_by("tenant").agg(pl.col("charge_weight").sum()).iter_rows())
    assert sums["language"] == pytest.approx(found["language"])
    assert sums.get("vision", 0.0) == pytest.approx(found["vision"])


def test_a_tenant_s_tables_hold_its_own_rows_only(tables: dict[str, pl.DataFrame]) -> None:
    own = tenant_tables("language", tables)
    assert "fleet_period" not in own
    for name, rows in own.items():
        if "tenant" in rows.columns:
            assert set(rows["tenant"]) <= {"language"}, name
    assert own["lease_period"]["period"].to_list() == ["2026-10", "2026-11"]
    assert own["reservation"].height == 0
