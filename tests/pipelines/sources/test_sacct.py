from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.sources.sacct import read_sacct
from pipelines.tables import ACCOUNTING, RECORD, Batch

UTC_ZONE = ZoneInfo("UTC")
NEW_YORK = ZoneInfo("America/New_York")
HEADER = "JobID|JobIDRaw|Account|User|Partition|QOS|State|Start|End|ElapsedRaw|NodeList|AllocTRES"
COLUMNS = HEADER.split("|")


def row(**changes: str) -> str:
    """A whole row: one hour of one GPU, unless ``changes`` say otherwise."""
    usual = {
        "JobID": "1",
        "JobIDRaw": changes.get("JobID", "1"),
        "Account": "vision",
        "User": "u1",
        "Partition": "gpu",
        "QOS": "normal",
        "State": "COMPLETED",
        "Start": "2026-10-05T00:00:00",
        "End": "2026-10-05T01:00:00",
        "ElapsedRaw": "3600",
        "NodeList": "n1",
        "AllocTRES": "cpu=4,gres/gpu=1",
    }
    return "|".join((usual | changes).values())


def read(
    tmp_path: Path, *rows: str, header: str | None = HEADER, zone: ZoneInfo = UTC_ZONE, fields: list[str] | None = None
) -> Batch:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(([header] if header else []) + list(rows)) + "\n", errors="surrogateescape")
    return read_sacct(path, cluster="hpc", zone=zone, fields=fields)


def codes(batch: Batch) -> dict[str, int]:
    found: dict[str, int] = {}
    for finding in batch.findings:
        found[finding.code] = found.get(finding.code, 0) + finding.count
    return found


def seconds(batch: Batch) -> list[float]:
    return [(end - start).total_seconds() for start, end in batch.records.select("start", "end").iter_rows()]


def test_a_job_is_a_record(tmp_path: Path) -> None:
    batch = read(tmp_path, row(JobID="7_1", JobIDRaw="9", NodeList="n[1-2]", AllocTRES="gres/gpu:a100=4,gres/gpu=4"))
    assert batch.records.schema == RECORD
    assert batch.records.rows(named=True) == [
        {
            "kind": "slurm",
            "cluster": "hpc",
            "workload": "7_1",
            "labelled_as": "9",
            "user": "u1",
            "tenant": None,
            "class": None,
            "start": datetime(2026, 10, 5, tzinfo=UTC),
            "end": datetime(2026, 10, 5, 1, tzinfo=UTC),
            "ended": True,
            "gpus": "4",
            "device": None,
            "model": "a100",
            "nodes": ["n1", "n2"],
            "slurm_account": "vision",
            "slurm_partition": "gpu",
            "slurm_qos": "normal",
            "slurm_user": "u1",
        }
    ]
    assert batch.findings == []


def test_each_gpu_type_of_a_job_is_a_record_and_the_plain_count_is_their_total(tmp_path: Path) -> None:
    batch = read(tmp_path, row(AllocTRES="gres/gpu=4,gres/gpu:a100=2,gres/gpu:v100=1"))
    assert batch.records.sort("model").select("model", "gpus").rows() == [(None, "1"), ("a100", "2"), ("v100", "1")]


@pytest.mark.parametrize(
    "rows",
    [
        [row(JobID="1.batch")],
        [row(JobID="1.extern"), row(JobID="1.0"), row(JobID="1_7.0", JobIDRaw="9.0")],
        [row(State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw="0", NodeList="None assigned")],
        [row(State="PENDING", End="Unknown")],
        [row(State="CANCELLED by 1000", Start="None", ElapsedRaw="0", NodeList="None assigned", AllocTRES="")],
        [row(End="2026-10-05T00:00:00", ElapsedRaw="0")],
    ],
)
def test_steps_and_what_never_ran_give_nothing_and_are_no_fault(tmp_path: Path, rows: list[str]) -> None:
    batch = read(tmp_path, *rows)
    assert batch.records.height == 0
    assert batch.accounting.height == 0
    assert batch.findings == []


