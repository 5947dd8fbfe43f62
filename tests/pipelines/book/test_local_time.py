"""A book in a zone with summer time: months of 743 and 721 hours, and a year that ends there, not in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from pipelines.book.closing import Closed, close
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.operations import run_once
from tests.pipelines.book.conftest import HEAD

CONFIG: Final = """\
currency: USD
timezone: America/New_York
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants:
  - {id: astro}
rates:
  - {model: "*H100*", on_demand: "2.00", reserved: "1.50"}
reservations:
  - {id: r1, tenant: astro, model: "*H100*", gpus: 1, from: 2026-11-01, to: 2027-04-01}
overheads:
  - {name: storage, monthly: "100.00", split: even}
closing: {issuer: Research Computing, formats: []}
"""
INVENTORY: Final = "node,device,model,gpus,slots,owner,from,to\nn1,,H100,2,,,2026-11-01,2027-04-01\n"
ROWS: Final = (
    # Around the second 01:30 of 1 November: 05:30 to 06:30 UTC is one hour, though clocks show 01:30 twice.
    "2026-11-01T05:30:00Z,2026-11-01T06:30:00Z,2,,H100,astro,back,\n"
    # Over midnight of the year's end in New York, 05:00 UTC.
    "2027-01-01T04:00:00Z,2027-01-01T07:00:00Z,2,,H100,astro,party,\n"
    # From 01:30 to 03:30 of 14 March an hour passes.
    "2027-03-14T06:30:00Z,2027-03-14T07:30:00Z,2,,H100,astro,forth,\n"
)
MONTHS: Final = ("2026-11", "2026-12", "2027-01", "2027-02", "2027-03")
HOURS: Final = {"2026-11": 721, "2026-12": 744, "2027-01": 744, "2027-02": 672, "2027-03": 743}
OVERFLOW: Final = {"2026-11": 1, "2026-12": 1, "2027-01": 2, "2027-02": 0, "2027-03": 1}
"""GPU-hours of the second GPU, which no reservation covers, by local month."""


@pytest.fixture(scope="module")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, dict[str, Closed]]:
    folder = tmp_path_factory.mktemp("local")
    for name, text in (("gpuledger.yaml", CONFIG), ("allocations.csv", HEAD + ROWS), ("inventory.csv", INVENTORY)):
        (folder / name).write_text(text)
    config = load(Path(folder / "gpuledger.yaml"))
    run_once(config)
    done = {month: close(config, month, now=datetime(2027, 5, 1, tzinfo=UTC), by="ada") for month in MONTHS}
    assert all(isinstance(one, Closed) for one in done.values())
    return config, done  # type: ignore[return-value]


@pytest.mark.parametrize("month", MONTHS)
def test_a_month_has_the_hours_that_pass_in_it(shelved: tuple[Config, dict[str, Closed]], month: str) -> None:
    config, _ = shelved
    made = statement(config, "astro", month).statement
    lines = {line.kind: (line.quantity, line.amount) for line in made.lines}
    assert lines["reservation"] == (HOURS[month], f"{Decimal('1.50') * HOURS[month]:.2f}")
    assert lines.get("usage", (0, "0.00")) == (OVERFLOW[month], f"{2 * OVERFLOW[month]:.2f}")
    assert lines["overhead"] == (None, "100.00")


def test_numbers_start_again_with_the_local_year(shelved: tuple[Config, dict[str, Closed]]) -> None:
    _, done = shelved
    assert [done[month].numbers["astro"] for month in MONTHS] == [
        "2026-000001", "2026-000002", "2027-000001", "2027-000002", "2027-000003",
    ]  # fmt: skip


def test_what_lies_over_the_local_years_end_is_in_both_years_once(shelved: tuple[Config, dict[str, Closed]]) -> None:
    config, _ = shelved
    party = {
        month: next(w.gpu_hours for w in statement(config, "astro", month).statement.workloads if w.name == "party")
        for month in ("2026-12", "2027-01")
    }
    assert party == {"2026-12": 2.0, "2027-01": 4.0}


def test_the_book_is_proved(shelved: tuple[Config, dict[str, Closed]]) -> None:
    config, _ = shelved
    verdict = verify(config)
    assert (verdict.problems, verdict.statements) == ([], 5)
