"""Pass by pass: only hours that changed are analysed, and what stands is what analysing everything gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from exporter.errors import LedgerError
from pipelines import lake, store
from pipelines.analysis.signatures import THRESHOLDS
from pipelines.analysis.stage import read_analysis, refresh
from pipelines.instants import HOUR_MS
from tests.pipelines.analysis.recorded import START, Rank, Recording
from tests.pipelines.analysis.test_hours import BUSY, during

HOURS = 30
RECORDING = Recording(
    {
        "w": [Rank("GPU-1", during(lambda m: m % 6 < 3.5, BUSY), end=HOURS * 60, every=60.0)],
        "v": [Rank("GPU-2", during(lambda m: m % 90 < 60, BUSY), end=HOURS * 60, every=60.0)],
    }
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path / "ledger.duckdb"
    store.make(path)
    with store.opened(path, read_only=False) as opened:
        yield opened


def until(frame: pl.DataFrame, hours: float) -> pl.DataFrame:
    """The usage of the first hours: its last row is cut."""
    end = START + round(hours * HOUR_MS)
    cut = pl.min_horizontal("end", pl.lit(end))
    return frame.filter(pl.col("start") < end).with_columns(end=cut, busy_observed_ms=cut - pl.col("start"))


def between(samples: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    t = pl.col("time").dt.epoch("ms")
    return samples.filter(t.is_between(START + start * HOUR_MS, START + end * HOUR_MS, closed="left"))


def written(folder: Path, samples: pl.DataFrame) -> list[str]:
    return [part.path for part in lake.write(folder, samples)]


def test_passes_come_to_what_one_pass_over_everything_gives(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    samples, usage, leases = RECORDING.samples, RECORDING.usage, RECORDING.leases
    folder, paths, analysed = tmp_path / "lake", [], []
    edges = [0, 26, 27.5, 28, 29.9, HOURS]
    for start, end in pairwise(edges):
        paths += written(folder, between(samples, start, end))
        analysed.append(refresh(connection, folder, sorted(paths), until(usage, end), leases))
    passes = read_analysis(connection)
    whole = tmp_path / "whole"
    connection.execute("DROP TABLE bottleneck_window; DROP TABLE bottleneck_idle; DROP TABLE analysed_hour")
    connection.execute("DROP TABLE analysed_part")
    assert refresh(connection, whole, written(whole, samples), usage, leases) == HOURS
    once = read_analysis(connection)
    assert passes.windows.equals(once.windows)
    assert passes.idle.equals(once.idle)
    assert analysed[0] == 26
    assert max(analysed[1:]) <= 4  # the hours that came, and the one beside them


def test_nothing_new_is_no_work(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    samples, usage, leases = RECORDING.samples, RECORDING.usage, RECORDING.leases
    paths = written(tmp_path, samples)
    assert refresh(connection, tmp_path, paths, usage, leases) == HOURS
    assert refresh(connection, tmp_path, paths, usage, leases) == 0


def test_a_late_sample_touches_its_hours_alone(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    samples, usage, leases = RECORDING.samples, RECORDING.usage, RECORDING.leases
    late = between(samples, 5.5, 5.7)
    paths = written(tmp_path, samples.join(late, on=["time", "device"], how="anti"))
    refresh(connection, tmp_path, paths, usage, leases)
    before = read_analysis(connection)
    assert refresh(connection, tmp_path, [*paths, *written(tmp_path, late)], usage, leases) == 3
    after = read_analysis(connection)
    changed = before.windows.join(after.windows, on=before.windows.columns, how="anti", nulls_equal=True)
    assert set(changed["hour"]) == {START + 5 * HOUR_MS}


def test_a_lease_that_changes_hands_is_analysed_anew(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    samples, usage, leases = RECORDING.samples, RECORDING.usage, RECORDING.leases
    paths = written(tmp_path, samples)
    refresh(connection, tmp_path, paths, usage, leases)
    gone = usage.filter((pl.col("device") != "GPU-1") | (pl.col("start") < START + 10 * HOUR_MS))
    refresh(connection, tmp_path, paths, gone, leases)
    windows = read_analysis(connection).windows.filter(pl.col("workload") == "w")
    assert windows["hour"].max() == START + 9 * HOUR_MS


def test_a_part_that_is_missing_is_said_with_its_name(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    paths = written(tmp_path, RECORDING.samples)
    (tmp_path / paths[0]).unlink()
    with pytest.raises(LedgerError, match=r"is missing; restore it"):
        refresh(connection, tmp_path, paths, RECORDING.usage, RECORDING.leases)


def test_another_threshold_means_another_analysis(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = written(tmp_path, RECORDING.samples)
    refresh(connection, tmp_path, paths, RECORDING.usage, RECORDING.leases)
    monkeypatch.setitem(THRESHOLDS, "swinging", replace(THRESHOLDS["swinging"], value=0.9))
    assert refresh(connection, tmp_path, paths, RECORDING.usage, RECORDING.leases) == HOURS
    assert "input" not in read_analysis(connection).windows["cause"]


def test_a_table_of_an_older_version_holds_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    old: dict[str, Any] = {"cluster": ["c"], "workload": ["w"]}
    connection.register("incoming", pl.DataFrame(old))
    connection.execute("CREATE TABLE bottleneck_window AS SELECT * FROM incoming")
    assert read_analysis(connection).windows.is_empty()