def test_requeued_runs_all_count(tmp_path: Path) -> None:
    batch = read(
        tmp_path,
        row(JobID="9", State="REQUEUED", End="2026-10-05T01:04:49", ElapsedRaw="3889"),
        row(JobID="9", State="REQUEUED", Start="2026-10-05T02:00:00", End="2026-10-05T03:14:33", ElapsedRaw="4473"),
        row(JobID="9", Start="2026-10-05T04:00:00", End="2026-10-05T04:35:53", ElapsedRaw="2153"),
    )
    assert sum(seconds(batch)) == 10515


@pytest.mark.parametrize(
    ("rows", "length"),
    [
        ([{"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "7200"}, {}], 3600),
        ([{}, {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "600"}], 3600),
        ([{}, {"End": "2026-10-05T02:00:00", "ElapsedRaw": "7200"}], 7200),
        ([{}, {}], 3600),
        (
            [
                {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "600"},
                {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "1200"},
            ],
            1200,
        ),
    ],
)
def test_of_two_records_of_one_run_the_ended_one_wins_then_the_longer(
    tmp_path: Path, rows: list[dict[str, str]], length: float
) -> None:
    for order in (rows, rows[::-1]):
        batch = read(tmp_path, *(row(**changes) for changes in order))
        assert seconds(batch) == [length]
        assert batch.findings == []


@pytest.mark.parametrize("unknown", ["Unknown", "", "None"])
def test_a_running_job_is_held_to_start_plus_elapsed(tmp_path: Path, unknown: str) -> None:
    batch = read(tmp_path, row(State="RUNNING", End=unknown, ElapsedRaw="600"))
    assert seconds(batch) == [600]
    assert batch.records["ended"].to_list() == [False]


def test_a_running_job_without_an_elapsed_time_has_no_end(tmp_path: Path) -> None:
    batch = read(tmp_path, row(State="RUNNING", End="Unknown", ElapsedRaw=""))
    assert batch.records["end"].to_list() == [None]


def test_elapsed_is_read_where_there_is_no_elapsed_raw(tmp_path: Path) -> None:
    header = HEADER.replace("ElapsedRaw", "Elapsed")
    batch = read(
        tmp_path,
        row(JobID="1", State="RUNNING", End="Unknown", ElapsedRaw="1-02:03:04"),
        row(JobID="2", State="RUNNING", End="Unknown", ElapsedRaw="00:10:00"),
        header=header,
    )
    assert sorted(seconds(batch)) == [600, 86400 + 2 * 3600 + 3 * 60 + 4]


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "utc_start"),
    [
        # 2026-11-01 02:00 EDT is 01:00 EST: 01:xx occurs twice.
        ("2026-11-01T00:30:00", "2026-11-01T01:30:00", "3600", "04:30"),
        ("2026-11-01T00:30:00", "2026-11-01T01:30:00", "7200", "04:30"),
        ("2026-11-01T01:30:00", "2026-11-01T02:30:00", "3600", "06:30"),
        ("2026-11-01T01:30:00", "2026-11-01T02:30:00", "7200", "05:30"),
        ("2026-11-01T01:50:00", "2026-11-01T01:10:00", "1200", "05:50"),
        ("2026-11-01T01:10:00", "2026-11-01T01:50:00", "6000", "05:10"),
        ("2026-11-01T01:10:00", "2026-11-01T01:50:00", "2400", "05:10"),
        ("2026-11-01T00:30:00", "2026-11-01T03:30:00", "14400", "04:30"),
        ("2026-03-08T01:30:00", "2026-03-08T03:30:00", "3600", "06:30"),
        ("2026-07-01T00:00:00", "2026-07-01T01:00:00", "3600", "04:00"),
        ("2026-07-01 00:00:00", "2026-07-01 01:00:00", "3600", "04:00"),
        ("2026-07-01T00:00:00+02:00", "2026-07-01T01:00:00+0200", "3600", "22:00"),
        ("2026-07-01T04:00:00Z", "2026-07-01T05:00:00Z", "3600", "04:00"),
        ("1782878400", "1782882000", "3600", "04:00"),
    ],
)
def test_local_times_are_told_apart_by_what_elapsed(
    tmp_path: Path, start: str, end: str, elapsed: str, utc_start: str
) -> None:
    batch = read(tmp_path, row(Start=start, End=end, ElapsedRaw=elapsed), zone=NEW_YORK)
    assert seconds(batch) == [float(elapsed)]
    assert batch.records["start"].dt.strftime("%H:%M").to_list() == [utc_start]


def test_without_an_elapsed_time_an_end_is_not_before_its_start(tmp_path: Path) -> None:
    batch = read(tmp_path, row(Start="2026-11-01T01:50:00", End="2026-11-01T01:10:00", ElapsedRaw=""), zone=NEW_YORK)
    assert seconds(batch) == [1200]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("1|2|3", "columns of the header"),
        (row() + "|surplus", "columns of the header"),
        (row(JobID="2", Start="soon"), "no time"),
        (row(JobID="2", End="later"), "no time"),
        (row(JobID="2", End="2026-10-04T00:00:00"), "ends before"),
        (row(JobID="", JobIDRaw=""), "job id"),
        (row(JobID="2", AllocTRES="gres/gpu=many"), "GPU count"),
    ],
)
def test_a_bad_row_is_counted_with_its_line_and_the_rest_kept(tmp_path: Path, bad: str, why: str) -> None:
    batch = read(tmp_path, row(JobID="1"), bad, row(JobID="3"))
    assert batch.records["workload"].to_list() == ["1", "3"]
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 1)
    assert why in finding.detail
    assert "line 3" in finding.detail


