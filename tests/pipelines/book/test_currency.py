"""A statement in the tenant's own currency: one stamped rate, lines that add up, the ledger untouched."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from pipelines.book.closing import close
from pipelines.book.focus.columns import VERSIONS
from pipelines.book.focus.export import export
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.config import Config
from pipelines.money import apportion, round_money
from pipelines.operations import report
from tests.pipelines.book.conftest import CONFIG, Book
from tests.pipelines.book.test_focus import billed, rows_of

EXCHANGE = """\
exchange:
  - {currency: EUR, to: 2026-10-15, rate: "0.91", source: "ECB, 2026-09-30"}
  - {currency: EUR, from: 2026-10-15, rate: "0.8731", source: "ECB, 2026-10-15"}
"""
IN_EUROS = CONFIG.replace("{id: bio}", "{id: bio, currency: EUR}") + EXCHANGE
LATER = datetime(2027, 1, 15, tzinfo=UTC)


def owed(config: Config, tenant: str) -> Decimal:
    found = next(t for t in report(config, period="2026-10").tenants if t.tenant == tenant)
    return Decimal(found.charges.total)


def test_the_total_is_the_ledgers_by_the_rate_of_the_periods_last_instant(book: Book) -> None:
    config = book(config=IN_EUROS)
    made = statement(config, "bio", "2026-10").statement
    assert made.currency == "EUR"
    assert made.exchange is not None
    assert (made.exchange.currency, made.exchange.rate, made.exchange.source) == ("USD", "0.8731", "ECB, 2026-10-15")
    assert Decimal(made.exchange.total) == owed(config, "bio")
    assert Decimal(made.total) == round_money(owed(config, "bio") * Decimal("0.8731"), "EUR")
    assert statement(config, "astro", "2026-10").statement.currency == "USD"


def test_lines_add_up_to_the_total_parts_to_their_line_and_shares_to_what_was_held(book: Book) -> None:
    made = statement(book(config=IN_EUROS), "bio", "2026-10").statement
    assert sum(Decimal(line.amount) for line in made.lines) == Decimal(made.total)
    for line in made.lines:
        if line.parts:
            assert sum(Decimal(p.amount) for p in line.parts) == Decimal(line.amount)
    for shares in (made.classes, made.models, made.workloads):
        assert sum(Decimal(s.cost) for s in shares) == Decimal(made.held_cost)


def test_the_ledger_stays_in_its_own_currency(book: Book) -> None:
    plain, euros = report(book(), period="2026-10"), report(book(config=IN_EUROS), period="2026-10")
    assert (euros.currency, euros.fleet, euros.tenants) == (plain.currency, plain.fleet, plain.tenants)


def test_a_month_without_a_rate_at_its_end_is_refused_by_name(book: Book) -> None:
    config = book(config=IN_EUROS.replace("from: 2026-10-15, rate", "from: 2026-10-15, to: 2026-10-31, rate"))
    with pytest.raises(ConfigError, match="no rate of EUR for bio at 2026-10-31"):
        statement(config, "bio", "2026-10")


def test_closed_it_keeps_its_rate_and_is_proved(book: Book) -> None:
    config = book(config=IN_EUROS)
    for period in ("2026-09", "2026-10"):
        close(config, period, now=LATER, by="ada")
    before = statement(config, "bio", "2026-10").rendered("json")
    later = book(config=IN_EUROS.replace("0.8731", "0.7000"))
    assert statement(later, "bio", "2026-10").rendered("json") == before
    assert verify(later).problems == []


def test_a_month_that_shows_earlier_ones_is_proved(book: Book) -> None:
    pool = '  - {name: floor, monthly: "100.00", split: fixed, shares: {bio: "50"}}\n'
    assert "overheads:\n" in IN_EUROS
    config = book(config=IN_EUROS.replace("overheads:\n", f"overheads:\n{pool}"))
    for period in ("2026-09", "2026-10"):
        close(config, period, now=LATER, by="ada")
    (past,) = statement(config, "bio", "2026-10").statement.trend
    assert Decimal(past.total) > 0
    assert verify(config).problems == []


@pytest.mark.parametrize("version", VERSIONS)
def test_focus_bills_each_account_in_its_currency_as_its_statement(book: Book, version: str) -> None:
    config = book(config=IN_EUROS)
    rows = rows_of(export(config, "2026-10", format_="csv", version=version))
    totals = {t: Decimal(statement(config, t, "2026-10").statement.total) for t in ("astro", "bio")}
    assert billed(rows) == totals
    assert {(r["BillingAccountId"], r["BillingCurrency"]) for r in rows} == {("astro", "USD"), ("bio", "EUR")}
    assert {r["PricingCurrency"] for r in rows} == {"USD"}


def test_focus_amortises_a_commitment_in_its_own_currency(book: Book) -> None:
    config = book(config=IN_EUROS.replace("{id: astro,", "{id: astro, currency: EUR,"))
    rows = [r for r in rows_of(export(config, "2026-10", format_="csv")) if r["CommitmentDiscountId"] == "r1"]
    fee = sum(Decimal(r["BilledCost"]) for r in rows)
    assert fee == sum(Decimal(r["EffectiveCost"]) for r in rows)
    assert abs(fee - Decimal("72.00") * Decimal("0.8731")) < Decimal("0.01")


def test_invoice_details_are_the_statements_lines(book: Book) -> None:
    config = book(config=IN_EUROS)
    rows = rows_of(export(config, "2026-10", format_="csv", version="1.4", dataset="InvoiceDetail"))
    made = statement(config, "bio", "2026-10").statement
    own = {r["InvoiceDetailDescription"]: Decimal(r["BilledCost"]) for r in rows if r["BillingAccountId"] == "bio"}
    assert own == {line.kind: Decimal(line.amount) for line in made.lines}


@given(st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=12), st.integers(1, 9_999))
def test_parts_of_either_sign_add_up_and_none_is_a_unit_off(cents: list[int], rate: int) -> None:
    exact = {i: Fraction(c, 100) * Fraction(rate, 1000) for i, c in enumerate(cents)}
    total = round_money(sum(exact.values(), Fraction(0)), "EUR")
    parts = apportion(total, exact, "EUR")
    assert sum(parts.values()) == total
    assert all(abs(Fraction(parts[i]) - exact[i]) < Fraction(1, 100) for i in exact)
