"""Small simulated fleets, made once for every test that looks at them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.simulate import simulate
from pipelines.simulate.scenario import Scenario
from pipelines.simulate.story import build_scenario

START = date(2026, 11, 1)


@pytest.fixture(scope="session")
def demo() -> Scenario:
    """The story of the demo fleet; no sample of it is made."""
    return build_scenario(gpus=64, days=30, seed=1, start=START, interval=60)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replay directory of every kind of node: 24 GPUs for two days, a sample in five minutes."""
    out = tmp_path_factory.mktemp("fleet")
    simulate(out, gpus=24, days=2, seed=3, start=START, interval_s=300)
    return out


@pytest.fixture(scope="session")
def samples(fleet: Path) -> pl.DataFrame:
    return pl.read_parquet(fleet / "samples.parquet")


@pytest.fixture(scope="session")
def told(fleet: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((fleet / "truth.json").read_text(encoding="utf-8"))
    return found