def test_a_row_whose_account_is_cut_short_is_kept_without_it(tmp_path: Path) -> None:
    batch = read(tmp_path, row(Account="dept-bioinformatics+"))
    assert batch.records["slurm_account"].to_list() == [None]
    assert codes(batch) == {"bad_line": 1}


def test_a_nodelist_that_is_none_is_counted_and_the_hours_kept(tmp_path: Path) -> None:
    batch = read(tmp_path, row(NodeList="gpu[1-"))
    assert batch.records["nodes"].to_list() == [[]]
    assert codes(batch) == {"bad_line": 1}


def test_a_row_broken_by_a_line_break_is_joined_again_and_said(tmp_path: Path) -> None:
    batch = read(tmp_path, row(JobID="1"), row(JobID="2", User="u\nv\nw"), row(JobID="3"))
    assert batch.records["workload"].to_list() == ["1", "2", "3"]
    assert codes(batch) == {"bad_line": 1}


def test_a_job_name_may_hold_the_delimiter_where_it_is_the_last_column(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{row()}|a|b|c", header=f"{HEADER}|JobName")
    assert batch.records.height == 1
    assert batch.findings == []


@pytest.mark.parametrize(
    ("header", "rows", "fields"),
    [
        (None, [row()], COLUMNS),
        (HEADER, [row()], COLUMNS),
        (f"{HEADER}|", [f"{row()}|"], None),
        (f"\n\n{HEADER}", ["", row(), ""], None),
        (HEADER, [row(), HEADER, row()], None),
        (HEADER.replace("|", "\t"), [row().replace("|", "\t")], None),
        (HEADER.replace("|", "|#"), [row().replace("|", "|#")], None),
        (HEADER.lower(), [row()], None),
        (HEADER.replace("AllocTRES", "AllocTRES%80"), [row()], None),
        (HEADER, [row().replace("u1", "caf\udce9")], None),
    ],
)
def test_header_delimiter_and_blank_lines_are_taken_as_they_come(
    tmp_path: Path, header: str | None, rows: list[str], fields: list[str] | None
) -> None:
    batch = read(tmp_path, *rows, header=header, fields=fields)
    assert batch.records.select("workload", "gpus", "nodes").rows() == [("1", "1", ["n1"])]
    assert batch.findings == []


def test_a_file_without_header_needs_its_fields(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no header line with JobID.*`fields:`"):
        read(tmp_path, row(), header=None)


def test_fields_that_do_not_fit_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="line 1 has 12 fields, `fields` names 11"):
        read(tmp_path, row(), row(), header=None, fields=COLUMNS[:-1])


@pytest.mark.parametrize("missing", ["Start", "End|ElapsedRaw"])
def test_a_column_that_runs_need_is_asked_for(tmp_path: Path, missing: str) -> None:
    dropped = missing.split("|")
    kept = [(name, field) for name, field in zip(COLUMNS, row().split("|"), strict=True) if name not in dropped]
    header, bare = ("|".join(parts) for parts in zip(*kept, strict=True))
    with pytest.raises(SourceError, match="no column"):
        read(tmp_path, bare, header=header)


def test_alloc_gres_and_requests_stand_in_where_nothing_was_accounted(tmp_path: Path) -> None:
    header = f"{HEADER}|AllocGRES|ReqTRES"
    batch = read(
        tmp_path,
        f"{row(JobID='1', AllocTRES='')}|gpu:volta:2|gres/gpu=9",
        f"{row(JobID='2', AllocTRES='')}||cpu=1,gres/gpu=3",
        f"{row(JobID='3', AllocTRES='gres/gpu=1')}||gres/gpu=9",
        header=header,
    )
    assert batch.records.select("workload", "model", "gpus").rows() == [
        ("1", "volta", "2"),
        ("2", None, "3"),
        ("3", None, "1"),
    ]


def test_a_cluster_that_does_not_account_for_gpus_is_no_bill_of_zero(tmp_path: Path) -> None:
    cpu = "billing=4,cpu=4,mem=4G,node=1"
    batch = read(
        tmp_path,
        row(JobID="1", AllocTRES=cpu),
        row(JobID="1.batch", AllocTRES=cpu),
        row(JobID="2", AllocTRES=cpu),
        row(JobID="3", State="PENDING", Start="Unknown", End="Unknown", AllocTRES=""),
    )
    assert batch.records.height == 0
    assert codes(batch) == {"gpus_not_tracked": 2}
    assert codes(read(tmp_path, row(JobID="1", AllocTRES=cpu), row(JobID="2"))) == {}


def test_accounting_speaks_for_every_node_it_names_over_its_whole_time(tmp_path: Path) -> None:
    batch = read(
        tmp_path,
        row(JobID="1", NodeList="n[1-2]"),
        row(JobID="2", NodeList="n3", AllocTRES="cpu=1", Start="2026-10-05T05:00:00", End="2026-10-05T09:00:00"),
        row(JobID="3", NodeList="n4", State="PENDING", Start="Unknown", End="Unknown"),
    )
    start, end = datetime(2026, 10, 5, tzinfo=UTC), datetime(2026, 10, 5, 9, tzinfo=UTC)
    assert batch.accounting.schema == ACCOUNTING
    assert batch.accounting.rows() == [("hpc", node, start, end) for node in ("n1", "n2", "n3")]


def test_an_empty_file_yields_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    for text in ("", "\n\n", HEADER + "\n"):
        path.write_text(text)
        batch = read_sacct(path, cluster="hpc", zone=UTC_ZONE)
        assert (batch.records.height, batch.accounting.height, batch.findings) == (0, 0, [])


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(SourceError, match="no header line"):
        read_sacct(path, cluster="hpc", zone=UTC_ZONE)


def test_a_field_of_many_megabytes_is_one_bad_row(tmp_path: Path) -> None:
    batch = read(tmp_path, row(JobID="1"), row(JobID="2", User="x" * (5 << 20)), row(JobID="3"))
    assert batch.records["workload"].to_list() == ["1", "3"]
    assert codes(batch) == {"bad_line": 1}
