"""What a person meets in a browser: every page, wide and narrow, light and dark, by keyboard and by link."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
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

AXE: Final[Any] = import_module("axe_playwright_python.sync_playwright") if find_spec("axe_playwright_python") else None
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


WIDER: Final = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.mark.parametrize(
    "visit",
    [{"size": "wide", "scheme": "light"}, {"size": "narrow", "scheme": "dark"}],
    indirect=True,
    ids=lambda p: f"{p['size']}-{p['scheme']}",
)
def test_every_page_is_whole_quiet_open_to_all_and_asks_nobody_else(visit: Visit) -> None:
    faults = []
    for path in PATHS:
        visit.open(path)
        assert visit.page.evaluate("window.hostile") is None
        assert visit.page.locator('[data-testid="stException"]').count() == 0
        assert "undefined" not in visit.page.inner_text("body")
        assert not visit.page.evaluate(WIDER), f"{path} is wider than the screen"
        faults += _faults(visit, path)
        # Loading a page again takes most of the time; the other size is seen by changing this one.
        before = visit.page.viewport_size
        for width, height in SIZES.values():
            visit.page.set_viewport_size({"width": width, "height": height})
            visit.page.wait_for_function(f"innerWidth === {width} && !({WIDER})")
        visit.page.set_viewport_size(before)
    assert visit.complaints == []
    assert visit.foreign == []
    assert faults == []
    if AXE is None:
        pytest.skip("all but accessibility held; axe is not installed: pip install axe-playwright-python")


def _faults(visit: Visit, path: str) -> list[str]:
    """Return what bars people from a page, as axe finds it."""
    if AXE is None:
        return []
    found = AXE.Axe().run(visit.page, options={"resultTypes": ["violations"]})
    return [
        f"{path or 'overview'}: {fault['id']}: {node['html'][:120]}"
        for fault in found.response["violations"]
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]


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
    took: dict[str, Path] = {}
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


def test_back_undoes_a_choice_and_forward_makes_it_again(visit: Visit) -> None:
    visit.open("cost")
    visit.page.get_by_role("combobox", name="Tenant").click()
    visit.page.get_by_role("option", name="Secret Project").click()
    visit.page.wait_for_selector("h1:has-text('Secret Project pays')")
    visit.page.get_by_role("combobox", name="Month", exact=True).click()
    visit.page.get_by_role("option", name="October 2026").click()
    visit.page.wait_for_url("**tenant=secret*time=2026-10*")
    visit.page.go_back()
    visit.page.wait_for_selector("h1:has-text('November 2026')")
    assert "Secret Project pays" in visit.title()
    visit.page.go_back()
    visit.page.wait_for_selector("h1:has-text('tenants pay')")
    assert "tenant=" not in visit.page.url
    visit.page.go_forward()
    visit.page.wait_for_selector("h1:has-text('Secret Project pays')")


def test_back_leaves_what_was_gone_into_step_by_step(visit: Visit) -> None:
    def go_into_the_first_row() -> None:
        visit.page.locator("[data-testid=stDataFrame] .dvn-scroller").first.click(position={"x": 15, "y": 52})

    visit.open("cost")
    by_tenant = visit.title()
    go_into_the_first_row()
    visit.page.wait_for_url("**/cost?tenant=*")
    visit.page.wait_for_selector("h1:has-text(' pays ')")
    of_tenant, at_tenant = visit.title(), visit.page.url
    go_into_the_first_row()
    visit.page.wait_for_selector("h1:has-text(' cost ')")
    assert "workload=" in visit.page.url
    visit.page.go_back()
    visit.page.wait_for_selector("h1:has-text(' pays ')")
    assert (visit.title(), visit.page.url) == (of_tenant, at_tenant)
    visit.page.go_back()
    visit.page.wait_for_selector("h1:has-text('tenants pay')")
    assert (visit.title(), visit.page.url.partition("?")[2]) == (by_tenant, "")
    assert visit.page.locator("h2:has-text('By tenant')").count() == 1


def test_back_from_a_workload_of_all_tenants_is_one_step(visit: Visit) -> None:
    visit.open("cost?by=workload")
    visit.page.locator("[data-testid=stDataFrame] .dvn-scroller").first.click(position={"x": 15, "y": 52})
    visit.page.wait_for_selector("h1:has-text(' cost ')")
    visit.page.wait_for_url("**workload=*")
    visit.page.go_back()
    visit.page.wait_for_selector("h1:has-text('tenants pay')")
    assert visit.page.url.partition("?")[2] == "by=workload"
