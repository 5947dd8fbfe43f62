"""The truth, the oracle and the pipeline reckon apart, and agree."""

from __future__ import annotations

import json
import math
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from exporter.catalog import BY_KEY
from pipelines.operations import replay
from pipelines.simulate import simulate
from tests.oracle.report import replay as oracle

NAMES = {
    "node": "Hostname",
    "device": "UUID",
    "instance": "GPU_I_ID",
    "profile": "GPU_I_PROFILE",
    "model": "modelName",
    "index": "gpu",
    "namespace": "namespace",
    "pod": "pod",
    "container": "container",
    "pod_uid": "pod_uid",
    "job": "hpc_job",
    "slice": "vgpu",
}
METRICS = ("engine_active_ratio", "gpu_util_ratio", "energy_joules_total")


def differences(expected: Any, found: Any, where: str = "report") -> list[str]:
    """Where a report lacks what is expected; keys that begin with "_" are beside the report."""
    if isinstance(expected, dict):
        return [
            line
            for key, value in expected.items()
            if not key.startswith("_")
            for line in differences(value, found.get(key), f"{where}.{key}")
        ]
    if isinstance(expected, list):
        key = next((k for k in ("tenant", "workload", "code") if expected and k in expected[0]), "")
        by_key = {item[key]: item for item in found}
        return [
            line for item in expected for line in differences(item, by_key.get(item[key], {}), f"{where}[{item[key]}]")
        ]
    same = (
        abs(expected - found) < 5e-6 if isinstance(expected, float | int) and found is not None else expected == found
    )
    return [] if same else [f"{where}: expected {expected}, found {found}"]


def truth_of(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return told


def as_text(folder: Path, out: Path) -> Path:
    """The same directory with its samples as dcgm-exporter's text."""
    shutil.copytree(folder, out)
    samples = pl.read_parquet(out / "samples.parquet")
    lines = []
    for row in samples.iter_rows(named=True):
        labels = ",".join(f'{name}="{row[key]}"' for key, name in NAMES.items() if row[key] is not None)
        at = int(row["time"].timestamp() * 1000)
        for key in METRICS:
            if row[key] is not None and not math.isnan(row[key]):
                dcgm = BY_KEY[key].dcgm[0]
                lines.append(f"{dcgm.name}{{{labels}}} {row[key] / dcgm.scale!r} {at}")
    (out / "metrics.prom").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = yaml.safe_load((out / "gpuledger.yaml").read_text(encoding="utf-8"))
    settings["sources"][0] = {"metrics": "metrics.prom", "cluster": settings["sources"][0]["cluster"]}
    (out / "gpuledger.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small") / "fleet"
    simulate(out, gpus=8, days=1, seed=1, start=date(2026, 11, 1), interval_s=300)
    return out


@pytest.fixture(scope="module")
def report(fleet: Path) -> dict[str, Any]:
    return replay(fleet).model_dump(mode="json", by_alias=True)


def test_the_oracle_agrees_with_the_truth(small: Path, tmp_path: Path) -> None:
    told = without_findings(truth_of(small))
    assert differences(told, oracle(as_text(small, tmp_path / "text"))) == []


def test_the_pipeline_agrees_with_the_truth_on_the_smallest_fleet(small: Path) -> None:
    told = without_findings(truth_of(small))
    assert differences(told, replay(small).model_dump(mode="json", by_alias=True)) == []


def test_the_pipeline_agrees_with_the_truth_over_days(told: dict[str, Any], report: dict[str, Any]) -> None:
    assert differences(without_findings(told), report) == []


@pytest.mark.parametrize(
    "code",
    [
        "counter_reset",
        "gap",
        "invalid_sample",
        "xid_event",
    ],
)
def test_the_pipeline_says_what_the_story_broke(code: str, told: dict[str, Any], report: dict[str, Any]) -> None:
    assert code in {finding["code"] for finding in told["findings"]}
    assert code in {finding["code"] for finding in report["findings"]}


def test_what_samples_say_agrees_nearly(told: dict[str, Any], report: dict[str, Any]) -> None:
    near = told["_approximate"]
    assert report["fleet"]["energy_kwh"] == pytest.approx(near["fleet"]["energy_kwh"], rel=0.005)
    found = {tenant["tenant"]: tenant for tenant in report["tenants"]}
    for tenant in near["tenants"]:
        ours = found[tenant["tenant"]]
        assert ours["utilization"] == pytest.approx(tenant["utilization"], rel=0.01)
        assert ours["coverage"] == pytest.approx(tenant["coverage"], rel=0.01)
        assert ours["gpu_hours"]["active"] == pytest.approx(tenant["active_gpu_hours"], rel=0.01)
        assert ours["energy_kwh"] == pytest.approx(tenant["energy_kwh"], rel=0.02)


def without_findings(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != "findings"}
