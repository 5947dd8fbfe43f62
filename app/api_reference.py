"""The description of the HTTP API, as OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

ROOT: Final = "/api/v1"

_PERIOD: Final = {"type": "string", "pattern": r"^\d{4}-\d{2}$", "examples": ["2026-11"]}
_ERROR: Final = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_ROWS: Final = {"type": "array", "items": {"type": "object"}}


def openapi(tables: Sequence[str]) -> dict[str, Any]:
    """Return the description.

    Args:
        tables: what can be asked of a tenant.
    """
    tenant = _parameter("tenant", "path", {"type": "string"})
    period = _parameter("period", "path", _PERIOD)
    kinds = {"type": "string", "enum": list(tables)}
    formats = {"type": "string", "enum": ["pdf", "xlsx", "csv", "json"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "GPULedger", "version": "1", "description": "What is published, read-only."},
        "security": [{"token": []}],
        "paths": {
            f"{ROOT}/periods": _get("The months that there are", [], _ROWS),
            f"{ROOT}/tenants": _get(
                "The tenants that this token reads", [], {"type": "array", "items": {"type": "string"}}
            ),
            f"{ROOT}/report/{{period}}": _get("The whole fleet's report", [period], {"type": "object"}),
            f"{ROOT}/tenants/{{tenant}}/{{table}}": _get(
                "A tenant's months, workloads or usage; money is text in the currency's minor unit, null is unknown",
                [
                    tenant,
                    _parameter("table", "path", kinds),
                    _parameter("period", "query", _PERIOD),
                    _parameter("format", "query", {"type": "string", "enum": ["json", "csv"], "default": "json"}),
                ],
                _ROWS,
                csv=True,
            ),
            f"{ROOT}/tenants/{{tenant}}/statements/{{period}}.{{format}}": _get(
                "A tenant's statement: closed, or a draft for those who see the whole fleet",
                [tenant, period, _parameter("format", "path", formats)],
                {"type": "object"},
            ),
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
    }


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _get(summary: str, parameters: list[Any], schema: dict[str, Any], *, csv: bool = False) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    error = {
        "description": "Why not",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    answers = {
        "200": {"description": summary, "content": content},
        **dict.fromkeys(("401", "403", "404", "503"), error),
    }
    return {"get": {"summary": summary, "parameters": parameters, "responses": answers}}
