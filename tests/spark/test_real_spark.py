"""A real Spark cluster of two workers rolls up what one machine rolls up, row for row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines import lake
from pipelines.config import load
from pipelines.operations import run_once
from tests.pipelines.cases import Case, mig, owners, samples
from tests.pipelines.engine.test_engine import SPLITS, compared, long, read
from tests.pipelines.folders import configured, told, usage
from tests.spark.cluster import WORKERS, cluster

HOME = os.environ.get("GPULEDGER_SPARK_HOME", "")
SCENES = [*(case for part in (mig, owners, samples) for case in part.CASES[::12]), *SPLITS]

pytestmark = pytest.mark.skipif(not HOME, reason="a cluster takes minutes: make test-spark")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(folder: Path, repository: Path) -> Iterator[str]:
    with cluster(Path(HOME), folder, repository) as url:
        yield url


@pytest.mark.parametrize("seed", range(2))
def test_a_fleet_of_days_on_two_workers(seed: int, spark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, inputs = long(seed, tmp_path)
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 200)
    compared(config, inputs, spark)


@pytest.mark.parametrize("case", SCENES, ids=lambda case: case.name)
def test_a_scene_on_two_workers(case: Case, spark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 1)
    config = configured(case.scene, tmp_path)
    compared(config, read(config), spark)


def test_it_lands_in_the_same_ledger(spark: str, tmp_path: Path) -> None:
    scene = mig.CASES[0].scene
    here, there = configured(scene, tmp_path / "here"), configured(scene, tmp_path / "there")
    there.path.write_text(there.path.read_text() + f'\nengine: {{spark: "{spark}"}}\n')
    there = load(there.path)
    run_once(here)
    run_once(there)
    assert usage(there) == usage(here) != []
    assert told(there) == told(here)


def test_both_workers_worked(spark: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 1)
    config, inputs = long(3, tmp_path)
    compared(config, inputs, spark)
    logs = [[*(folder / f"worker-{number}").glob("app-*/*/stderr")] for number in range(1, WORKERS + 1)]
    assert all("Running task" in "".join(log.read_text() for log in of_one) for of_one in logs)
