"""slurmrestd on loopback: which version is spoken, what is asked, and that a pass told again adds nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

from exporter.errors import SourceError
from pipelines.config import Source, load
from pipelines.ledger import LEDGER_NAME
from pipelines.operations import run_once
from pipelines.sources.slurm_rest import VERSIONS, read_slurm_rest
from tests.pipelines.sources.test_slurm_json import SLURM, accounted, controlled, tres

NOW = datetime.now(UTC).replace(microsecond=0)
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiAiYWRhIn0.x"  # of {"sun": "ada"}


class Slurmrestd:
    """Answers by path, less the version; writes down what it was asked."""

    def __init__(self, version: str) -> None:
        self.version, self.token = version, TOKEN
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.answers: dict[str, Any] = {}
        self.status: dict[str, int] = {}
        self.cut: set[str] = set()
        self.errors: dict[str, list[dict[str, Any]]] = {}
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        plugin, _, rest = parts.path.lstrip("/").partition("/")
        version, _, rest = rest.partition("/")
        path = f"{plugin}/{rest}"
        status = self.status.get(path, 200) if version == self.version else 404
        # Slurm 22.05 wants to be told whose token it is.
        if (request.headers.get("X-SLURM-USER-TOKEN"), request.headers.get("X-SLURM-USER-NAME")) != (self.token, "ada"):
            status = 401
        self.asked.append((path, parse_qs(parts.query)))
        empty = {"jobs": [], "nodes": [], "reservations": [], "partitions": [], "qos": [], "associations": []}
        document = self.answers.get(path, {rest: empty.get(rest, [])})
        body = json.dumps(
            {"meta": {"plugin": {}}, **document, "errors": self.errors.get(path, []), "warnings": []}
        ).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if path in self.cut else body)
        request.close_connection = path in self.cut


Start = Callable[..., Slurmrestd]


@pytest.fixture
def slurmrestd() -> Iterator[Start]:
    started = []

    def start(version: str = "v0.0.41") -> Slurmrestd:
        started.append(Slurmrestd(version))
        return started[-1]

    yield start
    for each in started:
        each.server.shutdown()
        each.server.server_close()


def source(folder: Path, url: str, **keys: Any) -> Source:
    (folder / "token").write_text(f"{TOKEN}\n")
    entry = {"slurmrestd": url, "cluster": "hpc", "bearer_token_file": "token", **keys}
    return Source.model_validate(entry, context={"path": folder / "gpuledger.yaml", "zone": None})


def times(begin: timedelta, end: timedelta | None) -> dict[str, Any]:
    start = round((NOW + begin).timestamp())
    until = 0 if end is None else round((NOW + end).timestamp())
    elapsed = round((NOW.timestamp() if end is None else until) - start)
    return {"time": {"start": start, "end": until, "elapsed": elapsed, "suspended": 0}}


def over(number: int, **changes: Any) -> dict[str, Any]:
    usual = {"job_id": number, "tres": {"allocated": tres(gpu=2)}, **times(timedelta(hours=-3), timedelta(hours=-1))}
    return accounted(**(usual | changes))


NODE = {
    "name": "n1", "hostname": "n1", "state": ["IDLE"], "gres": "gpu:h100:4", "tres": "cpu=8,gres/gpu=4",
    "partitions": ["gpu"],
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_that_is_spoken_is_found(slurmrestd: Start, tmp_path: Path, version: str) -> None:
    slurm = slurmrestd(version)
    slurm.answers["slurmdb/jobs"] = {"jobs": [over(1)]}
    batch = read_slurm_rest(source(tmp_path, slurm.url), (NOW - timedelta(minutes=5), NOW))
    assert batch.records.select("workload", "gpus", "ended").rows() == [("1", "2", True)]
    # 0.0.38 doesn't know the word, and tells every run of a requeued job all the same.
    (query,) = [query for path, query in slurm.asked if path == "slurmdb/jobs"]
    assert query.get("show_duplicates") == (None if version == "v0.0.38" else ["true"])


def test_accounting_running_jobs_nodes_and_limits_are_read(slurmrestd: Start, tmp_path: Path) -> None:
    slurm = slurmrestd()
    begun = round((NOW - timedelta(hours=1)).timestamp())
    slurm.answers |= {
        "slurmdb/jobs": {"jobs": [over(1)]},
        "slurm/jobs": {"jobs": [controlled(job_id=2, start_time={"set": True, "number": begun})]},
        "slurm/nodes": {"nodes": [NODE]},
        "slurmdb/qos": {"qos": [{"name": "big", "limits": {"max": {"tres": {"total": tres(gpu=64)}}}}]},
    }
    nothing = {"error_number": 9003, "error": "Nothing found with query", "source": "slurmdb_associations_get"}
    slurm.errors["slurmdb/associations"] = [nothing]
    batch = read_slurm_rest(source(tmp_path, slurm.url), (NOW - timedelta(minutes=5), NOW))
    assert batch.records.select("workload", "ended").rows() == [("1", True), ("2", False)]
    assert batch.facts["scheduler_node"].select("cluster", "node").rows() == [("hpc", "n1")]
    assert batch.findings == []
    assert {path for path, _ in slurm.asked} == {
        "slurm/ping", "slurm/jobs", "slurm/nodes", "slurm/reservations", "slurm/partitions",
        "slurmdb/jobs", "slurmdb/qos", "slurmdb/associations",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("since", "keys", "first", "answers"),
    [
        (None, {}, timedelta(days=91), 13),
        (None, {"since": (NOW - timedelta(days=20)).isoformat()}, timedelta(days=21), 3),
        (NOW.replace(hour=12), {}, timedelta(hours=25), 1),
        (NOW.replace(hour=12) - timedelta(days=1), {}, timedelta(days=9), 2),
    ],
)
def test_how_far_back_is_asked(
    slurmrestd: Start, tmp_path: Path, since: datetime | None, keys: Mapping[str, str], first: timedelta, answers: int
) -> None:
    slurm = slurmrestd()
    now = NOW if since is None else NOW.replace(hour=12)
    window = None if since is None else (since, now)
    read_slurm_rest(source(tmp_path, slurm.url, **keys), window, now=lambda: NOW)
    asked = [query for path, query in slurm.asked if path == "slurmdb/jobs"]
    assert len(asked) == answers
    assert datetime.fromisoformat(asked[0]["start_time"][0]).replace(tzinfo=UTC) == now - first
    assert datetime.fromisoformat(asked[-1]["end_time"][0]).replace(tzinfo=UTC) == now + timedelta(days=1)
    overlaps = pairwise(asked)
    assert all(before["end_time"] > after["start_time"] for before, after in overlaps)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("token", r"refuses the sign-in \(HTTP 401\); check `bearer_token_file`"),
        ("version", r"none of the versions v0\.0\.38 to v0\.0\.44"),
        ("accounting", r"answered /slurmdb/v0\.0\.41/jobs with HTTP 500"),
        ("cut", "jobs in part only|could not be reached"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_taken_for_an_empty_answer(
    slurmrestd: Start, tmp_path: Path, fault: str, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.sources.prometheus.connection._FIRST_PAUSE_SECONDS", 0.0)
    slurm = slurmrestd("v0.0.36" if fault == "version" else "v0.0.41")
    if fault == "token":
        slurm.token = "another"
    if fault == "accounting":
        slurm.status["slurmdb/jobs"] = 500
    if fault == "cut":
        slurm.cut.add("slurmdb/jobs")
    with pytest.raises(SourceError, match=match):
        read_slurm_rest(source(tmp_path, slurm.url), (NOW - timedelta(minutes=5), NOW))


def test_a_pass_adds_what_is_new_and_a_running_job_goes_on(slurmrestd: Start, tmp_path: Path) -> None:
    slurm = slurmrestd()
    slurm.answers |= {"slurmdb/jobs": {"jobs": [over(1)]}, "slurm/nodes": {"nodes": [NODE]}}
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "gpuledger.yaml").write_text(
        f"currency: USD\nsources: [{{slurmrestd: '{slurm.url}', cluster: hpc, bearer_token_file: token}}]\n"
        "rates: [{model: '*', on_demand: '1.00'}]\n"
    )
    config = load(tmp_path / "gpuledger.yaml")
    assert run_once(config).ingested.records == 1
    assert run_once(config).ingested.records == 0
    slurm.answers["slurmdb/jobs"] = {"jobs": [over(1), over(2, **times(timedelta(hours=-1), timedelta(minutes=-1)))]}
    assert run_once(config).ingested.records == 1
    with duckdb.connect(str(config.ledger / LEDGER_NAME), read_only=True) as connection:
        kept = {
            name: connection.execute(f"SELECT count(*) FROM fact_{name}").fetchall()[0][0]
            for name in ("condition", "scheduler_node")
        }
    assert kept == {"condition": 2, "scheduler_node": 2}, "three passes said the same of the node"


@pytest.mark.skipif(not SLURM.is_dir(), reason="the public recordings are not beside the checkout")
@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.41"])
def test_recorded_answers_are_read_over_http(slurmrestd: Start, tmp_path: Path, version: str) -> None:
    folder = SLURM / ("telegraf" if version == "v0.0.38" else "slurmrestd/24.05_0.0.41")
    names = (
        {"slurm/jobs": "jobs", "slurm/nodes": "nodes", "slurm/partitions": "partitions",
         "slurm/reservations": "reservations"}
        if version == "v0.0.38"
        else {"slurmdb/jobs": "slurmdb-job-gpus-completed", "slurm/jobs": "slurm-job-gpus-running",
              "slurm/nodes": "slurm-node-with-gpus-model-allocated", "slurm/partitions": "slurm-partitions",
              "slurm/reservations": "slurm-reservations"}
    )  # fmt: skip
    slurm = slurmrestd(version)
    slurm.answers |= {path: json.loads((folder / f"{name}.json").read_text()) for path, name in names.items()}
    batch = read_slurm_rest(source(tmp_path, slurm.url), (NOW - timedelta(minutes=5), NOW))
    assert batch.facts["slurm_partition"].height > 0
    assert {finding.code for finding in batch.findings} <= {"bad_line", "gpus_not_tracked"}
