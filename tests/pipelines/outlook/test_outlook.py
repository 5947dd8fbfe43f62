"""The outlook of a ledger: budgets, unit costs, entitlements and fairness by hand; in the report, and per tenant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pipelines.book.closing import close
from pipelines.book.statements import statement
from pipelines.config import Config, load
from pipelines.operations import report, run_once
from pipelines.outlook.model import Outlook
from pipelines.outlook.tables import TABLES
from pipelines.publish import FOLDER, current
from tests.pipelines.book.conftest import HEAD

CONFIG = """\
currency: USD
timezone: UTC
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants:
  - {id: astro, quota: {gpus: 4}, budget: {monthly: "500.00", gpu_hours: "100"}}
  - {id: bio, quota: {gpus: 2}}
rates:
  - {model: "*H100*", on_demand: "2.00", reserved: "1.00"}
reservations:
  - {id: r1, tenant: bio, model: "*H100*", gpus: 1, from: 2026-11-01, to: 2026-12-01}
closing: {formats: []}
"""


def rows() -> Iterator[str]:
    yield "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,1,,H100,astro,old,\n"
    for day in range(1, 11):
        yield f"2026-11-{day:02d}T00:00:00Z,2026-11-{day:02d}T10:00:00Z,1,,H100,astro,day{day},\n"
    yield "2026-11-03T00:00:00Z,2026-11-03T20:00:00Z,1,,H100,bio,held,\n"
    yield "2026-11-10T23:00:00Z,2026-11-11T00:00:00Z,2,,H100,astro,edge,\n"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("outlook")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    (folder / "allocations.csv").write_text(HEAD + "".join(rows()))
    (folder / "inventory.csv").write_text(
        "node,device,model,gpus,slots,owner,from,to\nn1,,H100,8,,,2026-10-01,2026-12-01\n"
    )
    loaded = load(folder / "gpuledger.yaml")
    run_once(loaded)
    return loaded


@pytest.fixture(scope="module")
def outlook(config: Config) -> Outlook:
    found = report(config, period="2026-11").outlook
    assert found is not None
    return found


def test_it_looks_from_where_the_data_goes(outlook: Outlook) -> None:
    assert outlook.reached.isoformat() == "2026-11-11T00:00:00+00:00"


def test_a_budget_burns_at_its_run_rate(outlook: Outlook) -> None:
    money, hours = sorted(outlook.budgets, key=lambda b: b.kind, reverse=True)
    assert (money.budget, money.spent, money.spent_ratio) == ("500.00", "204.00", 0.408)
    assert money.elapsed_ratio == round(10 / 30, 6)
    # 10.2 GPU-hours a day: 612.00 by the end, and 296.00 of 20.40 a day last 14.5 days
    assert str(money.exhausted_on) == "2026-11-25"
    assert (hours.budget, hours.spent) == ("100.000000", "102.000000")
    assert str(hours.exhausted_on) == "2026-11-11"


def test_the_month_is_projected_with_an_interval(outlook: Outlook) -> None:
    own = {(p.kind, p.method): p for p in outlook.projections if p.tenant == "astro"}
    money = own["money", "run_rate"]
    assert money.expected == "612.00"
    assert float(money.low) < 612.0 < float(money.high)
    assert own["money", "seasonal"].days >= 21
    bio = next(p for p in outlook.projections if p.tenant == "bio" and p.kind == "money" and p.method == "run_rate")
    assert bio.expected == "720.00"  # its reservation's fee, used or not


def test_a_gpu_hour_costs_what_is_billed_by_what_was_held(outlook: Outlook) -> None:
    costs = {c.tenant: c for c in outlook.unit_costs}
    assert costs["astro"].allocated == "2.00"
    assert costs["bio"].allocated == "36.00"  # 720.00 for 20 hours
    assert costs["astro"].active is None  # never observed
    assert None in costs


def test_quotas_and_reservations_say_how_much_of_them_is_used(outlook: Outlook) -> None:
    uses = {(u.tenant, u.kind): u for u in outlook.entitlements}
    quota = uses["astro", "quota"]
    assert (quota.gpus, quota.peak_gpus, quota.mean_gpus) == (4, 2.0, round(102 / 240, 6))
    reservation = uses["bio", "reservation"]
    assert (reservation.name, reservation.peak_gpus, reservation.utilization) == ("r1", 1.0, round(20 / 240, 6))


def test_fairness_is_jains_index_of_hours_per_entitled_gpu(outlook: Outlook) -> None:
    x, y = 102 / 4, 20 / 2
    assert outlook.fairness == round((x + y) ** 2 / (2 * (x * x + y * y)), 6)


def test_a_tenant_gets_its_own_and_nothing_of_the_fleet(config: Config) -> None:
    own = report(config, period="2026-11", tenant="bio").outlook
    assert own is not None
    everything = [*own.budgets, *own.projections, *own.anomalies, *own.unit_costs, *own.entitlements]
    assert {row.tenant for row in everything} == {"bio"}
    assert own.fairness is None
    publication = current(config.ledger)
    assert publication is not None
    path: Path = config.ledger / FOLDER / publication.tenants["bio"]
    with duckdb.connect(str(path), read_only=True) as connection:
        names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert set(TABLES) <= names
        assert "fairness" not in names
        for table in TABLES:
            tenants = connection.execute(f"SELECT DISTINCT tenant FROM {table}").fetchall()
            assert tenants in ([("bio",)], [])


def test_a_day_or_a_year_has_none(config: Config) -> None:
    assert report(config, period="2026-11-03").outlook is None
    assert report(config, period="2026").outlook is None


def test_a_closed_month_is_as_it_was_closed_and_looks_nowhere(config: Config) -> None:
    from datetime import UTC, datetime

    close(config, "2026-10", now=datetime(2026, 12, 1, tzinfo=UTC), by="ada")
    assert json.loads(report(config, period="2026-10").to_json())["outlook"] is None


def test_a_draft_statement_has_the_tenants_own_part_and_a_month_without_one_has_none(
    config: Config, outlook: Outlook
) -> None:
    draft = json.loads(statement(config, "astro", "2026-11").rendered("json"))
    assert draft["outlook"] == json.loads(outlook.of("astro").model_dump_json())
    assert [b["budget"] for b in draft["outlook"]["budgets"] if b["kind"] == "money"] == ["500.00"]
    assert "bio" not in json.dumps(draft["outlook"])
    assert statement(config, "astro", "2026-11-03").statement.outlook is None
