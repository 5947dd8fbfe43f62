"""Asks the app's routes as the server would."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from app import api, downloads


async def _media(_request: Any) -> Response:
    return Response("somebody's")


class Client:
    """Asks the routes beside the pages."""

    def __init__(self, host: str = "http://127.0.0.1:8501") -> None:
        self.host = host

    def request(self, method: str, path: str, headers: Any = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            app = Starlette(
                routes=[
                    *api.ROUTES,
                    *downloads.ROUTES,
                    *(Route(f"{at}/media/{{name}}", _media) for at in ("", "/static")),
                ],
                middleware=[Middleware(downloads.MediaGuard)],
            )
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=self.host) as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(ask())

    def get(self, path: str, headers: Any = None) -> httpx.Response:
        return self.request("GET", path, headers)
