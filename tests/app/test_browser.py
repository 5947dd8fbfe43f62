"""What a person meets in a browser: every page, wide and narrow, light and dark, by keyboard and by link."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import openpyxl
import pypdfium2
import pytest

from app.views import PAGES
from pipelines.config import load
from pipelines.operations import report
from tests.app.serving import SIZES, Server, Visit, served

pytestmark = pytest.mark.needs_program("chromium")

PATHS: Final = [("" if page.path == "overview" else page.path) for page in PAGES]


@pytest.fixture(scope="module")
def server(published: Path) -> Iterator[Server]:
    """The app over the small ledger."""
    with served(published) as running:
        yield running


@pytest.fixture
def visit(browser: Any, server: Server, request: pytest.FixtureRequest) -> Iterator[Visit]:
    made = Visit(browser, server.address, **getattr(request, "param", {}))
    yield made
    made.context.close()


@pytest.mark.parametrize(
    "visit",
    [{"size": size, "scheme": scheme} for size in SIZES for scheme in ("light", "dark")],
    indirect=True,
    ids=lambda p: f"{p['size']}-{p['scheme']}",
)
def test_every_page_is_whole_quiet_and_asks_nobody_else(visit: Visit) -> None:
    for path in PATHS:
        visit.open(path)
        assert visit.page.evaluate("window.hostile") is None
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert visit.page.evaluate(wide) <= 0, f"{path} is wider than the screen"
        assert visit.page.locator('[data-testid="stException"]').count() == 0
    assert visit.complaints == []
    assert visit.foreign == []


@pytest.mark.parametrize("visit", [{"scheme": "light"}, {"scheme": "dark"}], indirect=True, ids=lambda p: p["scheme"])
def test_no_page_has_a_serious_fault_of_accessibility(visit: Visit) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed: pip install axe-playwright-python"
    )
    faults = []
    for path in PATHS:
        visit.open(path)
        found = axe.Axe().run(visit.page, options={"resultTypes": ["violations"]})
        faults += [
            f"{path or 'overview'}: {fault['id']}: {node['html'][:120]}"
            for fault in found.response["violations"]
            if fault["impact"] in {"serious", "critical"}
            for node in fault["nodes"]
        ]
    assert faults == []


def test_a_filter_stays_in_the_address_from_page_to_page(visit: Visit) -> None:
    visit.open("cost?tenant=secret&by=model")
    assert "Secret Project pays" in visit.title()
    visit.page.get_by_role("link", name="Idle and reclaimable").click()
    visit.page.wait_for_url("**/idle?*tenant=secret*")
    visit.settle()
    assert visit.page.get_by_role("combobox", name="Tenant").count() == 1


def test_a_tenant_of_the_overview_leads_to_its_own(visit: Visit) -> None:
    visit.open("")
    visit.page.get_by_role("link", name="Secret Project").click()
    visit.page.wait_for_selector("h1:has-text('Secret Project pays')")
    assert "tenant=secret" in visit.page.url


def test_the_menu_is_reached_by_keyboard(visit: Visit) -> None:
    visit.open("")
    link = visit.page.get_by_role("link", name="Cost", exact=True)
    link.focus()
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/cost*")
    visit.settle()
    assert "tenants pay" in visit.title()


def test_statements_are_taken_along_and_open(visit: Visit, published: Path, tmp_path: Path) -> None:
    visit.open("statements?tenant=secret")
    took = {}
    for label, suffix in (("PDF", "pdf"), ("Excel", "xlsx"), ("CSV", "csv"), ("FOCUS 1.2, CSV", "csv")):
        with visit.page.expect_download() as coming:
            visit.page.get_by_role("link", name=label, exact=True).click()
        assert coming.value.suggested_filename.endswith(f".{suffix}")
        coming.value.save_as(took.setdefault(label, tmp_path / f"{label}.{suffix}"))
    total = next(t.charges.total for t in report(load(published), period="2026-11").tenants if t.tenant == "secret")
    pages = pypdfium2.PdfDocument(took["PDF"].read_bytes())
    assert f"{Decimal(total):,}" in "".join(page.get_textpage().get_text_bounded() for page in pages)
    assert openpyxl.load_workbook(took["Excel"]).sheetnames
    assert total in took["CSV"].read_text()
    rows = csv.DictReader(io.StringIO(took["FOCUS 1.2, CSV"].read_text()))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal(total)
    assert visit.page.get_by_role("link", name="PDF", exact=True).count() == 1
