"""What is published, over HTTP for other systems: read-only, as JSON or CSV, by token.

A member's token opens the files of its own tenants and no other; another tenant's name is answered like one that
doesn't exist.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app import faults
from app.api_reference import ROOT, openapi
from app.callers import RefusedError, reader_of
from app.configured import configured
from app.ledger_files import LedgerFiles, Reader
from app.sign_in import Viewer
from exporter.errors import GpuLedgerError
from pipelines.config import Config
from pipelines.money import plain, round_money

TABLES: Final = {
    "report": """SELECT * FROM tenant_period WHERE tenant = $tenant AND ($period IS NULL OR period = $period)
        ORDER BY period""",
    "workloads": """SELECT * FROM workload_period WHERE tenant = $tenant AND ($period IS NULL OR period = $period)
        ORDER BY period, workload""",
    "usage": """SELECT period, day, tenant, model, class, gpu_hours FROM charge_day
        WHERE tenant = $tenant AND ($period IS NULL OR period = $period) ORDER BY day, model, class""",
}
"""What can be asked of a tenant."""


def periods(_request: Request, _config: Config, files: LedgerFiles, who: Viewer) -> Response:
    """Answer with the months that there are."""
    rows = _any_reader(files, who).ask('SELECT period, start, "end" FROM period ORDER BY period')
    return JSONResponse([{k: _json(v) for k, v in row.items()} for row in rows.iter_rows(named=True)])


def tenants(_request: Request, _config: Config, files: LedgerFiles, who: Viewer) -> Response:
    """Answer with the tenants that may be read."""
    published = files.publication().tenants
    return JSONResponse([tenant for tenant in published if who.tenants is None or tenant in who.tenants])


def fleet_report(request: Request, _config: Config, files: LedgerFiles, who: Viewer) -> Response:
    """Answer with the whole fleet's report of a month."""
    if who.tenants is not None:
        raise RefusedError(403, "the fleet's report is for operators and finance")
    rows = files.fleet().ask(
        "SELECT report FROM period_report WHERE period = $period", {"period": request.path_params["period"]}
    )
    if not rows.height:
        raise RefusedError(404, f"{request.path_params['period']}: no such month; see {ROOT}/periods")
    return Response(rows.item(), media_type="application/json")


def tenant_table(request: Request, config: Config, files: LedgerFiles, who: Viewer) -> Response:
    """Answer with one of TABLES of a tenant."""
    tenant, table = request.path_params["tenant"], request.path_params["table"]
    if table not in TABLES:
        raise RefusedError(404, f"{table}: no such table; there are {', '.join(TABLES)}")
    reader, period = _reader(files, who, tenant), request.query_params.get("period")
    known = reader.ask("SELECT count(*) FROM period WHERE $period IS NULL OR period = $period", {"period": period})
    if period is not None and not known.item():
        raise RefusedError(404, f"{period}: no such month; see {ROOT}/periods")
    rows = reader.ask(TABLES[table], {"tenant": tenant, "period": period})
    return _table(rows, config.currency, request.query_params.get("format", "json"))


def statement(request: Request, config: Config, files: LedgerFiles, who: Viewer) -> Response:
    """Answer with a closed statement, or for those who see the whole fleet with a draft."""
    from app.statement_files import TYPES, made  # noqa: PLC0415  brings the makers of PDF and Excel

    period, tenant, format_ = (request.path_params[name] for name in ("period", "tenant", "format"))
    _reader(files, who, tenant)
    if format_ not in TYPES:
        raise RefusedError(404, f"{format_}: no such format; there are {', '.join(TYPES)}")
    found = made(config, tenant, period, draft=who.tenants is None)
    if found is None:
        raise RefusedError(404, f"{period} isn't closed yet; its statement can be had once it is")
    return Response(found.rendered(format_), media_type=TYPES[format_])


def reference(_request: Request) -> Response:
    """Answer with the description of all this."""
    return JSONResponse(openapi(tuple(TABLES)))


Answer = Callable[[Request, Config, LedgerFiles, Viewer], Response]


def guarded(answer: Answer) -> Callable[[Request], Response]:
    """Return the endpoint that asks for the token first and turns errors into answers."""

    def endpoint(request: Request) -> Response:
        try:
            config, files = configured()
            who = reader_of(config.access, request.headers, os.environ)
            return answer(request, config, files, who)
        except RefusedError as refused:
            asked = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
            return JSONResponse({"error": str(refused)}, refused.status, headers=asked)
        except GpuLedgerError as error:
            return JSONResponse({"error": faults.told(error)}, faults.status_of(error))

    return endpoint


ROUTES: Final = [
    Route(f"{ROOT}/openapi.json", reference),
    Route(f"{ROOT}/periods", guarded(periods)),
    Route(f"{ROOT}/report/{{period}}", guarded(fleet_report)),
    Route(f"{ROOT}/tenants", guarded(tenants)),
    Route(f"{ROOT}/tenants/{{tenant}}/{{table}}", guarded(tenant_table)),
    Route(f"{ROOT}/tenants/{{tenant}}/statements/{{period}}.{{format}}", guarded(statement)),
]


def _reader(files: LedgerFiles, who: Viewer, tenant: str) -> Reader:
    allowed = who.tenants is None or tenant in who.tenants
    reader = files.tenant(tenant) if allowed else None
    if reader is None:
        raise RefusedError(404, f"{tenant}: no such tenant, or nothing is published for it; see {ROOT}/tenants")
    return reader


def _any_reader(files: LedgerFiles, who: Viewer) -> Reader:
    if who.tenants is None:
        return files.fleet()
    own = next((tenant for tenant in who.tenants if tenant in files.publication().tenants), "")
    return _reader(files, who, own)


def _table(rows: pl.DataFrame, currency: str, format_: str) -> Response:
    named = [{k: _json(v, currency) for k, v in row.items()} for row in rows.iter_rows(named=True)]
    if format_ == "json":
        return Response(json.dumps(named, ensure_ascii=False), media_type="application/json")
    if format_ == "csv":
        return Response(_csv(rows.columns, named), media_type="text/csv; charset=utf-8")
    raise RefusedError(400, f"format={format_}: write json or csv")


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return stream.getvalue()


def _cell(value: Any) -> Any:
    # A spreadsheet would run text that begins like a formula; numbers may begin with a minus.
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if risky and not value.lstrip("-").replace(".", "", 1).isdecimal() else value


def _json(value: Any, currency: str = "") -> Any:
    if isinstance(value, Decimal):
        return plain(round_money(value, currency))
    return value.isoformat() if hasattr(value, "isoformat") else value
