from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from exporter.errors import SourceError
from pipelines.sources.sample_parquet import read_samples
from pipelines.tables import SAMPLE_LABELS, TIME

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)


def table(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"time": pl.Series([NOON], dtype=TIME), "device": ["GPU-a"], "gpu_util_ratio": [0.5]} | columns)


def test_missing_labels_are_null_and_unknown_columns_left_out(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    table(colour=["red"], node=[""]).write_parquet(path)
    batch = read_samples(path, cluster="c")
    assert batch.samples.columns == [*SAMPLE_LABELS, "gpu_util_ratio"]
    assert {name: batch.samples.schema[name] for name in SAMPLE_LABELS} == SAMPLE_LABELS
    assert batch.samples.select("time", "cluster", "node", "device", "pod", "gpu_util_ratio").rows() == [
        (NOON, "c", None, "GPU-a", None, 0.5)
    ]
    assert batch.findings == []


@pytest.mark.parametrize(
    "columns",
    [
        {"time": pl.Series([NOON.replace(tzinfo=None)], dtype=pl.Datetime("us"))},
        {"time": pl.Series([NOON], dtype=pl.Datetime("ns", "America/New_York"))},
        {"cluster": ["c"]},
        {"cluster": [None]},
        {"device": pl.Series(["GPU-a"], dtype=pl.Categorical)},
        {"gpu_util_ratio": pl.Series([0.5], dtype=pl.Float32)},
    ],
)
def test_kindred_types_are_cast(tmp_path: Path, columns: dict[str, object]) -> None:
    path = tmp_path / "s.parquet"
    table(**columns).write_parquet(path)
    assert read_samples(path, cluster="c").samples.select("time", "cluster", "device", "gpu_util_ratio").rows() == [
        (NOON, "c", "GPU-a", 0.5)
    ]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"time": ["2026-10-05"]}, "column time is String, a timestamp was expected"),
        ({"time": [1791201600]}, "column time is Int64, a timestamp was expected"),
        ({"gpu_util_ratio": ["high"]}, "column gpu_util_ratio is String, a number was expected"),
        ({"pod": [1.5]}, "column pod is Float64, text was expected"),
        ({"device": [["GPU-a"]]}, r"column device is List\(String\), text was expected"),
    ],
)
def test_other_types_are_an_error_that_names_column_and_mend(
    tmp_path: Path, columns: dict[str, object], what: str
) -> None:
    path = tmp_path / "s.parquet"
    table(**columns).write_parquet(path)
    with pytest.raises(SourceError, match=what + r"; write it as"):
        read_samples(path, cluster="c")


@pytest.mark.parametrize("column", ["time", "device"])
def test_what_a_sample_needs_is_asked_for(tmp_path: Path, column: str) -> None:
    path = tmp_path / "s.parquet"
    table().drop(column).write_parquet(path)
    with pytest.raises(SourceError, match=f"no column {column}"):
        read_samples(path, cluster="c")


def test_rows_without_time_or_device_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pl.concat(
        [table(), table(device=[None]), table(time=pl.Series([None], dtype=TIME))], how="vertical_relaxed"
    ).write_parquet(path)
    batch = read_samples(path, cluster="c")
    assert batch.samples.height == 1
    assert [(f.code, f.count) for f in batch.findings] == [("bad_line", 2)]


@pytest.mark.parametrize("source", ["lake", "lake/*.parquet", "lake/day=*"])
def test_a_folder_or_a_glob_is_all_its_files(tmp_path: Path, source: str) -> None:
    (tmp_path / "lake").mkdir()
    table().write_parquet(tmp_path / "lake" / "day=1.parquet")
    table(power_watts=[300]).drop("gpu_util_ratio").write_parquet(tmp_path / "lake" / "day=2.parquet")
    samples = read_samples(tmp_path / source, cluster="c").samples
    assert samples.select("gpu_util_ratio", "power_watts").rows() == [(0.5, None), (None, 300.0)]


def test_a_table_without_rows_yields_none(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    table().clear().write_parquet(path)
    assert read_samples(path, cluster="c").samples.height == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"time,device\n", bytes(range(256)) * 100])
def test_what_is_no_parquet_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.parquet"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="is no whole Parquet file") as caught:
        read_samples(path, cluster="c")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["absent.parquet", "absent*.parquet", "empty"])
def test_nothing_there_is_an_error(tmp_path: Path, source: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no such file|no Parquet file there"):
        read_samples(tmp_path / source, cluster="c")


def series(*times: datetime) -> pl.DataFrame:
    return table().drop("time").join(pl.DataFrame({"time": pl.Series(times, dtype=TIME)}), how="cross")


def test_a_large_file_is_read_whole_days_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.parquet"
    times = [NOON + timedelta(hours=6 * n) for n in range(20)]  # 2, 4, 4, 4, 4, 2 a day
    series(*times, *[NOON.replace(year=1970)] * 2).write_parquet(path)
    whole = read_samples(path, cluster="c")
    monkeypatch.setattr("pipelines.sources.sample_parquet._AT_ONCE", 8)
    batch = read_samples(path, cluster="c")
    pieces = list(batch.more)
    assert [piece.height for piece in pieces] == [6, 8, 6]
    assert [len(set(piece["time"].dt.date())) for piece in pieces] == [2, 2, 2]
    assert pl.concat(pieces).sort("time").equals(whole.samples.sort("time"))
    assert batch.findings == whole.findings
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 2)


def test_a_clock_that_was_wrong_for_a_moment_stretches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    right = [NOON + timedelta(minutes=n) for n in range(200)]
    series(*right, NOON.replace(year=2063), NOON.replace(year=2003)).write_parquet(path)
    batch = read_samples(path, cluster="c")
    assert sorted(batch.samples["time"]) == right
    assert [(f.code, f.count) for f in batch.findings] == [("bad_line", 2)]
    assert "over a year away" in batch.findings[0].detail


def test_data_of_several_years_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    series(NOON, *[NOON.replace(year=2024) + timedelta(minutes=n) for n in range(20)]).write_parquet(path)
    assert read_samples(path, cluster="c").samples.height == 21
