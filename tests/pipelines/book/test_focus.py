"""FOCUS: what is billed is the statements', used and unused is the commitment, and the checker sees each fault."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.errors import UsageError
from pipelines.book.closing import close
from pipelines.book.focus.check import check
from pipelines.book.focus.columns import DATASETS, VERSIONS, columns
from pipelines.book.focus.export import export
from pipelines.config import Config
from pipelines.operations import report
from tests.pipelines.book.conftest import CONFIG, Book

Rows = list[dict[str, str]]


def rows_of(content: bytes) -> Rows:
    return list(csv.DictReader(io.StringIO(content.decode())))


def billed(rows: Rows) -> dict[str, Decimal]:
    found: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        found[row["BillingAccountId"]] += Decimal(row["BilledCost"])
    return dict(found)


def owed(config: Config, period: str) -> dict[str, Decimal]:
    return {t.tenant: Decimal(t.charges.total) for t in report(config, period=period).tenants}


@pytest.mark.parametrize("version", VERSIONS)
def test_billed_cost_is_the_statements_to_the_cent(book: Book, version: str) -> None:
    config = book()
    assert billed(rows_of(export(config, "2026-10", format_="csv", version=version))) == owed(config, "2026-10")


def test_used_and_unused_are_what_the_commitment_cost(book: Book) -> None:
    rows = rows_of(export(book(), "2026-10", format_="csv"))
    of_r1 = [row for row in rows if row["CommitmentDiscountId"] == "r1"]
    effective: dict[str, Decimal] = defaultdict(Decimal)
    hours: dict[str, Decimal] = defaultdict(Decimal)
    for row in of_r1:
        effective[row["CommitmentDiscountStatus"]] += Decimal(row["EffectiveCost"])
        hours[row["CommitmentDiscountStatus"]] += Decimal(row["CommitmentDiscountQuantity"])
    assert dict(effective) == {"": 0, "Used": Decimal("36.00"), "Unused": Decimal("36.00")}
    assert dict(hours) == {"": 48, "Used": 24, "Unused": 24}
    fee = next(row for row in of_r1 if row["ChargeCategory"] == "Purchase")
    assert (fee["BilledCost"], fee["ChargeFrequency"], fee["PricingCategory"]) == ("72.00", "Recurring", "Committed")


def test_classes_are_mapped(book: Book) -> None:
    rows = rows_of(export(book(), "2026-10", format_="csv"))
    found = {(r["x_GpuClass"], r["PricingCategory"], r["ListUnitPrice"]) for r in rows if r["ResourceType"]}
    assert found == {
        ("overflow", "Standard", "2.5"),
        ("spot", "Dynamic", "2.5"),
        ("on_demand", "Standard", "2.5"),
        ("reserved", "Committed", "2.5"),
    }
    credit = next(r for r in rows if r["ChargeCategory"] == "Credit")
    assert (credit["BilledCost"], credit["ChargeFrequency"]) == ("-3.00", "One-Time")


def test_a_closed_period_has_invoice_ids_and_a_late_correction_its_own_charge_period(book: Book) -> None:
    plain = CONFIG.replace("proportional", "platform").replace('"100.00"', '"0.00"')
    config = book(config=plain)
    later = datetime(2027, 1, 1, tzinfo=UTC)
    numbers = close(config, "2026-09", now=later, by="ada").numbers
    closed = rows_of(export(config, "2026-09", format_="csv"))
    assert {r["BillingAccountId"]: r["InvoiceId"] for r in closed} == {
        t: n for t, n in numbers.items() if owed(config, "2026-09")[t]
    }
    config = book("2026-09-11T00:00:00Z,2026-09-11T03:00:00Z,1,,H100,bio,late,\n", config=plain)
    assert rows_of(export(config, "2026-09", format_="csv")) == closed
    rows = rows_of(export(config, "2026-10", format_="csv"))
    correction = next(r for r in rows if r["ChargeClass"] == "Correction")
    assert correction["BilledCost"] == "6.00"
    assert correction["ChargePeriodStart"] == "2026-09-01T00:00:00Z"
    assert correction["ChargePeriodEnd"] == correction["BillingPeriodStart"] == "2026-10-01T00:00:00Z"


def test_the_other_datasets_agree(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=datetime(2027, 1, 1, tzinfo=UTC), by="ada")
    for period, status, issued in (("2026-09", "Closed", "Issued"), ("2026-10", "Open", "Open")):
        periods = rows_of(export(config, period, format_="csv", version="1.4", dataset="BillingPeriod"))
        assert [p["BillingPeriodStatus"] for p in periods] == [status]
        invoices = rows_of(export(config, period, format_="csv", version="1.4", dataset="InvoiceDetail"))
        assert {i["InvoiceIssueStatus"] for i in invoices} == {issued}
        assert billed(invoices) == {t: amount for t, amount in owed(config, period).items() if amount}


def test_parquet_holds_the_same_exact_amounts(book: Book) -> None:
    config = book()
    table = pl.read_parquet(io.BytesIO(export(config, "2026-10", format_="parquet", version="1.4")))
    assert table.columns == [c.name for c in columns("CostAndUsage", "1.4")]
    assert table.schema["BilledCost"] == pl.Decimal(38, 18)
    assert table.schema["ChargePeriodStart"] == pl.Datetime("us", "UTC")
    assert table["BilledCost"].sum() == sum(owed(config, "2026-10").values())


def test_made_again_it_is_the_same_bytes(book: Book) -> None:
    config = book()
    assert export(config, "2026-10", format_="csv") == export(config, "2026-10", format_="csv")


@pytest.mark.parametrize(
    ("version", "dataset"), [("1.3", "CostAndUsage"), ("1.2", "InvoiceDetail"), ("1.4", "Nonsense")]
)
def test_an_unknown_version_or_dataset_is_refused(book: Book, version: str, dataset: str) -> None:
    with pytest.raises(UsageError, match=f"--(version {version}|dataset {dataset})"):
        export(book(), "2026-10", format_="csv", version=version, dataset=dataset)


def test_versions_and_datasets_are_those_of_the_specification() -> None:
    assert len(columns("CostAndUsage", "1.2")) == 57 + 3
    names = {c.name for c in columns("CostAndUsage", "1.4")}
    assert not {"ProviderName", "PublisherName"} & names
    assert set(DATASETS) == {"CostAndUsage", "BillingPeriod", "InvoiceDetail"}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    from pipelines.config import load
    from pipelines.operations import run_once
    from tests.pipelines.book import conftest

    folder = tmp_path_factory.mktemp("focus")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    (folder / "allocations.csv").write_text(conftest.HEAD + conftest.OCTOBER)
    (folder / "inventory.csv").write_text(conftest.INVENTORY)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return rows_of(export(config, "2026-10", format_="csv"))


FAULTS: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "not a time in UTC with Z": lambda r: {**r, "ChargePeriodStart": r["ChargePeriodStart"].removesuffix("Z")},
    "is not after its start": lambda r: {**r, "ChargePeriodEnd": r["ChargePeriodStart"]},
    "ListCost": lambda r: {**r, "ListCost": str(Decimal(r["ListCost"]) + Decimal("0.01"))},
    "ContractedCost": lambda r: {**r, "ContractedCost": "0"},
    "not one of": lambda r: {**r, "PricingCategory": "Cheap"},
    "BillingCurrency is 'usd'": lambda r: {**r, "BillingCurrency": "usd"},
    "null is empty": lambda r: {**r, "RegionId": "NULL"},
    "not a plain decimal": lambda r: {**r, "BilledCost": "1e2"},
    "Tags": lambda r: {**r, "Tags": "[1]"},
    "BilledCost is null": lambda r: {**r, "BilledCost": ""},
    "go together": lambda r: {**r, "PricingUnit": ""},
    "without PricingCategory": lambda r: {**r, "PricingCategory": ""},
    "with spaces around": lambda r: {**r, "ResourceName": " x"},
    "outside the billing period": lambda r: {
        **r, "ChargePeriodStart": "2026-09-01T00:00:00Z", "ChargePeriodEnd": "2026-09-02T00:00:00Z"},
    "has CommitmentDiscountStatus": lambda r: {**r, "ChargeCategory": "Purchase", "ChargeFrequency": "Recurring",
                                               "CommitmentDiscountStatus": "Used"},
    "is not ASCII": lambda r: {**r, "ChargeDescription": "2 × H100"},
    "Usage without ConsumedQuantity": lambda r: {**r, "ConsumedQuantity": "", "ConsumedUnit": ""},
    "Credit of": lambda r: {**r, "ChargeCategory": "Credit", "ChargeFrequency": "One-Time", "BilledCost": "1.00"},
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checker_sees_a_fault_in_one_row(good: Rows, fault: str) -> None:
    header = list(good[0])
    assert check(good, header, version="1.2") == []
    at = next(i for i, row in enumerate(good) if row["x_GpuClass"] == "on_demand")
    spoilt = [*good[:at], FAULTS[fault](good[at]), *good[at + 1 :]]
    problems = check(spoilt, header, version="1.2")
    assert any(fault in p and p.startswith(f"row {at + 2}:") for p in problems), problems


def test_the_checker_sees_faults_of_the_header(good: Rows) -> None:
    header = list(good[0])
    assert check(good, [*header, "Colour"], version="1.2") == [
        "header: Colour is no column of FOCUS; a custom column begins with x_"
    ]
    assert check(good, [h for h in header if h != "Tags"], version="1.2") == ["header: column Tags is missing"]
    assert check(good, [*header, "x_Colour"], version="1.2") == []
    assert "header: column ServiceProviderName is missing" in check(good, header, version="1.4")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pick=st.data())
def test_a_cent_anywhere_is_seen(good: Rows, pick: st.DataObject) -> None:
    at = pick.draw(st.integers(0, len(good) - 1))
    column = pick.draw(st.sampled_from(["BilledCost", "EffectiveCost"]))
    row = good[at]
    if column == "EffectiveCost" and not row["CommitmentDiscountId"]:
        return
    totals = billed(good)
    spoilt = [*good[:at], {**row, column: str(Decimal(row[column]) + Decimal("0.01"))}, *good[at + 1 :]]
    assert check(good, list(good[0]), version="1.2", totals=totals) == []
    assert check(spoilt, list(good[0]), version="1.2", totals=totals) != []
