"""Addresses below a page, where Streamlit's own answer would stay blank."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from app.astray import Astray


async def _json(_request: Any) -> Response:
    return JSONResponse({"periods": []})


async def _missing(_request: Any) -> Response:
    return HTMLResponse("not here", status_code=404)


async def _shell(_request: Any) -> Response:
    return HTMLResponse("<script src=./static/app.js></script>")


def asked(path: str) -> httpx.Response:
    routes = [Route("/api/v1/periods", _json), Route("/cost/_stcore/health", _missing), Route("/{path:path}", _shell)]

    async def ask() -> httpx.Response:
        app = Starlette(routes=routes, middleware=[Middleware(Astray)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize(("path", "target"), [("/no/page?a=1", "../"), ("/no/such/page", "../../"), ("/cost/", "../")])
def test_what_lies_below_a_page_leads_to_the_first(path: str, target: str) -> None:
    answer = asked(path)
    assert answer.is_redirect
    assert answer.headers["location"] == target
    assert answer.text == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/cost?x=/a/b", 200), ("/api/v1/periods", 200), ("/cost/_stcore/health", 404)],
)
def test_pages_and_what_stands_beside_them_are_answered_as_they_are(path: str, status: int) -> None:
    answer = asked(path)
    assert answer.status_code == status
    assert answer.text
