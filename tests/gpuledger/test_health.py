"""`gpuledger doctor` names what is wrong and its mend, and changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import duckdb
import pytest

from gpuledger import cli
from gpuledger.health import Outcome, check_folder, examine
from tests.end_to_end.commands import gpuledger, obey_permissions

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def outcomes(folder: Path, *sources: str) -> dict[str, Outcome]:
    lines = ["currency: USD", "sources:" if sources else "", *(f"  - {source}" for source in sources)]
    (folder / "gpuledger.yaml").write_text("\n".join(lines) + "\n")
    return {outcome.subject: outcome for outcome in examine(folder / "gpuledger.yaml", now=NOW)}


def test_a_missing_source_is_wrong_and_an_empty_one_is_noted(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").touch()
    found = outcomes(tmp_path, "{allocations: a.csv}", "{sacct: sacct.txt}")
    assert found["source allocations"].state == "wrong"
    assert "no such file" in found["source allocations"].found
    assert found["source sacct"].state == "note"


def test_what_was_never_published_is_noted_with_the_command_that_does(tmp_path: Path) -> None:
    found = outcomes(tmp_path)["freshness"]
    assert (found.state, found.mend) == ("note", "gpuledger run --once")


@pytest.mark.parametrize(("hours", "state"), [(0.5, "ok"), (3, "note")])
def test_old_facts_are_noted(hours: float, state: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "fleet.duckdb").touch()
    written = NOW.timestamp() - hours * 3600
    os.utime(tmp_path / "ledger" / "fleet.duckdb", (written, written))
    assert outcomes(tmp_path)["freshness"].state == state


def test_what_is_damaged_is_wrong_and_named(tmp_path: Path) -> None:
    for name in ("ledger.duckdb", "published/current.json"):
        (tmp_path / "ledger" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ledger" / name).write_text("junk")
    found = outcomes(tmp_path)
    assert (found["ledger file"].state, found["published"].state) == ("wrong", "wrong")
    assert "ledger.duckdb" in found["ledger file"].found
    assert "current.json" in found["published"].found
    assert cli.main(["doctor", "--config", str(tmp_path / "gpuledger.yaml")]) == 1


def test_a_duckdb_file_of_something_else_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    duckdb.connect(str(tmp_path / "ledger" / "ledger.duckdb")).close()
    assert "is no ledger" in outcomes(tmp_path)["ledger file"].found


def test_a_ledger_that_is_no_folder_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    assert check_folder(tmp_path / "ledger" / "deeper").state == "wrong"


def test_a_ledger_without_permission_is_wrong(tmp_path: Path) -> None:
    outcomes(tmp_path)
    tmp_path.chmod(0o500)
    done = gpuledger("doctor", "--config", tmp_path / "gpuledger.yaml", before=obey_permissions)
    assert done.returncode == 1
    assert f"wrong  ledger: {tmp_path}: no permission to write" in done.stdout


@pytest.fixture
def http_status() -> Iterator[tuple[str, list[int]]]:
    """The URL of a server, and the status that it answers with."""
    status = [200]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", status
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "state"), [(200, "ok"), (401, "ok"), (404, "wrong")])
def test_a_prometheus_is_asked(status: int, state: str, http_status: tuple[str, list[int]], tmp_path: Path) -> None:
    url, answers = http_status
    answers[0] = status
    assert outcomes(tmp_path, f'{{prometheus: "{url}"}}')["source prometheus"].state == state


def test_a_prometheus_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    assert outcomes(tmp_path, '{prometheus: "http://127.0.0.1:9"}')["source prometheus"].state == "wrong"


def test_the_command_fails_when_something_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes(tmp_path, "{allocations: a.csv}")
    assert cli.main(["doctor", "--config", str(tmp_path / "gpuledger.yaml")]) == 1
    out, err = capsys.readouterr()
    assert "wrong  source allocations: " in out
    assert err == ""
    (tmp_path / "a.csv").write_text("start,end,gpus,device,model,tenant,workload,class\n")
    assert cli.main(["doctor", "--config", str(tmp_path / "gpuledger.yaml")]) == 0


def test_a_wrong_configuration_is_an_outcome_like_others(tmp_path: Path) -> None:
    found = {o.subject: o for o in examine(tmp_path / "absent.yaml", now=NOW)}
    assert found["configuration"].state == "wrong"
