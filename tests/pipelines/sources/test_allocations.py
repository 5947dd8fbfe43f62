from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.sources.allocations import read_allocations
from pipelines.tables import RECORD, Batch

NEW_YORK = ZoneInfo("America/New_York")
HEADER = "start,end,gpus,device,model,tenant,workload,class"
GOOD = "2026-11-10T00:00:00Z,2026-11-11T12:00:00Z,8,,NVIDIA H100,vision,repair-1,down"


def read(tmp_path: Path, text: str | bytes, zone: ZoneInfo = NEW_YORK) -> Batch:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_allocations(path, cluster=None, zone=zone)


def test_a_row_is_a_record_and_blank_is_unknown(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{HEADER}\n{GOOD}\n2026-11-10T00:00:00Z,,,GPU-a,,,,\n")
    assert batch.records.schema == RECORD
    assert batch.findings == []
    first, second = batch.records.rows(named=True)
    assert first == dict.fromkeys(RECORD) | {
        "kind": "allocations",
        "workload": "repair-1",
        "labelled_as": "repair-1",
        "tenant": "vision",
        "class": "down",
        "start": datetime(2026, 11, 10, tzinfo=UTC),
        "end": datetime(2026, 11, 11, 12, tzinfo=UTC),
        "ended": True,
        "gpus": "8",
        "model": "NVIDIA H100",
        "nodes": [],
    }
    assert (second["device"], second["gpus"], second["end"], second["class"]) == ("GPU-a", "1", None, None)


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2026-11-10T00:00:00", "2026-11-10T01:00:00", 1),
        ("2026-11-10", "2026-11-11", 24),
        ("2026-11-01", "2026-11-02", 25),
        ("2026-11-10T00:00:00+01:00", "2026-11-10T00:00:00Z", 1),
        ("2026-11-01T01:50:00", "2026-11-01T01:10:00", 1 / 3),
        ("2026-03-08T01:30:00", "2026-03-08T03:30:00", 1),
    ],
)
def test_times_without_an_offset_are_local(tmp_path: Path, start: str, end: str, hours: float) -> None:
    (row,) = read(tmp_path, f"{HEADER}\n{start},{end},1,,,,w,\n").records.rows(named=True)
    assert (row["end"] - row["start"]).total_seconds() == pytest.approx(hours * 3600)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("2026-11-11T00:00:00Z,2026-11-10T00:00:00Z,1,,,,w,", "ends before"),
        ("yesterday,2026-11-10T00:00:00Z,1,,,,w,", "ISO 8601"),
        (",2026-11-10T00:00:00Z,1,,,,w,", "ISO 8601"),
        ("2026-11-10T00:00:00Z,soon,1,,,,w,", "ISO 8601"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,0,,,,w,", "positive decimal"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,-1,,,,w,", "positive decimal"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,NaN,,,,w,", "positive decimal"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,Infinity,,,,w,", "positive decimal"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,many,,,,w,", "positive decimal"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,,,,,w,", "count of gpus"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,1e30,,,,w,", "more than 65536"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,1e-12,,,,w,", "billionth"),
        ("0001-01-01T00:00:00Z,2026-11-11T00:00:00Z,1,,,,w,", "before 2000"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,2,GPU-a,,,w,", "one named device"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,1,,,,w,premium", "class"),
        ("2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,1", "columns of the header"),
        (f"{GOOD},too,many", "columns of the header"),
    ],
)
def test_a_bad_row_is_counted_with_its_line_and_the_rest_kept(tmp_path: Path, row: str, why: str) -> None:
    batch = read(tmp_path, f"{HEADER}\n{GOOD}\n{row}\n{GOOD}\n")
    assert batch.records.height == 2
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 1)
    assert why in finding.detail
    assert "line 3" in finding.detail


@pytest.mark.parametrize(
    ("gpus", "exact"), [("8", "8"), ("0.50", "0.5"), ("1e2", "100"), ("0.142857142857142857", "0.142857142")]
)
def test_counts_of_gpus_are_exact_decimals_to_a_billionth(tmp_path: Path, gpus: str, exact: str) -> None:
    batch = read(tmp_path, f"{HEADER}\n2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,{gpus},,,,w,\n")
    assert batch.records["gpus"].to_list() == [exact]


