"""What a person meets in a browser: every page, wide and narrow, light and dark, by keyboard and by link."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from app.views import PAGES
from gpuledger import webapp

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

pytestmark = pytest.mark.needs_program("chromium")

CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PATHS: Final = [("" if page.path == "overview" else page.path) for page in PAGES]
PATIENCE_MS: Final = 60_000
PROBES: Final = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit's front end asks below every path of the address for its server, and takes 404 for an answer."""
SIZES: Final = {"wide": (1440, 900), "narrow": (390, 844)}


@pytest.fixture(scope="module")
def server(published: Path) -> Iterator[str]:
    """The address of the app, started as the command starts it."""
    port = webapp.free_port(first=18701)
    script = Path(__file__).parents[2] / "app" / "main.py"
    with subprocess.Popen(
        webapp.streamlit_command(script, address="127.0.0.1", port=port),
        env=os.environ | {"GPULEDGER_CONFIG": str(published), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "URL: " in line:
                break
        else:
            pytest.fail("the server ended: " + "".join(said))
        # What it says later is read too, so that it never waits for a reader.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield f"http://127.0.0.1:{port}/"
        process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Visit:
    """A page in a browser of its own, with what it asked for and complained about."""

    def __init__(self, browser: Any, server: str, *, size: str = "wide", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.server = server
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)

    def open(self, path: str) -> None:
        self.page.goto(self.server + path)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector('[data-testid="stMain"] h1')
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        self.page.wait_for_function("!document.querySelector('[data-testid=stSkeleton], [data-stale=true]')")

    def _console(self, message: Any) -> None:
        probe = any(message.location.get("url", "").endswith(path) for path in PROBES)
        if message.type == "error" and not probe:
            self.complaints.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.server, self.server.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(request.url)


@pytest.fixture
def visit(browser: Any, server: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    made = Visit(browser, server, **getattr(request, "param", {}))
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
    assert "Secret Project pays" in visit.page.locator("h1").inner_text()
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
    assert "tenants pay" in visit.page.locator("h1").inner_text()
