"""What people take along is theirs, is what the page says, and is had by nobody else."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import openpyxl
import polars as pl
import pypdfium2
import pytest
from streamlit.web.server.starlette import starlette_app_utils

from app import callers, downloads, tasks
from app.sign_in import Viewer
from exporter.errors import UsageError
from pipelines.book.closing import close
from pipelines.config import Access, load
from pipelines.operations import report
from tests.app.asgi import Client
from tests.app.conftest import GRANTS, OIDC, write
from tests.app.test_ledger_files import files_open
from tests.app.test_sign_in import claims

PROXY: Final = {"sign_in": "proxy", "proxy": {"secret_env": "PROXY_SECRET"}, "grants": GRANTS}
FINANCE, VISION, STRANGER = (
    {"X-Forwarded-Email": "ann@example.org", "X-Forwarded-Groups": group, "X-Gpuledger-Proxy": "s"}
    for group in ("finance", "team-vision", "strangers")
)


@pytest.fixture(scope="module")
def behind_a_proxy(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger behind a proxy: October is closed."""
    folder = tmp_path_factory.mktemp("proxied") / "ledger"
    shutil.copytree(published.parent, folder)
    path = write(folder, access=PROXY)
    close(load(path), "2026-10", now=datetime(2026, 12, 15, tzinfo=UTC), by="test")
    return path


