"""Files that people take along: made when they are asked for, and only for who may see what they hold.

They don't go through Streamlit's media folder, whose files anybody can fetch who knows their address.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from app import faults, statement_files, tasks
from app.callers import RefusedError, person
from app.configured import configured
from app.ledger_files import Reader
from app.sign_in import Viewer
from exporter.errors import GpuLedgerError
from pipelines.book.focus.columns import VERSIONS
from pipelines.config import Config

ROOT: Final = "/downloads"
FOCUS_TYPES: Final = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def statement_address(tenant: str, period: str, format_: str) -> str:
    """Where a statement is had."""
    return f"{ROOT[1:]}/statements/{quote(period, safe='')}/{quote(tenant, safe='')}.{format_}"


def focus_address(period: str, format_: str, version: str, tenant: str | None = None) -> str:
    """Where a month's rows of FOCUS are had, of all tenants or of one."""
    query = urlencode({"version": version, **({"tenant": tenant} if tenant else {})})
    return f"{ROOT[1:]}/focus/{quote(period, safe='')}.{format_}?{query}"


def task_address(task: tasks.Task) -> str:
    """Where what a task made is had."""
    return f"{ROOT[1:]}/tasks/{task.id}"


def statement(request: Request, config: Config, who: Viewer) -> Response:
    """Answer with a closed statement, or for those who see the whole fleet with a draft."""
    period, tenant, format_ = (request.path_params[name] for name in ("period", "tenant", "format"))
    if who.tenants is not None and tenant not in who.tenants:
        raise RefusedError(404, "there is no such statement")
    if format_ not in statement_files.TYPES:
        raise RefusedError(404, f"{format_}: no such format; there are {', '.join(statement_files.TYPES)}")
    found = statement_files.made(config, tenant, period, draft=who.tenants is None)
    if found is None:
        raise RefusedError(404, "there is no such statement")
    name = statement_files.file_name(found.statement, format_)
    return _attached(found.rendered(format_), name, statement_files.TYPES[format_])


def focus(request: Request, config: Config, who: Viewer) -> Response:
    """Answer with a month's rows of FOCUS."""
    _fleet_only(who)
    period, format_ = (request.path_params[name] for name in ("period", "format"))
    version, tenant = request.query_params.get("version", "1.2"), request.query_params.get("tenant")
    if format_ not in FOCUS_TYPES or version not in VERSIONS:
        raise RefusedError(404, f"there are {', '.join(FOCUS_TYPES)} of FOCUS {', '.join(VERSIONS)}")
    _known(configured()[1].fleet(), period, tenant)
    content = statement_files.focus(config, period, format_, version, tenant)
    whose = f"-{tenant}" if tenant else ""
    return _attached(content, f"focus-{version}{whose}-{period}.{format_}", FOCUS_TYPES[format_])


def task(request: Request, _config: Config, who: Viewer) -> Response:
    """Answer with what a task made, to who started it."""
    _fleet_only(who)
    found = tasks.of(who).get(request.path_params["id"])
    if found is None or found.state != "done":
        raise RefusedError(404, "there is no such file any more; make it again")
    return FileResponse(found.path, media_type="application/zip", filename=found.path.name, headers=_HEADERS)


Answer = Callable[[Request, Config, Viewer], Response]
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def guarded(answer: Answer) -> Callable[[Request], Response]:
    """Return the endpoint that asks first who is signed in, and turns errors into answers."""

    def endpoint(request: Request) -> Response:
        try:
            config, _ = configured()
            return answer(request, config, person(config.access, request.headers, request.cookies, os.environ))
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        except GpuLedgerError as error:
            return JSONResponse({"error": faults.told(error)}, faults.status_of(error))

    return endpoint


ROUTES: Final = [
    Route(f"{ROOT}/statements/{{period}}/{{tenant}}.{{format}}", guarded(statement)),
    Route(f"{ROOT}/focus/{{period}}.{{format}}", guarded(focus)),
    Route(f"{ROOT}/tasks/{{id}}", guarded(task)),
]


class MediaGuard:
    """Lets nobody at Streamlit's media files who isn't signed in; its own logo stands before the door too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "http" and _is_made(scope["path"]):
            request = Request(scope)
            try:
                person(configured()[0].access, request.headers, request.cookies, os.environ)
            except GpuLedgerError:
                await Response(status_code=404)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_made(path: str) -> bool:
    """Whether a path is of what a session made, not of Streamlit's own fonts or this app's logo."""
    return "/media/" in path and "/static/media/" not in path and not path.endswith(".svg")


def _known(fleet: Reader, period: str, tenant: str | None) -> None:
    """Refuse months and tenants that are not in the ledger."""
    if not fleet.ask("SELECT count(*) FROM period WHERE period = $period", {"period": period}).item():
        raise RefusedError(404, f"{period}: the ledger has no such month")
    if tenant and not fleet.ask("SELECT count(*) FROM tenant WHERE id = $tenant", {"tenant": tenant}).item():
        raise RefusedError(404, f"{tenant}: there is no such tenant")


def _fleet_only(who: Viewer) -> None:
    if who.tenants is not None:
        raise RefusedError(404, "there is no such file")


def _attached(content: bytes, name: str, media_type: str) -> Response:
    named = f"attachment; filename*=utf-8''{quote(name, safe='')}"
    return Response(content, media_type=media_type, headers={**_HEADERS, "Content-Disposition": named})
