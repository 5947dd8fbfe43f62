"""The HTTP API: the same figures as everywhere, to whom they belong."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from app import api
from app.api_reference import ROOT
from pipelines.config import load
from pipelines.operations import report, run_once
from tests.app.asgi import Client
from tests.app.conftest import HOSTILE, write
from tests.app.test_ledger_files import files_open

TOKENS: Final = [
    {"token_env": "FINANCE_TOKEN", "role": "finance"},
    {"token_env": "VISION_TOKEN", "tenants": ["vision"]},
    {"token_env": "UNSET_TOKEN", "role": "operator"},
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("api"), access={"tokens": TOKENS})
    run_once(load(path))
    return path


@pytest.fixture
def client(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("GPULEDGER_CONFIG", str(ledger))
    monkeypatch.setenv("FINANCE_TOKEN", "f1")
    monkeypatch.setenv("VISION_TOKEN", "v1")
    return Client()


def asked(client: Client, path: str, token: str = "f1") -> Any:
    return client.get(f"{ROOT}/{path}", headers={"Authorization": f"Bearer {token}"})


def test_figures_are_the_report_s(client: Client, ledger: Path) -> None:
    found = report(load(ledger), period="2026-11")
    (row,) = asked(client, "tenants/secret/report?period=2026-11").json()
    assert row["total"] == next(t.charges.total for t in found.tenants if t.tenant == "secret")
    assert row["utilization"] is None
    assert asked(client, "report/2026-11").json()["fleet"]["cost"] == found.fleet.cost
    workloads = asked(client, "tenants/vision/workloads?period=2026-11").json()
    assert {w["workload"] for w in workloads} <= set(HOSTILE)


def test_csv_says_what_json_says_and_runs_nothing(client: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(asked(client, "tenants/vision/usage?format=csv").text)))
    assert sum(Decimal(r["gpu_hours"]) for r in rows) == pytest.approx(
        Decimal(sum(r["gpu_hours"] for r in asked(client, "tenants/vision/usage").json()))
    )
    assert api._cell("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0"
    assert api._cell("-12.50") == "-12.50"


def test_periods_and_tenants_are_listed(client: Client) -> None:
    assert [p["period"] for p in asked(client, "periods").json()] == ["2026-10", "2026-11"]
    assert "secret" in asked(client, "tenants").json()


@pytest.mark.parametrize("token", ["", "wrong", "v", "UNSET_TOKEN", "é"])
def test_without_a_token_there_is_no_answer(client: Client, token: str) -> None:
    answer = client.get(f"{ROOT}/tenants", headers={"Authorization": f"Bearer {token}".encode()})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "path",
    [
        "tenants/secret/report",
        "tenants/secret/workloads?format=csv",
        "tenants/nobody/report",
        "tenants/secret/statements/2026-11.json",
        "tenants/vision/nonsense",
        "tenants/..%2Ffleet-1/report",
    ],
)
def test_a_member_s_token_reads_nothing_else(client: Client, path: str) -> None:
    before = files_open()
    answer = asked(client, path, "v1")
    assert answer.status_code == 404
    assert "secret-job" not in answer.text
    assert not [name for name in files_open() - before if "vision" not in name]


@pytest.mark.parametrize("month", ["zzz", "2026-09", ""])
def test_a_month_that_isn_t_there_is_said(client: Client, month: str) -> None:
    for table in api.TABLES:
        answer = asked(client, f"tenants/vision/{table}?period={month}")
        assert (answer.status_code, "no such month" in answer.json()["error"]) == (404, True)


def test_another_tenant_looks_like_none(client: Client) -> None:
    other, none = (asked(client, f"tenants/{t}/report", "v1") for t in ("secret", "nobody"))
    assert other.text.replace("secret", "nobody") == none.text


def test_a_member_reads_its_own_and_not_the_fleet(client: Client) -> None:
    assert asked(client, "tenants", "v1").json() == ["vision"]
    assert asked(client, "tenants/vision/report", "v1").json()
    assert asked(client, "report/2026-11", "v1").status_code == 403
    assert asked(client, "tenants/vision/statements/2026-11.pdf", "v1").status_code == 404


def test_a_draft_is_made_for_finance(client: Client) -> None:
    answer = asked(client, "tenants/secret/statements/2026-11.json")
    assert answer.json()["status"] == "open"
    assert asked(client, "tenants/secret/statements/2026-11.docx").status_code == 404


def test_without_tokens_only_loopback_is_answered(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_CONFIG", str(published))
    for host, status in (("127.0.0.1:8501", 200), ("localhost", 200), ("[::1]:8501", 200), ("rebound.example", 403)):
        assert Client(f"http://{host}").get(f"{ROOT}/tenants").status_code == status, host


def test_it_is_read_only(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, f"{ROOT}/tenants").status_code == 405


def test_every_path_is_described(client: Client) -> None:
    described = client.get(f"{ROOT}/openapi.json").json()["paths"]
    routes = {route.path for route in api.ROUTES} - {f"{ROOT}/openapi.json"}
    assert set(described) == routes
