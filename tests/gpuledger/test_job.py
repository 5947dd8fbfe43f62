"""``gpuledger job``: what jobstats users expect and more, from what is published and the lake."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuledger import cli
from pipelines import fleet_state, store
from pipelines.config import load
from pipelines.instants import to_ms
from pipelines.operations import run_once
from pipelines.publish import FOLDER, POINTER, current
from tests.pipelines.scene import START, Job, Scene, seen

Capture = pytest.CaptureFixture[str]

MIB = 2**20


def engine(minute: float) -> float:
    return 0.0 if 60 <= minute < 120 else 0.9


def told(minute: float, steps: float, *, rank: int, tokens: float) -> list[str]:
    """What two ranks of job 4711 say of themselves."""
    values = {"steps_total": steps, "tokens_total": tokens, "step_seconds_total": 75, "data_wait_seconds_total": 25,
              "start_time_seconds": to_ms(START) / 1000}  # fmt: skip
    at = to_ms(START) + round(minute * 60_000)
    labels = f'hpc_job="4711",rank="{rank}",run="bert"'
    return [f"gpuledger_training_{name}{{{labels}}} {value} {at}" for name, value in values.items()]


SCENE = Scene(
    [
        seen("GPU-0", (0, 120), job="4711", engine=engine, power=300, memory=20_000,
             DCGM_FI_DEV_FB_FREE=60_000),
        seen("GPU-1", (0, 120), job="4711", engine=0.9, util=90, power=300, memory=lambda m: 10_000 + 100 * m,
             DCGM_FI_DEV_FB_FREE=60_000),
        seen("GPU-2", (0, 120), "astro/\x1b[31mtrain-0", engine=0.5, util=50),
        seen("GPU-3", (0, 120), "stray/x", engine=0.5, util=50),
    ],
    jobs=[Job("4711", (0, 120), "gres/gpu=2")],
    raw=[*told(110, 1000, rank=0, tokens=2e6), *told(110, 1000, rank=1, tokens=2e6)],
)  # fmt: skip


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = SCENE.write(tmp_path_factory.mktemp("job")) / "gpuledger.yaml"
    assert cli.main(["run", "--once", "--config", str(config)]) == 0
    return config


def job(ledger: Path, name: str, capsys: Capture) -> dict[str, Any]:
    assert cli.main(["job", name, "--config", str(ledger), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_who_what_and_when(ledger: Path, capsys: Capture) -> None:
    found = job(ledger, "4711", capsys)
    assert (found["user"], found["tenants"], found["account"], found["nodes"]) == ("u1", ["astro"], "astro", ["rack1"])
    assert (found["start"], found["end"], found["kind"]) == ("2026-03-02T09:00:00Z", "2026-03-02T11:00:00Z", "slurm")
    assert found["gpu_hours"] == 4.0
    assert found["devices_known"] is True


def test_each_gpu_with_its_use_memory_and_energy(ledger: Path, capsys: Capture) -> None:
    found = job(ledger, "4711", capsys)
    first, second = found["gpus"]
    assert (first["device"], first["busy"], second["busy"]) == ("GPU-0", 0.45, 0.9)
    assert first["memory_peak_bytes"] == 20_000 * MIB
    assert first["memory_total_bytes"] == 80_000 * MIB
    assert second["memory_peak_bytes"] == pytest.approx((10_000 + 100 * 119) * MIB)
    assert first["memory_mean_bytes"] == pytest.approx(20_000 * MIB)
    assert first["energy_kwh"] == pytest.approx(0.6, abs=0.01)
    assert found["energy_kwh"] == pytest.approx(first["energy_kwh"] + second["energy_kwh"])
    assert first["timeline"][:30] == [0.9] * 30
    assert first["timeline"][30:] == [0.0] * 30
    assert found["timeline"]["step_seconds"] == 120


def test_its_money_is_the_reports(ledger: Path, capsys: Capture) -> None:
    found = job(ledger, "4711", capsys)
    assert cli.main(["report", "--config", str(ledger), "--json"]) == 0
    tenants = json.loads(capsys.readouterr().out)["tenants"]
    (same,) = [w for t in tenants for w in t["workloads"] if w["workload"] == "4711"]
    assert found["cost"] == same["cost"] == "12.00"
    assert found["bottleneck"] == same["bottleneck"]
    parts = [Decimal(cause["waste"]) for cause in found["causes"] if cause["waste"] is not None]
    assert sum(parts) == Decimal(found["waste"])


def test_what_it_says_of_itself_prices_steps_and_overrules_what_was_inferred(ledger: Path, capsys: Capture) -> None:
    found = job(ledger, "4711", capsys)
    training = found["training"]
    assert (training["ranks"], training["steps"], training["tokens"]) == (2, 1000, 4e6)
    assert Decimal(training["cost_per_step"]) == Decimal("0.012")
    assert Decimal(training["cost_per_million_tokens"]) == 3
    assert training["waits"] == 0.25
    causes = {cause["cause"]: cause for cause in found["causes"]}
    assert causes["input"]["evidence"][0]["feature"] == "measured_data_wait"
    assert causes["idle"]["gpu_hours"] == pytest.approx(1.0, abs=0.02)


def test_what_its_tenant_sees_of_it(ledger: Path) -> None:
    publication = current(ledger.parent / "ledger")
    assert publication is not None
    path = ledger.parent / "ledger" / FOLDER / publication.tenants["astro"]
    with store.opened(path, read_only=True) as connection:
        ranks = fleet_state.read(connection)["training"]
    assert ranks.select("workload", "rank", "steps").sort("rank").rows() == [("4711", "0", 1000), ("4711", "1", 1000)]


@pytest.mark.parametrize(
    ("seen_for", "as_of", "state"), [(120, 125, "running"), (200, 205, "ended"), (120, 400, "last_seen_running")]
)
def test_whether_it_runs_is_said_as_of_when_its_own_cluster_was_seen(
    seen_for: int, as_of: int, state: str, tmp_path: Path, capsys: Capture
) -> None:
    config = (
        Scene([seen("GPU-0", (0, 120), "astro/train", engine=0.9), seen("GPU-1", (0, seen_for), engine=0.0)]).write(
            tmp_path
        )
        / "gpuledger.yaml"
    )
    other = Scene([seen("GPU-2", (0, 400), engine=0.0)]).write(tmp_path / "elsewhere")
    settings = yaml.safe_load(config.read_text())
    settings["sources"].append({"metrics": str(other / "metrics.prom"), "cluster": "elsewhere"})
    config.write_text(yaml.safe_dump(settings))
    run_once(load(config))
    pointer = tmp_path / "ledger" / FOLDER / POINTER
    told = json.loads(pointer.read_text())
    pointer.write_text(json.dumps(told | {"as_of": (START + timedelta(minutes=as_of)).isoformat()}))
    assert job(config, "astro/train", capsys)["state"] == state
    assert cli.main(["job", "astro/train", "--config", str(config)]) == 0
    said = {"last_seen_running": "running when the cluster was last seen"}.get(state, state)
    assert f"astro/train on hall, {said}" in capsys.readouterr().out


def test_for_people(ledger: Path, capsys: Capture) -> None:
    assert cli.main(["job", "4711", "--config", str(ledger)]) == 0
    out = capsys.readouterr().out
    for text in ("4711 on hall", "USD 12.00", "19.5 GiB", "@" * 30 + "_" * 30 + "  GPU-0", "Held and idle", "try: ",
                 "a step costs", "USD 0.01200"):  # fmt: skip
        assert text in out
    assert out.isascii()


def test_names_from_labels_steer_no_terminal(ledger: Path, capsys: Capture) -> None:
    assert cli.main(["job", "astro/\x1b[31mtrain-0", "--config", str(ledger)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert cli.main(["job", "train-0\x1b[0m", "--config", str(ledger)]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_job_that_nobody_pays_for(ledger: Path, capsys: Capture) -> None:
    found = job(ledger, "stray/x", capsys)
    assert (found["tenants"], found["cost"], found["training"]) == ([], None, None)
    assert found["utilization"] == 0.5


@pytest.mark.parametrize(
    ("name", "near"), [("4712", "4711"), ("x", "stray/x"), ("nothing-like-it", "gpuledger report")]
)
def test_an_unknown_job_is_one_line_with_near_ones(name: str, near: str, ledger: Path, capsys: Capture) -> None:
    assert cli.main(["job", name, "--config", str(ledger)]) == 2
    said = capsys.readouterr().err
    assert near in said
    assert said.count("\n") == 1


def test_without_the_lake_what_is_published_does(ledger: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = shutil.copytree(ledger.parent, tmp_path / "copy")
    shutil.rmtree(copy / "ledger" / "lake")
    found = job(copy / "gpuledger.yaml", "4711", capsys)
    first = found["gpus"][0]
    assert first["memory_peak_bytes"] is None
    assert first["busy"] == 0.45
    assert first["timeline"][0] == 0.9
    assert first["timeline"][-1] == 0.0
