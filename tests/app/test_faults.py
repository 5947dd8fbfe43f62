"""What goes wrong is told without saying where things lie on the server, and is logged in full."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from streamlit.testing.v1 import AppTest

from app import faults, words
from app.sign_in import LOCAL, Viewer
from exporter.errors import ConfigError, GpuLedgerError, LedgerError, UsageError
from pipelines.config import load
from pipelines.operations import run_once
from tests.app.asgi import Client
from tests.app.conftest import write

TOKENS: Final = [
    {"token_env": "FINANCE_TOKEN", "role": "finance"},
    {"token_env": "VISION_TOKEN", "tenants": ["vision"]},
]
MAIN: Final = Path(__file__).parents[2] / "app" / "main.py"
ASKED: Final = (
    "/api/v1/periods",
    "/api/v1/tenants",
    "/api/v1/report/2026-11",
    "/api/v1/report/nonsense",
    "/api/v1/tenants/vision/report",
    "/api/v1/tenants/vision/statements/2026-11.json",
    "/downloads/statements/2026-11/vision.pdf",
    "/downloads/focus/2026-11.csv",
    "/downloads/focus/nonsense.csv",
)


def garbage(pattern: str) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.chmod(0o644)
            path.write_bytes(b"no such thing")

    return put


def misspelt(folder: Path) -> None:
    path = folder / "gpuledger.yaml"
    path.write_text(path.read_text() + "ratez: []\n")


def a_path_for_a_value(folder: Path) -> None:
    path = folder / "gpuledger.yaml"
    path.write_text(path.read_text() + f"ledger: {folder / 'gpuledger.yaml'}\n")


BREAKAGES: Final = {
    "no configuration": lambda folder: (folder / "gpuledger.yaml").unlink(),
    "a misspelt key": misspelt,
    "a file for a ledger": a_path_for_a_value,
    "no YAML": garbage("gpuledger.yaml"),
    "nothing published": lambda folder: shutil.rmtree(folder / "ledger" / "published"),
    "a damaged pointer": garbage("ledger/published/*.json"),
    "damaged files": garbage("ledger/published/*.duckdb"),
    "a damaged book": lambda folder: (
        (folder / "ledger" / "books").mkdir(exist_ok=True),
        (folder / "ledger" / "books" / "chain.jsonl").write_text("{}\n"),
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("whole"), access={"tokens": TOKENS})
    run_once(load(path))
    return path.parent


@pytest.fixture
def broken(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path / "srv"
    shutil.copytree(whole, folder)
    BREAKAGES[request.param](folder)
    monkeypatch.setenv("GPULEDGER_CONFIG", str(folder / "gpuledger.yaml"))
    monkeypatch.setenv("FINANCE_TOKEN", "f1")
    monkeypatch.setenv("VISION_TOKEN", "v1")
    return folder


@pytest.mark.parametrize("broken", BREAKAGES, indirect=True)
def test_no_answer_over_http_says_where_files_lie(broken: Path) -> None:
    client = Client()
    for path in ASKED:
        for token in ("f1", "v1"):
            answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
            assert str(broken) not in answer.text, (path, token)
            assert "/tmp" not in answer.text, (path, token)
            assert answer.status_code < 500 or answer.json()["error"], (path, token)


@pytest.mark.parametrize("broken", ["no configuration", "a misspelt key", "no YAML"], indirect=True)
def test_a_broken_configuration_is_the_servers_fault(broken: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gpuledger.app"):
        answer = Client().get("/api/v1/periods", headers={"Authorization": "Bearer f1"})
    assert answer.status_code == 503
    assert answer.json() == {"error": faults.MISCONFIGURED}
    assert str(broken) in caplog.text


@pytest.mark.parametrize("broken", ["a misspelt key"], indirect=True)
def test_a_page_says_of_a_broken_configuration_only_that_it_is(broken: Path) -> None:
    page = AppTest.from_file(str(MAIN)).run(timeout=30)
    assert [e.value for e in page.error] == [words.sentence(faults.MISCONFIGURED)]
    assert str(broken) not in str(page)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LedgerError("/srv/gpu/ledger/published/fleet-3.duckdb: can't be read"), "fleet-3.duckdb: can't be read"),
        (LedgerError("can't read '/srv/a b/c.json', nor (/x/y)"), "can't read 'a b/c.json', nor (y)"),
        (UsageError("2026-13: no period; write 2026-10 or 2026/10"), "2026-13: no period; write 2026-10 or 2026/10"),
        (ConfigError("/srv/gpuledger.yaml: tenants[3].budget", "12 is not quoted"), faults.MISCONFIGURED),
    ],
)
def test_others_are_told_less_than_an_operator(error: GpuLedgerError, said: str) -> None:
    member = Viewer("ada", "member", ("vision",))
    assert faults.told(error, member) == faults.told(error) == said
    assert faults.told(error, LOCAL) == str(error)
