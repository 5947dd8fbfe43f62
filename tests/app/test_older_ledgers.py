"""A ledger that an older release published lacks tables: the pages say so, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from pipelines.config import load
from pipelines.publish import current
from tests.app.conftest import opened, shown


@pytest.mark.parametrize(
    ("page", "table", "said"),
    [
        ("bottlenecks", "bottleneck", "no causes yet"),
        ("bottlenecks", "bottleneck_window", "Ranked by what they cost"),
        ("idle", "reclaim", "no such list yet"),
        ("health", "device_state", "Outages and repairs"),
        ("overview", "held_day", "published by another release"),
    ],
)
def test_a_page_without_its_table_says_what_to_do(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch, page: str, table: str, said: str
) -> None:
    folder = tmp_path / "ledger"
    shutil.copytree(published.parent, folder)
    config = load(folder / published.name)
    publication = current(config.ledger)
    assert publication is not None
    with duckdb.connect(str(config.ledger / "published" / publication.fleet)) as connection:
        connection.execute(f"DROP TABLE {table}")
    app = opened(monkeypatch, config.path, page)
    assert not app.exception
    text = shown(app).replace("\\", "")
    assert said in text
    assert ("gpuledger run --once" in text) == (table not in ("bottleneck_window", "device_state"))
