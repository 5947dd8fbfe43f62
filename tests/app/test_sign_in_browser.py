"""People sign in at a real OpenID Connect provider, and the process opens only what they may see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuledger import webapp
from tests.app.conftest import OIDC
from tests.app.serving import Server, Visit, served

pytestmark = pytest.mark.needs_program("chromium")


@pytest.fixture
def provider() -> Iterator[Any]:
    """The provider, which needs what the sign-in itself is made of."""
    pytest.importorskip("authlib", reason="Authlib is not installed: pip install 'gpuledger[auth]'")
    from tests.app.provider import Provider

    made = Provider()
    yield made
    made.close()


@pytest.fixture
def server(guarded: Path, provider: Any, tmp_path: Path) -> Iterator[Server]:
    """The app of a ledger that asks for a sign-in, in a process of its own."""
    folder = tmp_path / "ledger"
    shutil.copytree(guarded.parent, folder)
    port = webapp.free_port(first=18901, tries=200)
    secrets = folder / OIDC["secrets_file"]
    secrets.write_text(provider.secrets_toml(f"http://127.0.0.1:{port}/"))
    with served(folder / guarded.name, port=port, secrets=secrets) as running:
        yield running


def signed_in(browser: Any, server: Server, provider: Any, *groups: str) -> Visit:
    """A browser in which somebody of these groups has signed in."""
    provider.person = {"sub": "ann", "email": "ann@example.org", "email_verified": True, "groups": list(groups)}
    visit = Visit(browser, server.address)
    visit.open("")
    assert visit.title() == "GPULedger"
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_selector('[data-testid="stMain"] h1:not(:has-text("GPULedger"))')
    visit.settle()
    return visit


def test_a_member_signs_in_and_no_other_tenant_s_file_is_open(browser: Any, server: Server, provider: Any) -> None:
    visit = signed_in(browser, server, provider, "team-vision")
    assert "**bold**" in visit.title()
    for path in ("?tenant=secret", "cost?tenant=secret&workload=secret-job", "allocations?tenant=secret", "health"):
        visit.open(path)
        assert "Secret Project" not in visit.page.content()
    assert {name.rpartition("-")[0] for name in server.files_open()} == {"tenant-vision"}
    visit.open("")
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.wait_for_selector("h1:has-text('GPULedger')")


def test_an_operator_signs_in_and_sees_the_fleet(browser: Any, server: Server, provider: Any) -> None:
    visit = signed_in(browser, server, provider, "gpu-operators")
    assert "the fleet cost" in visit.title()
    assert {name.partition("-")[0] for name in server.files_open()} == {"fleet"}
    address = f"{server.address}downloads/statements/2026-11/secret.json"
    assert visit.context.request.get(address).json()["tenant"]["id"] == "secret"
    assert Visit(browser, server.address).context.request.get(address).status == 401
    member = signed_in(browser, server, provider, "team-vision")
    assert member.context.request.get(address).status == 404


def test_a_stranger_signs_in_and_sees_nothing(browser: Any, server: Server, provider: Any) -> None:
    visit = signed_in(browser, server, provider, "strangers")
    assert visit.title() == "Nothing to show"
    assert "no grant" in visit.page.locator('[data-testid="stAlert"]').inner_text()
    assert server.files_open() == set()


def test_a_sign_in_ends_when_it_expires(browser: Any, server: Server, provider: Any) -> None:
    provider.lifetime_s = 1
    provider.person = {"sub": "ann", "groups": ["gpu-operators"]}
    visit = Visit(browser, server.address)
    visit.open("")
    # The page has the same address before and after; a reload on the way between would end the sign-in.
    with visit.page.expect_event("load"):
        visit.page.get_by_role("button", name="Sign in").click()
    visit.settle()
    told = visit.page.get_by_text("your sign-in has expired")
    for _ in range(12):  # a busy machine may still be drawing the page of before
        if told.count():
            break
        visit.page.wait_for_timeout(3_000)
        visit.page.reload()
        visit.settle()
    assert told.count(), visit.page.inner_text("body")
    assert visit.context.request.get(f"{server.address}downloads/statements/2026-11/secret.json").status == 401
