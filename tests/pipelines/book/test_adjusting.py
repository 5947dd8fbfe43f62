"""What people book: shown first, booked in the open month, reversed to nothing; and what-if, which books nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.errors import UsageError
from gpuledger import cli
from pipelines.book import adjusting
from pipelines.book.closing import close
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.book.whatif import whatif
from pipelines.config import Config, load
from pipelines.operations import report, run_once
from tests.pipelines.book import conftest
from tests.pipelines.book.conftest import CONFIG, Book

NOW = datetime(2027, 1, 15, tzinfo=UTC)


def adjustments(config: Config, period: str) -> dict[str, str]:
    return {t.tenant: t.charges.adjustment for t in report(config, period=period).tenants}


def other(config: Config, text: str) -> Config:
    path = config.path.with_name("other.yaml")
    path.write_text(text)
    return load(path)


def test_a_dispute_is_a_credit_in_the_open_month_and_its_reversal_negates_it(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    before = report(config, period="2026-09").to_json()
    (entry,) = adjusting.credit(
        config, "astro", Decimal("12.50"), about="2026-09", reason="dispute 17", now=NOW, by="ada"
    )
    assert (entry.id, entry.period, entry.amount) == ("2026-10/1", "2026-10", Decimal("-12.50"))
    assert adjustments(config, "2026-10")["astro"] == "-12.50"
    line = next(x for x in statement(config, "astro", "2026-10").statement.lines if x.kind == "adjustment")
    assert (line.amount, line.charge_period, line.reference) == ("-12.50", "2026-09", "2026-10/1")
    assert line.description == "Credit (dispute 17)"
    (back,) = adjusting.reverse(config, entry.id, reason="settled", now=NOW, by="ada")
    assert back.amount == Decimal("12.50")
    assert adjustments(config, "2026-10")["astro"] == "0.00"
    with pytest.raises(UsageError, match="reversed already"):
        adjusting.reverse(config, entry.id, reason="again", now=NOW, by="ada")
    assert report(config, period="2026-09").to_json() == before
    close(config, "2026-10", now=NOW, by="ada")
    assert verify(config).problems == []


def test_a_booked_entry_that_is_taken_out_again_is_found(book: Book) -> None:
    config = book()
    adjusting.credit(config, "astro", Decimal(1), about="2026-09", reason="x", now=NOW, by="ada")
    close(config, "2026-09", now=NOW, by="ada")
    (config.ledger / "books" / "journal.jsonl").unlink()
    assert any("journal.jsonl" in problem for problem in verify(config).problems)


@pytest.mark.parametrize(
    ("tenant", "amount", "reason", "why"),
    [
        ("nobody", "1.00", "x", "no such tenant"),
        ("astro", "0", "x", "not 0"),
        ("astro", "1.005", "x", "at most 2 decimals"),
        ("astro", "NaN", "x", "not 0"),
        ("astro", "1.00", " ", "--reason is missing"),
    ],
)
def test_a_credit_needs_a_tenant_an_amount_and_a_reason(
    book: Book, tenant: str, amount: str, reason: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        adjusting.credit(book(), tenant, Decimal(amount), about="2026-09", reason=reason, now=NOW, by="ada")


def test_repricing_shows_first_then_books_correction_lines_in_the_open_month(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    dearer = other(config, CONFIG.replace('on_demand: "2.00"', 'on_demand: "2.30"'))
    shown = adjusting.repriced(config, dearer, "2026-09")
    astro = next(t for t in shown.tenants if t.tenant == "astro")
    assert astro.difference.usage == "3.00"  # 10 h × 0.30
    assert adjustments(config, "2026-10")["astro"] == "0.00"
    entries = adjusting.reprice(config, dearer, "2026-09", reason="contract", now=NOW, by="ada")
    assert adjustments(config, "2026-10")["astro"] == astro.difference.total
    assert {(e.kind, e.charge_period) for e in entries} == {("reprice", "2026-09")}
    assert adjusting.reprice(config, dearer, "2026-09", reason="again", now=NOW, by="ada") == []


def test_an_open_month_or_another_way_of_metering_is_not_repriced(book: Book) -> None:
    config = book()
    with pytest.raises(UsageError, match="isn't closed"):
        adjusting.repriced(config, config, "2026-09")
    close(config, "2026-09", now=NOW, by="ada")
    with pytest.raises(UsageError, match="mig differs"):
        adjusting.repriced(config, other(config, CONFIG + "mig: {weight: compute}\n"), "2026-09")


@pytest.fixture(scope="module")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("reprices")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    (folder / "allocations.csv").write_text(conftest.HEAD + conftest.SEPTEMBER + conftest.OCTOBER + conftest.NOVEMBER)
    (folder / "inventory.csv").write_text(conftest.INVENTORY)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    for period in ("2026-09", "2026-10"):
        close(config, period, now=NOW, by="ada")
    return config


PRICES = st.decimals("0.01", "99.99", places=2).map(str)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(on_demand=PRICES, reserved=PRICES, policy=st.sampled_from(["platform", "even", "proportional"]))
def test_reprice_and_back_is_zero(shelved: Config, on_demand: str, reserved: str, policy: str) -> None:
    text = CONFIG.replace('"2.50", reserved: "1.50"', f'"{on_demand}", reserved: "{reserved}"')
    changed = other(shelved, text.replace("proportional", policy))
    before = adjustments(shelved, "2026-11")
    there = adjusting.reprice(shelved, changed, "2026-10", reason="there", now=NOW, by="ada")
    back = adjusting.reprice(shelved, shelved, "2026-10", reason="back", now=NOW, by="ada")
    for tenant in ("astro", "bio"):
        both = [e.amount for e in (*there, *back) if e.tenant == tenant]
        assert sum(both, Decimal(0)) == 0
    assert {t: a for t, a in adjustments(shelved, "2026-11").items() if Decimal(a)} == {
        t: a for t, a in before.items() if Decimal(a)
    }
    assert verify(shelved).problems == []


def test_whatif_books_nothing_and_its_differences_are_those_of_the_reports(book: Book) -> None:
    config = book()
    cheaper = other(config, CONFIG.replace('"2.50"', '"2.20"').replace("proportional", "platform"))
    found = whatif(config, cheaper, "2026-10")
    before = {t.tenant: Decimal(t.charges.total) for t in report(config, period="2026-10").tenants}
    run_once(cheaper)
    after = {t.tenant: Decimal(t.charges.total) for t in report(cheaper, period="2026-10").tenants}
    assert {t.tenant: (Decimal(t.now), Decimal(t.then)) for t in found.tenants} == {
        tenant: (before[tenant], after[tenant]) for tenant in before
    }
    assert all(Decimal(t.then) - Decimal(t.now) == Decimal(t.difference.total) for t in found.tenants)
    assert found.not_considered == []


def test_whatif_under_the_same_configuration_is_nothing_also_for_a_closed_month(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    for period in ("2026-09", "2026-10"):
        found = whatif(config, config, period)
        assert {t.difference.total for t in found.tenants} == {"0.00"}
        assert found.fleet.unbilled == "0.00"


def test_whatif_says_what_it_cannot_tell(book: Book) -> None:
    config = book()
    assert whatif(config, other(config, CONFIG + "mig: {weight: compute}\n"), "2026-10").not_considered == ["mig"]
    with pytest.raises(UsageError, match="can't be compared with USD"):
        whatif(config, other(config, CONFIG.replace("USD", "EUR")), "2026-10")


def test_the_commands(
    book: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = book()
    other(config, CONFIG.replace('"2.50"', '"2.20"'))
    monkeypatch.chdir(tmp_path)

    def said(*argv: str, status: int = 0) -> str:
        assert cli.main(list(argv)) == status, capsys.readouterr().err
        out, err = capsys.readouterr()
        return out if status == 0 else err

    assert "closed 2026-09: statements 2026-000001 to" in said("close", "2026-09")
    assert said("verify").startswith("1 closed period (2026-09 to 2026-09)")
    assert json.loads(said("whatif", "--config", "other.yaml", "2026-10", "--json"))["currency"] == "USD"
    assert "billed" in said("whatif", "--config", "other.yaml", "2026-10")
    assert "nothing to book" in said("adjust", "--list")
    assert "2026-10/1  bio  USD -5.00  Credit (goodwill), about 2026-09" in said(
        "adjust", "--credit", "bio", "5.00", "--for", "2026-09", "--reason", "goodwill"
    )
    assert "--for is missing" in said("adjust", "--credit", "bio", "5.00", "--reason", "x", status=2)
    assert "tenants" in said("adjust", "--reprice", "2026-09", "--prices", "other.yaml").lower()
    assert said("focus", "2026-10", "-o", "focus.csv") == ""
    assert said("statement", "bio", "2026-10", "--format", "pdf", "-o", "bio.pdf") == ""
    assert (tmp_path / "bio.pdf").read_bytes().startswith(b"%PDF")
    path = config.ledger / "books" / "2026-09" / "report.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"2", b"3", 1))
    assert str(path) in said("verify", status=1)
