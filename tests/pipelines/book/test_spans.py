"""A span over closed months is what its months said, whatever is known or configured since."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from exporter.errors import UsageError
from pipelines.book.cheapest import cheapest
from pipelines.book.closing import close
from pipelines.book.explaining import explain
from pipelines.book.focus.export import export
from pipelines.book.statements import statement
from pipelines.book.whatif import whatif
from pipelines.config import Config, load
from pipelines.operations import published_period, run_once
from pipelines.report import Report

CONFIG = """\
currency: USD
timezone: UTC
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants: [{id: a}, {id: b%s}]
rates: [{model: "*", on_demand: "2.00"}%s]
%s
closing: {formats: []}
"""
HEAD = "start,end,gpus,device,model,tenant,workload,class\n"
ROWS = (
    "2026-10-01T00:00:00Z,2026-10-01T10:00:00Z,1,,H100,a,w,\n"  # 10 h in October
    "2026-10-20T00:00:00Z,2026-10-20T02:00:00Z,1,,H100,b,v,\n"
    "2026-11-03T00:00:00Z,2026-11-03T05:00:00Z,1,,H100,a,w,\n"  # 5 h in November
)
LATE = "2026-10-20T00:00:00Z,2026-10-20T06:00:00Z,1,,H100,a,late,\n"
DEARER = ', {model: "*", on_demand: "3.00", recorded: 2026-12-05}'
LATER = datetime(2027, 1, 15, tzinfo=UTC)
Ledger = Callable[..., Config]


def write(folder: Path, *late: str, prices: str = "", more: str = "", of_b: str = "") -> Config:
    (folder / "gpuledger.yaml").write_text(CONFIG % (of_b, prices, more))
    (folder / "allocations.csv").write_text(HEAD + ROWS + "".join(late))
    (folder / "inventory.csv").write_text(
        "node,device,model,gpus,slots,owner,from,to\nn1,,H100,4,,,2026-10-01,2026-12-05\n"
    )
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return config


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return partial(write, tmp_path)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """October is closed with 10 h and 2 h at 2.00; then six hours of October come, and November is closed with them."""
    folder = tmp_path_factory.mktemp("books")
    close(write(folder), "2026-10", now=LATER, by="ada")
    close(write(folder, LATE), "2026-11", now=LATER, by="ada")
    return folder


@pytest.fixture
def closed(books: Path, tmp_path: Path) -> Ledger:
    shutil.copytree(books, tmp_path / "copy")
    return partial(write, tmp_path / "copy")


def report(config: Config, period: str) -> Report:
    return published_period(config, period=period).reckoned.report


def totals(config: Config, period: str) -> dict[str, str]:
    return {t.tenant: t.charges.total for t in report(config, period).tenants}


def test_a_year_is_the_sum_of_its_closed_months_whatever_prices_and_hours_came_later(closed: Ledger) -> None:
    config = closed(LATE, prices=DEARER)
    # 10 h × 2.00 in October; in November 5 h × 2.00 and the six late hours at October's 2.00.
    assert totals(config, "2026-10") == {"a": "20.00", "b": "4.00"}
    assert totals(config, "2026-11")["a"] == "22.00"
    assert totals(config, "2026") == {"a": "42.00", "b": "4.00"}
    (a, _) = report(config, "2026").tenants
    assert (a.charges.usage, a.charges.adjustment) == ("30.00", "12.00")
    assert a.gpu_hours.allocated == 15.0  # the late hours are money of November, not its hours
    assert [(w.workload, w.gpu_hours, w.cost) for w in a.workloads] == [("w", 15.0, "30.00")]


def test_a_year_keeps_what_is_open_by_todays_price(closed: Ledger) -> None:
    december = "2026-12-02T00:00:00Z,2026-12-02T01:00:00Z,1,,H100,a,x,\n"
    assert totals(closed(LATE, december, prices=DEARER), "2026")["a"] == "45.00"


def test_a_day_of_a_closed_month_is_rated_as_the_month_was_closed(closed: Ledger) -> None:
    config = closed(LATE, prices=DEARER)
    assert totals(config, "2026-10-01") == {"a": "20.00"}
    assert totals(config, "2026-10-20") == {"b": "4.00"}  # a's late hours are booked in November
    assert statement(config, "b", "2026-10-20").statement.total == "4.00"


def test_every_sum_of_a_year_is_that_of_its_months(closed: Ledger) -> None:
    storage = 'overheads: [{name: storage, monthly: "100.00", split: even}]\nidle: {policy: proportional}'
    config = closed(LATE, more=storage)
    months = [report(config, f"2026-{month:02d}") for month in range(1, 13)]
    year = report(config, "2026")
    for name in ("cost", "billed", "unbilled"):
        assert Decimal(getattr(year.fleet, name)) == sum(Decimal(getattr(m.fleet, name)) for m in months)
    assert year.fleet.capacity_gpu_hours == sum(m.fleet.capacity_gpu_hours for m in months)
    assert year.fleet.devices == 4
    for tenant in year.tenants:
        own = [t for m in months for t in m.tenants if t.tenant == tenant.tenant]
        for line, amount in tenant.charges:
            assert Decimal(amount) == sum(Decimal(getattr(t.charges, line)) for t in own), line
        assert tenant.gpu_hours.allocated == sum(t.gpu_hours.allocated for t in own)


def test_a_statement_of_a_year_has_its_months_lines(closed: Ledger) -> None:
    found = statement(closed(LATE, prices=DEARER), "a", "2026").statement
    assert [(line.number, line.kind, line.charge_period, line.amount) for line in found.lines] == [
        (1, "usage", "2026-10", "20.00"),
        (2, "usage", "2026-11", "10.00"),
        (3, "adjustment", "2026-10", "12.00"),
    ]
    assert (found.total, found.number, found.held_cost) == ("42.00", None, "30.00")
    assert [(s.name, s.gpu_hours, s.cost) for s in found.classes if s.gpu_hours] == [("on_demand", 15.0, "30.00")]
    assert found.notes[0] == "Adds up the closed statements of 2026-10 (2026-000001), 2026-11 (2026-000003)."


def test_a_year_in_a_tenants_own_currency_adds_what_its_months_were_converted_to(ledger: Ledger) -> None:
    rates = 'exchange: [{currency: EUR, rate: "0.90", to: 2026-11-01}, {currency: EUR, rate: "0.80", from: 2026-11-01}]'
    close(ledger(more=rates, of_b=", currency: EUR"), "2026-10", now=LATER, by="ada")
    november = "2026-11-04T00:00:00Z,2026-11-04T10:00:00Z,1,,H100,b,v,\n"
    config = ledger(november, more=rates, of_b=", currency: EUR")
    found = statement(config, "b", "2026").statement
    assert (found.currency, found.total) == ("EUR", "19.60")  # 4.00 × 0.90 + 20.00 × 0.80
    assert found.exchange is not None
    assert (found.exchange.total, found.exchange.rate) == ("24.00", "0.816667")
    rows = list(csv.DictReader(io.StringIO(export(config, "2026", format_="csv").decode())))
    assert sum(Decimal(r["BilledCost"]) for r in rows if r["BillingAccountId"] == "b") == Decimal("19.60")


@pytest.mark.parametrize(
    ("version", "dataset"), [("1.2", "CostAndUsage"), ("1.4", "CostAndUsage"), ("1.4", "InvoiceDetail")]
)
def test_focus_of_a_year_bills_what_its_statements_say(closed: Ledger, version: str, dataset: str) -> None:
    config = closed(LATE, prices=DEARER)
    rows = list(
        csv.DictReader(io.StringIO(export(config, "2026", format_="csv", version=version, dataset=dataset).decode()))
    )
    billed = {t: sum(Decimal(r["BilledCost"]) for r in rows if r["BillingAccountId"] == t) for t in ("a", "b")}
    assert billed == {"a": Decimal("42.00"), "b": Decimal("4.00")}
    assert {r["BillingPeriodStart"][:7] for r in rows} == {"2026-10", "2026-11"}


def test_a_year_under_other_prices_is_compared_month_by_month(closed: Ledger) -> None:
    config = closed(LATE)
    found = whatif(config, closed(LATE, prices=DEARER), "2026")
    # 10 h and 5 h cost one more each; the late hours are booked, and stay.
    (a,) = (t for t in found.tenants if t.tenant == "a")
    assert (a.now, a.then, a.difference.total) == ("42.00", "57.00", "15.00")


def test_a_line_of_a_year_is_explained_where_it_stands(closed: Ledger) -> None:
    with pytest.raises(UsageError, match="explain the line where it stands, in a/2026-11"):
        explain(closed(LATE), "a/2026", 2)


def test_a_day_of_a_closed_month_is_compared_by_the_usage_that_it_was_closed_with(closed: Ledger) -> None:
    config = closed(LATE)
    assert {t.difference.total for t in whatif(config, config, "2026-10-20").tenants} == {"0.00"}


def test_the_cheapest_reservation_of_a_year_is_told_by_its_months_own_prices(closed: Ledger) -> None:
    (model,) = cheapest(closed(LATE, prices=DEARER), "a", "2026").models
    assert model.cost_now == "30.00"  # 10 h and 5 h at 2.00; the late hours are booked, and stay
