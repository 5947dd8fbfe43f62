"""A tenant that has rows, in open or in closed months, doesn't vanish from the configuration."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from exporter.errors import ConfigError
from gpuledger import cli
from pipelines.book.closing import close
from pipelines.book.presence import tenants_with_rows
from pipelines.book.statements import statement
from pipelines.operations import report
from tests.pipelines.book.conftest import CONFIG, Book

NOW = datetime(2027, 1, 1, tzinfo=UTC)
IDLE = '  - {id: idler, budget: {monthly: "5.00"}}\nrates:\n'
BIO = "  - {id: bio}\n"


def test_who_only_has_a_budget_has_no_rows(book: Book) -> None:
    config = book(config=CONFIG.replace("rates:\n", IDLE).replace("split: even", "split: proportional"))
    assert tenants_with_rows(config) == {"astro": "2026-10", "bio": "2026-11"}
    book(config=CONFIG.replace("split: even", "split: proportional"))


def test_who_has_rows_in_an_open_month_can_not_vanish(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    config = book()
    said = "gpuledger.yaml: tenants: bio isn't listed, but has rows, the last in 2026-11; list bio again"
    with pytest.raises(ConfigError, match=said):
        book(config=CONFIG.replace(BIO, ""))
    for command in (["run", "--once"], ["check"], ["report", "--period", "2026-10"]):
        assert cli.main([*command, "--config", str(config.path)]) == 2
        refused = capsys.readouterr().err.strip().splitlines()
        assert len(refused) == 1
        assert said.removeprefix("gpuledger.yaml: ") in refused[0]
    # As it was read before, it goes on.
    book()


def test_who_has_a_closed_statement_can_not_vanish_even_where_nothing_is_published(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    for path in (config.ledger / "published").iterdir():
        path.unlink()
    assert tenants_with_rows(config) == {"astro": "2026-09"}
    with pytest.raises(ConfigError, match="astro isn't listed"):
        book(config=CONFIG.replace("id: astro, name", "id: astronomy, name").replace("tenant: astro", "tenant: bio"))


def test_a_retired_tenant_stays_listed_and_keeps_its_rows(book: Book) -> None:
    book()
    config = book(config=CONFIG.replace(BIO, "  - {id: bio, retired: 2026-11-01}\n"))
    assert statement(config, "bio", "2026-10").statement.gpu_hours.allocated > 0
    assert {t.tenant for t in report(config, period="2026-11").tenants} >= {"bio"}


def test_a_tenant_is_renamed_by_its_name(book: Book) -> None:
    book()
    config = book(config=CONFIG.replace("Astro & Co", "Astronomy"))
    assert statement(config, "astro", "2026-10").statement.tenant.name == "Astronomy"
