"""Three months of a book, line by line against values computed by hand.

Four H100 from November to January; storage of 300.00 a month in equal parts; 2.00 per GPU-hour, 2.50 from
15 December; two of the GPUs are reserved by astro in December at 1.50. November is closed, then six of its hours come
late; December, with an outage, closes the year, then three of its hours come late; in January bio disputes November.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from pipelines.book import adjusting
from pipelines.book.closing import close
from pipelines.book.explaining import explain
from pipelines.book.focus.export import export
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.operations import report, run_once
from tests.pipelines.book.conftest import HEAD
from tests.pipelines.book.test_focus import billed, rows_of

CONFIG: Final = """\
currency: USD
timezone: UTC
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants:
  - {id: astro}
  - {id: bio}
rates:
  - {model: "*H100*", to: 2026-12-15, on_demand: "2.00", reserved: "1.50"}
  - {model: "*H100*", from: 2026-12-15, on_demand: "2.50", reserved: "1.50"}
reservations:
  - {id: r1, tenant: astro, model: "*H100*", gpus: 2, from: 2026-12-01, to: 2027-01-01}
overheads:
  - {name: storage, monthly: "300.00", split: even}
closing: {issuer: Research Computing, formats: []}
"""
INVENTORY: Final = "node,device,model,gpus,slots,owner,from,to\nn1,,H100,4,,,2026-11-01,2027-02-01\n"
ROWS: Final = (
    "2026-11-01T00:00:00Z,2026-11-05T04:00:00Z,1,,H100,astro,fit,\n"  # 100 h × 2.00
    "2026-11-10T00:00:00Z,2026-11-10T10:30:00Z,2,,H100,bio,fold,\n"  # 21 h × 2.00
    "2026-12-01T00:00:00Z,2026-12-02T00:00:00Z,3,,H100,astro,train,\n"  # 48 h reserved, 24 h overflow × 2.00
    "2026-12-10T00:00:00Z,2026-12-10T10:00:00Z,1,,H100,astro,,down\n"  # 10 h × 1.50 given back
    "2026-12-14T12:00:00Z,2026-12-15T12:00:00Z,1,,H100,bio,dock,\n"  # 12 h × 2.00 + 12 h × 2.50
    "2027-01-31T23:40:00Z,2027-02-01T00:00:00Z,1,,H100,bio,short,\n"  # 1/3 h × 2.50 = 0.8333…
)
LATE_NOVEMBER: Final = "2026-11-20T00:00:00Z,2026-11-20T06:00:00Z,1,,H100,bio,late,\n"  # 6 h × 2.00
LATE_DECEMBER: Final = "2026-12-20T00:00:00Z,2026-12-20T03:00:00Z,1,,H100,bio,later,\n"  # 3 h × 2.50

Lines = list[tuple[str, str, float | None, str]]
"""Kind, charge period, quantity and amount."""

BOOK: Final[dict[tuple[str, str], tuple[str, str, Lines]]] = {
    ("2026-11", "astro"): ("2026-000001", "350.00", [
        ("usage", "2026-11", 100.0, "200.00"),
        ("overhead", "2026-11", None, "150.00"),
    ]),
    ("2026-11", "bio"): ("2026-000002", "192.00", [
        ("usage", "2026-11", 21.0, "42.00"),
        ("overhead", "2026-11", None, "150.00"),
    ]),
    ("2026-12", "astro"): ("2026-000003", "2415.00", [
        ("usage", "2026-12", 24.0, "48.00"),
        ("reservation", "2026-12", 1488.0, "2232.00"),  # 2 × 744 h × 1.50
        ("overhead", "2026-12", None, "150.00"),
        ("credit", "2026-12", None, "-15.00"),
    ]),
    ("2026-12", "bio"): ("2026-000004", "216.00", [
        ("usage", "2026-12", 24.0, "54.00"),
        ("overhead", "2026-12", None, "150.00"),
        ("adjustment", "2026-11", 6.0, "12.00"),  # November's hours at November's rate
    ]),
    ("2027-01", "bio"): ("2027-000001", "268.33", [
        ("usage", "2027-01", 0.333333, "0.83"),
        ("overhead", "2027-01", None, "300.00"),  # nobody else is there
        ("adjustment", "2026-12", 3.0, "7.50"),
        ("adjustment", "2026-11", None, "-40.00"),
    ]),
}  # fmt: skip
FLEET: Final = {  # cost, billed, unbilled
    "2026-11": ("6060.00", "542.00", "5518.00"),  # 4 × 720 h × 2.00 + 300
    "2026-12": ("7068.00", "2631.00", "4437.00"),  # 4 × 336 h × 2.00 + 4 × 408 h × 2.50 + 300
    "2027-01": ("7740.00", "268.33", "7471.67"),  # 4 × 744 h × 2.50 + 300
}


def known(folder: Path, *more: str) -> Config:
    (folder / "gpuledger.yaml").write_text(CONFIG)
    (folder / "allocations.csv").write_text(HEAD + ROWS + "".join(more))
    (folder / "inventory.csv").write_text(INVENTORY)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return config


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The whole story, closed."""
    folder = tmp_path_factory.mktemp("golden")
    close(known(folder), "2026-11", now=datetime(2026, 12, 5, tzinfo=UTC), by="ada")
    config = known(folder, LATE_NOVEMBER)
    close(config, "2026-12", now=datetime(2027, 1, 5, tzinfo=UTC), by="ada")
    config = known(folder, LATE_NOVEMBER, LATE_DECEMBER)
    january = datetime(2027, 1, 20, tzinfo=UTC)
    adjusting.credit(config, "bio", Decimal("40.00"), about="2026-11", reason="dispute 17", now=january, by="bea")
    close(config, "2027-01", now=datetime(2027, 2, 5, tzinfo=UTC), by="ada")
    return config


@pytest.mark.parametrize(("period", "tenant"), BOOK)
def test_each_line_is_what_it_is_by_hand(golden: Config, period: str, tenant: str) -> None:
    made = statement(golden, tenant, period).statement
    number, total, lines = BOOK[period, tenant]
    assert (made.number, made.total) == (number, total)
    assert [(line.kind, line.charge_period, line.quantity, line.amount) for line in made.lines] == lines


@pytest.mark.parametrize("period", FLEET)
def test_the_fleets_money_is_what_it_is_by_hand(golden: Config, period: str) -> None:
    found = report(golden, period=period)
    assert (found.fleet.cost, found.fleet.billed, found.fleet.unbilled) == FLEET[period]
    assert {t.tenant for t in found.tenants} == {tenant for month, tenant in BOOK if month == period}


def test_where_the_rate_changes_the_line_has_a_part_for_each(golden: Config) -> None:
    usage = statement(golden, "bio", "2026-12").statement.lines[0]
    assert [(part.quantity, part.rate, part.amount) for part in usage.parts] == [
        (12.0, "2.00", "24.00"), (12.0, "2.50", "30.00"),
    ]  # fmt: skip
    leases = explain(golden, "2026-000004", 1).leases
    assert [(lease.gpu_hours, lease.amount) for lease in leases] == [(12.0, "24.00"), (12.0, "30.00")]


def test_a_years_end_changes_nothing_of_it(golden: Config) -> None:
    assert verify(golden).problems == []
    assert report(golden, period="2026-12").fleet.billed == "2631.00"


@pytest.mark.parametrize("period", FLEET)
def test_focus_bills_what_the_statements_do(golden: Config, period: str) -> None:
    rows = rows_of(export(golden, period, format_="csv"))
    assert billed(rows) == {t: Decimal(total) for (month, t), (_, total, _) in BOOK.items() if month == period}
