"""Jobs of every family through the whole pipeline: what it says of them, and that their waste adds up.

`make bench-why` does this with hundreds of jobs and counts; here one of each family has to come out, and nobody may be
accused wrongly.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from pipelines.analysis.causes import ACCUSING, UNKNOWN
from pipelines.config import load
from pipelines.operations import run_once
from pipelines.publish import current
from pipelines.simulate.behaviours.jobs import FAMILIES
from pipelines.simulate.behaviours.scenes import simulate_jobs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of one job of each family, published. It is made once: drawing them takes seconds."""
    path: Path = tmp_path_factory.mktemp("jobs")
    simulate_jobs(path, jobs=len(FAMILIES), seed=5, hours=(1.6, 2.0))
    run_once(load(path / "gpuledger.yaml"))
    return path


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict[str, str]:
    told = json.loads((folder / "truth.json").read_text())["workloads"]
    return {job["workload"]: job["bottleneck"] for job in told}


def published(folder: Path, query: str) -> list[tuple[object, ...]]:
    ledger = load(folder / "gpuledger.yaml").ledger
    publication = current(ledger)
    assert publication is not None
    with duckdb.connect(ledger / "published" / publication.tenants["lab"], read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_most_jobs_are_told_right_and_nobody_is_accused_wrongly(folder: Path, truth: dict[str, str]) -> None:
    said = dict(published(folder, "SELECT workload, bottleneck FROM workload_period"))
    wrong = {w: (cause, said[w]) for w, cause in truth.items() if said[w] != cause}
    assert not [w for w, (_, answer) in wrong.items() if answer in ACCUSING]
    assert len(wrong) <= len(truth) // 8, wrong


def test_causes_add_up_to_the_tenants_waste(folder: Path) -> None:
    [(told,)] = published(folder, "SELECT sum(waste) FROM bottleneck")
    [(waste,)] = published(folder, "SELECT sum(waste) FROM tenant_period")
    assert told == waste
    assert Decimal(str(waste)) > 0


def test_shares_of_time_add_up_and_one_cause_is_the_main_one(folder: Path) -> None:
    query = "SELECT workload, sum(share_of_time), count(*) FILTER (main) FROM bottleneck GROUP BY workload"
    for workload, share, mains in published(folder, query):
        assert share == pytest.approx(1.0, abs=1e-5), workload
        assert mains == 1, workload


def test_every_answer_has_its_evidence_and_remedy(folder: Path) -> None:
    query = "SELECT cause, confidence, evidence, remedy FROM bottleneck WHERE cause <> 'unobserved'"
    for cause, confidence, evidence, remedy in published(folder, query):
        assert remedy
        if cause != UNKNOWN:
            assert 0.5 <= confidence <= 1.0, cause
            assert json.loads(evidence), cause


def test_a_tenant_can_look_at_the_hours_of_its_workloads(folder: Path, truth: dict[str, str]) -> None:
    [(workloads, hours)] = published(
        folder, "SELECT count(DISTINCT workload), count(DISTINCT hour) FROM bottleneck_window"
    )
    assert workloads == len(truth)
    assert hours > 24
