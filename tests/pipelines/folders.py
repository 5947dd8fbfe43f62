"""Ledgers of scenes: what a user has after `run` or `import`, and what readers find there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from pipelines.config import Config, Source, load
from pipelines.ingest import ingest
from pipelines.ledger import LEDGER_NAME, open_ledger
from pipelines.operations import report, run_once
from tests.pipelines.scene import Scene
from tests.pipelines.stages import AS_OF, Stages, staged


def configured(scene: Scene, folder: Path) -> Config:
    """Write the scene and return its configuration, with a ledger beside it that nothing was read into yet."""
    return load(scene.write(folder) / "gpuledger.yaml")


def after_a_run(scene: Scene, folder: Path) -> Config:
    """The same, with everything read and published."""
    config = configured(scene, folder)
    run_once(config)
    return config


def imported(config: Config, files: Iterable[tuple[str, Path]]) -> Stages:
    """Import (kind, file) one after the other, and meter what the ledger then holds."""
    with open_ledger(config.ledger, "a test") as ledger:
        for kind, path in files:
            source = Source.model_validate(
                {kind: str(path), "cluster": "hall"} if kind in ("metrics", "sacct") else {kind: str(path)},
                context={"path": config.path, "zone": config.timezone},
            )
            ingest(ledger, [source], config, configured=False, now=AS_OF)
        return staged(config, ledger.inputs(), ledger.findings())


def told(config: Config) -> dict[str, Any]:
    """The published report without the time at which it was made."""
    found: dict[str, Any] = json.loads(report(config).to_json())
    found.pop("as_of")
    return found


def table(path: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table of a DuckDB file, in one order."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall()


def usage(config: Config) -> list[tuple[Any, ...]]:
    return table(config.ledger / LEDGER_NAME, "usage")


def row_counts(config: Config) -> dict[str, int]:
    """How many rows each table of the ledger has."""
    with duckdb.connect(str(config.ledger / LEDGER_NAME), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: len(connection.execute(f"SELECT 1 FROM {name}").fetchall()) for name in names}