@pytest.mark.parametrize("end", ["", "9999-12-31T23:59:59Z", "2100-01-01T00:00:00Z"])
def test_an_end_that_is_never_is_open(tmp_path: Path, end: str) -> None:
    (row,) = read(tmp_path, f"{HEADER}\n2026-11-10T00:00:00Z,{end},1,,,,w,\n").records.rows(named=True)
    assert (row["end"], row["ended"]) == (None, False)


@pytest.mark.parametrize(
    ("written", "device"),
    [("GPU-a", "GPU-a"), ("GPU-a/7", "GPU-a/7"), ("MIG-GPU-a/7/0", "GPU-a/7")],
)
def test_a_device_is_named_as_samples_name_it(tmp_path: Path, written: str, device: str) -> None:
    batch = read(tmp_path, f"{HEADER}\n2026-11-10T00:00:00Z,2026-11-11T00:00:00Z,1,{written},,,w,\n")
    assert batch.records["device"].to_list() == [device]


@pytest.mark.parametrize(
    "text",
    [
        "end,note,Class , start,workload,gpus\n2026-11-11,x,SPOT,2026-11-10,w,1\n",
        "\ufeffstart,end,gpus,workload,class\r\n2026-11-10,2026-11-11,1,w,spot\r\n\r\n",
        "start;end;gpus;workload;class\n2026-11-10;2026-11-11;1;w;spot\n",
        '"start","end","gpus","workload","class"\n"2026-11-10","2026-11-11","1","w","spot"',
        "start,end,gpus,workload,class\n2026-11-10,2026-11-11,1,w,spot,,\n,,,,\n",
    ],
)
def test_column_order_bom_line_ends_and_quotes_do_not_matter(tmp_path: Path, text: str) -> None:
    batch = read(tmp_path, text)
    assert batch.records.select("workload", "class", "gpus", "start").rows() == [
        ("w", "spot", "1", datetime(2026, 11, 10, 5, tzinfo=UTC))
    ]
    assert batch.findings == []


def test_what_lasts_no_time_is_no_record(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{HEADER}\n2026-11-10,2026-11-10,1,,,,w,\n")
    assert batch.records.height == 0
    assert batch.findings == []


def test_an_empty_file_yields_nothing(tmp_path: Path) -> None:
    for text in ("", "\n\n", HEADER):
        assert read(tmp_path, text).records.schema == RECORD


def test_a_header_without_times_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.csv: its header has no column end; start the file with"):
        read(tmp_path, "start,gpus\n2026-11-10,1\n")


def test_a_binary_file_is_an_error_not_a_bill(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="header"):
        read(tmp_path, bytes(range(256)) * 10)


def test_text_that_is_not_utf8_is_kept(tmp_path: Path) -> None:
    batch = read(tmp_path, b"start,end,gpus,workload\n2026-11-10,2026-11-11,1,caf\xe9\n")
    assert batch.records["workload"].to_list() == ["caf\ufffd"]


def test_a_name_with_line_breaks_is_a_name_and_forges_no_row(tmp_path: Path) -> None:
    forged = "2026-10-05T00:00:00Z,2026-10-06T00:00:00Z,3,,H100,bio,fake,"
    name = f"a\n\n{forged}\n"
    batch = read(tmp_path, f'{HEADER}\n2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,1,,H100,vision,"{name}",\n{GOOD}\n')
    assert batch.records.select("tenant", "workload").rows() == [("vision", name.strip()), ("vision", "repair-1")]
    assert batch.findings == []


@pytest.mark.parametrize("left_open", ['"', '"' + "y" * 200_000])
def test_after_a_quote_that_is_never_closed_nothing_is_read(tmp_path: Path, left_open: str) -> None:
    cut = f"2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,1,,H100,vision,{left_open}a"
    batch = read(tmp_path, f"{HEADER}\n{GOOD}\n{cut}\n{GOOD}\n{GOOD}")
    assert batch.records["workload"].to_list() == ["repair-1"]
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 3)
    assert "never closed" in finding.detail
    assert "line 3" in finding.detail


def test_a_quote_inside_a_field_is_a_sign_like_others(tmp_path: Path) -> None:
    row = '2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,1,,H100,vision,5" card,'
    batch = read(tmp_path, f"{HEADER}\n{row}\n{GOOD}\n")
    assert batch.records["workload"].to_list() == ['5" card', "repair-1"]
