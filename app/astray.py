"""Addresses that lie deeper than any page lead to a page.

Streamlit answers every address that it doesn't know with its shell, which looks for its scripts beside itself: below a
page there are none, and the window would stay blank without a word.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Astray:
    """Sends who asks for what lies below a page to the first page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        path: str = scope.get("path", "")
        above = path.count("/") - 1
        if scope["type"] != "http" or above < 1 or path.endswith(".html"):
            await self._app(scope, receive, send)
            return
        redirected = False

        async def answer(message: Message) -> None:
            nonlocal redirected
            if message["type"] == "http.response.start" and message["status"] == 200:
                redirected = Headers(raw=message["headers"]).get("content-type", "").startswith("text/html")
                if redirected:
                    # Relative, since a proxy may have taken a part of the path away.
                    await RedirectResponse("../" * above)(scope, receive, send)
            if not redirected:
                await send(message)

        await self._app(scope, receive, answer)