@pytest.fixture
def client(behind_a_proxy: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("GPULEDGER_CONFIG", str(behind_a_proxy))
    monkeypatch.setenv("PROXY_SECRET", "s")
    return Client()


def of_statement(tenant: str, month: str, format_: str) -> str:
    return "/" + downloads.statement_address(tenant, month, format_)


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
def test_each_format_opens_and_says_the_same(client: Client, behind_a_proxy: Path, month: str) -> None:
    got = {f: client.get(of_statement("vision", month, f), FINANCE) for f in ("pdf", "xlsx", "csv", "json")}
    assert {answer.status_code for answer in got.values()} == {200}
    total = got["json"].json()["total"]
    assert total == next(
        t.charges.total for t in report(load(behind_a_proxy), period=month).tenants if t.tenant == "vision"
    )
    pdf = pypdfium2.PdfDocument(got["pdf"].content)
    assert f"{Decimal(total):,}" in "".join(page.get_textpage().get_text_bounded() for page in pdf)
    book = openpyxl.load_workbook(io.BytesIO(got["xlsx"].content), data_only=True)
    cells = [cell.value for sheet in book for row in sheet.iter_rows() for cell in row]
    assert any(isinstance(v, (int, float)) and f"{v:.2f}" == total for v in cells)
    rows = list(csv.reader(io.StringIO(got["csv"].text.removeprefix("\ufeff"))))
    assert any(total in row for row in rows)
    for format_, answer in got.items():
        assert answer.headers["Content-Disposition"].endswith(f"-vision-{month}.{format_}")
        assert answer.headers["Cache-Control"] == "no-store"


def test_focus_is_what_is_billed(client: Client, behind_a_proxy: Path) -> None:
    bills = {t.tenant: Decimal(t.charges.total) for t in report(load(behind_a_proxy), period="2026-11").tenants}
    for tenant, wanted in ((None, sum(bills.values())), ("vision", bills["vision"])):
        answer = client.get("/" + downloads.focus_address("2026-11", "csv", "1.2", tenant), FINANCE)
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert sum(Decimal(row["BilledCost"]) for row in rows) == wanted
        table = pl.read_parquet(
            io.BytesIO(client.get("/" + downloads.focus_address("2026-11", "parquet", "1.4", tenant), FINANCE).content)
        )
        assert table["BilledCost"].sum() == wanted


REFUSED: Final = [
    (of_statement("secret", "2026-10", "pdf"), VISION, 404),
    (of_statement("secret", "2026-11", "json"), VISION, 404),
    (of_statement("vision", "2026-11", "pdf"), VISION, 404),  # a draft is reckoned from the whole fleet
    (of_statement("nobody", "2026-10", "pdf"), VISION, 404),
    ("/" + downloads.focus_address("2026-11", "csv", "1.2"), VISION, 404),
    ("/" + downloads.focus_address("2026-11", "csv", "1.2", "vision"), VISION, 404),
    (of_statement("vision", "2026-10", "pdf"), STRANGER, 403),
    (of_statement("vision", "2026-10", "pdf"), {}, 401),
    (of_statement("vision", "2026-10", "pdf"), VISION | {"X-Gpuledger-Proxy": "wrong"}, 401),
    (of_statement("vision", "2026-10", "docx"), FINANCE, 404),
    (of_statement("secret", "1999-10", "pdf"), FINANCE, 404),
    ("/downloads/statements/2026-10/..%2F..%2Fgpuledger.yaml", FINANCE, 404),
    ("/downloads/focus/2026-11.csv?version=9", FINANCE, 404),
    ("/downloads/focus/2026-11.csv?tenant=nobody", FINANCE, 404),
    ("/downloads/focus/2026-09.csv", FINANCE, 404),
    ("/downloads/tasks/nonsense", FINANCE, 404),
    ("/media/0123.bin", {}, 404),
]


@pytest.mark.parametrize(("path", "headers", "status"), REFUSED, ids=lambda v: str(v)[-40:])
def test_nobody_takes_what_isn_t_theirs(client: Client, path: str, headers: dict[str, str], status: int) -> None:
    before = files_open()
    answer = client.get(path, headers)
    assert answer.status_code == status
    assert "secret-job" not in answer.text
    if headers is VISION:
        assert not files_open() - before


def test_the_door_has_its_fonts(client: Client) -> None:
    assert client.get("/static/media/SourceSans.woff2").status_code == 200


def test_a_member_takes_its_own_closed_statement(client: Client) -> None:
    answer = client.get(of_statement("vision", "2026-10", "json"), VISION)
    assert answer.json()["status"] == "closed"
    assert client.get("/media/0123.bin", VISION).status_code == 200
    assert client.get("/media/logo.svg").status_code == 200


def test_on_loopback_whoever_is_there_takes_it(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_CONFIG", str(published))
    for host, status in (("127.0.0.1:8501", 200), ("rebound.example", 403)):
        assert Client(f"http://{host}").get(of_statement("secret", "2026-11", "csv")).status_code == status, host


def cookie(secret: str, **changed: Any) -> dict[str, str]:
    person = {
        **claims(groups=["team-vision"], exp=datetime.now(UTC).timestamp() + 3600),
        "is_logged_in": True,
        **changed,
    }
    value = starlette_app_utils.create_signed_value(secret, callers.AUTH_COOKIE_NAME, json.dumps(person))
    return {callers.AUTH_COOKIE_NAME: value.decode() if isinstance(value, bytes) else value}


@pytest.mark.parametrize(
    ("cookies", "status"),
    [
        (cookie("right"), None),
        (cookie("wrong"), 401),
        (cookie("right", exp=0), 401),
        (cookie("right", is_logged_in=False), 401),
        (cookie("right", groups=["strangers"]), 403),
        ({callers.AUTH_COOKIE_NAME: "nonsense é"}, 401),
        ({}, 401),
    ],
    ids=["signed", "another's signature", "expired", "signed out", "stranger", "nonsense", "none"],
)
def test_a_sign_in_counts_while_it_lasts(
    cookies: dict[str, str], status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "get_cookie_secret", lambda: "right")
    access = load_access()
    if status is None:
        assert callers.person(access, {}, cookies, {}).tenants == ("vision",)
    else:
        with pytest.raises(callers.RefusedError) as refused:
            callers.person(access, {}, cookies, {})
        assert refused.value.status == status


def load_access() -> Access:
    return Access.model_validate(OIDC)


def finished(task: tasks.Task) -> tasks.Task:
    """Wait until a task's process has ended and been listened to."""
    assert task.process is not None
    task.process.wait(120)
    for _ in range(200):
        if task.state != "working":
            break
        time.sleep(0.05)
    return task


def test_all_statements_are_made_in_the_background(client: Client, behind_a_proxy: Path) -> None:
    ann, bob = Viewer("ann@example.org", "finance", None), Viewer("bob@example.org", "finance", None)
    work = ("Statements", "w1", "app.bulk", [str(behind_a_proxy), "2026-11"], "statements-2026-11.zip")
    task = tasks.start(ann, *work)
    assert tasks.start(ann, *work) is task
    with pytest.raises(UsageError, match="already"):
        tasks.start(ann, "Others", "w2", *work[2:])
    assert finished(task).state == "done", task.error
    assert task.done == task.total > 0
    assert task.id not in tasks.of(bob)
    path = "/" + downloads.task_address(task)
    assert client.get(path, FINANCE | {"X-Forwarded-Email": "bob@example.org"}).status_code == 404
    assert client.get(path, VISION).status_code == 404
    with zipfile.ZipFile(io.BytesIO(client.get(path, FINANCE).content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        drafts = [n for n in names if n.endswith(".json")]
        totals = [Decimal(total_of(archive.read(name))) for name in drafts]
    found = report(load(behind_a_proxy), period="2026-11")
    assert sum(totals) == Decimal(found.fleet.billed)
    assert len(names) == 4 * len(found.tenants) + 1


def total_of(content: bytes) -> str:
    return str(json.loads(content)["total"])


def test_what_is_cancelled_ends_and_leaves_nothing(behind_a_proxy: Path) -> None:
    who = Viewer("carl@example.org", "operator", None)
    task = tasks.start(who, "Statements", "w", "app.bulk", [str(behind_a_proxy), "2026-11"], "s.zip")
    tasks.cancel(Viewer("ann@example.org", "operator", None), task.id)
    assert task.state == "working"
    tasks.cancel(who, task.id)
    assert task.process is not None
    assert task.process.wait(60) != 0
    assert task.state == "cancelled"
    assert not task.path.parent.exists()


def test_what_fails_says_why(tmp_path: Path) -> None:
    who = Viewer("dora@example.org", "operator", None)
    task = tasks.start(who, "Statements", "w", "app.bulk", [str(tmp_path / "none.yaml"), "2026-11"], "s.zip")
    assert finished(task).state == "failed"
    assert "none.yaml" in task.error
