"""What an engine rolls up is, to the last bit, what is rolled up here, and lands in the same ledger."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from exporter.errors import ConfigError, EngineError
from gpuledger.cli import main
from pipelines import lake
from pipelines.config import Config, Source, load
from pipelines.engine import connect, tasks
from pipelines.engine.connect import SparkEngine, missing
from pipelines.engine.tasks import FAILED, Looking, done, measuring_task, packed, unpacked
from pipelines.ingest import ingest
from pipelines.lake import Stored
from pipelines.ledger import open_ledger
from pipelines.metering import Inputs, meter
from pipelines.operations import run_once
from pipelines.shown import Reading
from tests.pipelines.cases import Case, mig, owners, samples
from tests.pipelines.engine.conftest import free_port
from tests.pipelines.folders import configured, table, told, usage
from tests.pipelines.long_scenes import long_scene

NOW = datetime(2026, 4, 1, tzinfo=UTC)
SCENES = [case for part in (mig, owners, samples) for case in part.CASES][::6]
SPLITS = [case for case in owners.CASES if "is an estimate" in case.name]


def read(config: Config) -> Inputs:
    with open_ledger(config.ledger, "a test") as ledger:
        ingest(ledger, config.sources, config, configured=True, now=NOW)
        return ledger.inputs()


def long(seed: int, folder: Path) -> tuple[Config, Inputs]:
    scene = long_scene(seed)
    config = load(scene.configured(folder / "scene") / "gpuledger.yaml")
    with open_ledger(config.ledger, "a test") as ledger:
        for kind, path in scene.pieces(folder):
            named = {"cluster": "hall"} if kind in ("metrics", "sacct") else {}
            context = {"path": config.path, "zone": config.timezone}
            source = Source.model_validate({kind: str(path), **named}, context=context)
            ingest(ledger, [source], config, configured=False, now=NOW)
        return config, ledger.inputs()


def compared(config: Config, inputs: Inputs, url: str) -> None:
    expected = meter(inputs, config)
    with SparkEngine(url) as engine:
        found = meter(replace(inputs, samples=()), config, engine=engine)
    for name in ("usage", "leases", "outages"):
        assert_frame_equal(getattr(found, name), getattr(expected, name), check_exact=True)
    assert (found.findings, found.span) == (expected.findings, expected.span)
    assert [*found.state] == [*expected.state]
    for name, rows in expected.state.items():
        assert_frame_equal(found.state[name], rows, check_exact=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_fleet_of_days_is_what_it_is_here(
    seed: int, tmp_path: Path, sail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, inputs = long(seed, tmp_path)
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 200)  # a card or two in each task
    compared(config, inputs, sail)


@pytest.mark.parametrize("case", [*SCENES, *SPLITS], ids=lambda case: case.name)
def test_a_scene_is_what_it_is_here(case: Case, tmp_path: Path, sail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 1)  # a card in each task
    config = configured(case.scene, tmp_path)
    compared(config, read(config), sail)


def test_a_program_without_a_file_may_use_it(sail: str) -> None:
    program = f"from pipelines.engine.connect import SparkEngine\nwith SparkEngine({sail!r}) as e: e.connect()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_several_requests_are_one(tmp_path: Path, sail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config, inputs = long(3, tmp_path)
    monkeypatch.setattr(lake, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(connect, "WAVE_TASKS", 1)
    compared(config, inputs, sail)


def test_what_it_makes_lands_in_the_same_ledger(tmp_path: Path, sail: str) -> None:
    scene = next(case.scene for case in mig.CASES)
    here, there = configured(scene, tmp_path / "here"), configured(scene, tmp_path / "there")
    there.path.write_text(there.path.read_text() + f'\nengine: {{spark: "{sail}"}}\n')
    there = load(there.path)
    run_once(here)
    run_once(there)
    assert usage(there)
    assert usage(there) == usage(here)
    assert told(there) == told(here)
    assert table(there.ledger / "ledger.duckdb", "lease") == table(here.ledger / "ledger.duckdb", "lease")
    assert there.config_hash == here.config_hash  # where it is made says nothing of what is made


def test_another_release_on_a_worker_is_refused(tmp_path: Path, sail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config, inputs = long(0, tmp_path)
    monkeypatch.setattr(connect, "releases", lambda: ("gpuledger 99", "numpy 1", "polars 1"))
    with SparkEngine(sail) as engine, pytest.raises(EngineError, match=r"a worker .* this is gpuledger 99; install"):
        meter(inputs, config, engine=engine)


def test_a_part_that_a_worker_does_not_see_is_named(tmp_path: Path) -> None:
    looking = Looking(Stored(tmp_path, ["cluster=hall/day=2026-03-01/a.parquet"]), Reading(None, ()), "even",
                      pl.DataFrame(), tasks.releases(), tmp_path)  # fmt: skip
    cards = packed(pl.DataFrame({"cluster": ["hall"], "device": ["GPU-0"]}))
    (name, said), *more = done(looking, cards)
    assert (name, more) == (FAILED, [])
    assert "a.parquet: a part of the lake is missing" in said.decode()


def test_a_task_keeps_the_order_of_instances_and_devices_without_a_span() -> None:
    numbers = pl.DataFrame(
        {"dev": [0, 1, 2], "card": [0, 0, 0], "cluster": "c", "device": "d", "instance": [None, "1", "2"],
         "profile": [None, "1g", "2g"]},
        schema_overrides={"dev": pl.Int32, "card": pl.Int32},
    )  # fmt: skip
    spans = pl.DataFrame({"dev": [1], "start": [5], "end": [9], "weight": [0.5]}, schema_overrides={"dev": pl.Int32})
    found, devices, instances = tasks._opened(unpacked(measuring_task(spans, numbers, {0: [2, 1]})))
    assert_frame_equal(found, spans)
    assert_frame_equal(devices, numbers)
    assert instances == {0: [2, 1]}


def test_a_client_that_is_not_there_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CLIENT", ("json", "no_such_module"))
    assert missing("sc://127.0.0.1") == "engine.spark: no_such_module not installed; pip install 'gpuledger[spark]'"


def test_a_server_that_is_not_there_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CLIENT", ())
    url = f"sc://127.0.0.1:{free_port()}"
    said = missing(url)
    why = f"engine.spark: {url}: can't be reached: Connection refused"
    assert said == f"{why}; is its Spark Connect server up, and the URL right?"


def test_check_and_doctor_say_that_the_engine_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connect, "CLIENT", ("no_such_module",))
    path = tmp_path / "gpuledger.yaml"
    path.write_text("currency: USD\nengine: {spark: sc://spark}\n")
    assert main(["check", "--config", str(path)]) == 1
    line = "engine.spark: no_such_module not installed; pip install 'gpuledger[spark]'"
    assert capsys.readouterr().err == f"gpuledger: {line}\n"
    assert main(["doctor", "--config", str(path)]) == 1
    assert "wrong  engine: engine.spark: no_such_module not installed; pip install" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["http://spark:15002", "sc://", "spark", "sc://a b", "sc://x:1234567"])
def test_an_address_of_another_kind_is_refused(url: str, tmp_path: Path) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_text(f'currency: USD\nengine: {{spark: "{url}"}}\n')
    with pytest.raises(ConfigError, match=r"engine\.spark.* is no address of Spark Connect; write it as sc://"):
        load(path)


@pytest.mark.parametrize("url", ["sc://spark", "sc://spark.example.org:15002/;use_ssl=true", "sc://[::1]:15002"])
def test_addresses_of_spark_connect(url: str, tmp_path: Path) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_text(f'currency: USD\nengine: {{spark: "{url}"}}\n')
    assert load(path).engine.spark == url
