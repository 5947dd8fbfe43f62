from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.sources import json_members
from pipelines.sources.sacct import read_sacct
from pipelines.sources.slurm_json import read_slurm_json
from pipelines.tables import ACCOUNTING, RECORD, Batch

SLURM = Path(__file__).resolve().parents[4] / "shared" / "data" / "slurm"
RECORDINGS = [
    *sorted((SLURM / "slurmrestd").rglob("slurm*job-*.json")),
    *(path for path in (SLURM / "telegraf" / "jobs.json", SLURM / "rivosinc" / "squeue_out.json") if path.exists()),
]
OTHER_ANSWERS = [
    path
    for path in sorted(SLURM.rglob("*.json"))
    if path not in RECORDINGS and path.parent.name != "sonar" and "slurm" in str(path)
]

START = 1791158400  # 2026-10-05T00:00:00Z
HOUR = 3600


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": True, "infinite": True, "number": 0}


def tres(**gpus: int) -> list[dict[str, Any]]:
    """TRES of a job: ``gpu=4, gpu_a100=4``."""
    typed = [
        {"type": "gres", "name": name.replace("_", ":", 1), "id": 1001, "count": count} for name, count in gpus.items()
    ]
    return [
        {"type": "cpu", "name": "", "id": 1, "count": 4},
        *typed,
        {"type": "energy", "name": "", "id": 3, "count": 123},
    ]


def accounted(**changes: Any) -> dict[str, Any]:
    """A job as slurmdbd's parsers write it: one hour of one GPU, unless ``changes`` say otherwise."""
    usual = {
        "job_id": 1,
        "account": "vision",
        "user": "u1",
        "partition": "gpu",
        "qos": "normal",
        "cluster": "c1",
        "array": {"job_id": 0, "task_id": UNSET},
        "het": {"job_id": 0, "job_offset": UNSET},
        "association": {"account": "vision", "cluster": "c1", "user": "u1"},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {"start": START, "end": START + HOUR, "elapsed": HOUR, "suspended": 0},
        "nodes": "n1",
        "tres": {"allocated": tres(gpu=1), "requested": tres(gpu=1)},
        "steps": [{"step": {"id": "1.batch"}, "tres": {"allocated": tres(gpu=8)}}],
    }
    return usual | changes


def controlled(**changes: Any) -> dict[str, Any]:
    """A job as slurmctld's parsers write it."""
    usual = {
        "job_id": 1,
        "account": "vision",
        "user_name": "u1",
        "partition": "gpu",
        "qos": "normal",
        "cluster": "c1",
        "array_job_id": number(0),
        "array_task_id": UNSET,
        "het_job_id": number(0),
        "het_job_offset": number(0),
        "job_state": ["RUNNING"],
        "start_time": number(START),
        "end_time": number(START + 24 * HOUR),
        "nodes": "n1",
        "tres_alloc_str": "cpu=4,gres/gpu=1",
        "gres_detail": [],
    }
    return usual | changes


def times(**changes: Any) -> dict[str, Any]:
    return {"time": {"start": START, "end": START + HOUR, "elapsed": HOUR, "suspended": 0} | changes}


def answer(*jobs: Any, **members: Any) -> str:
    return json.dumps({"meta": {}, "jobs": list(jobs), **members, "errors": [], "warnings": []}, indent=1)


def read(tmp_path: Path, text: str | bytes) -> Batch:
    path = tmp_path / "jobs.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_slurm_json(path, cluster="hpc")


def codes(batch: Batch) -> dict[str, int]:
    found: dict[str, int] = {}
    for finding in batch.findings:
        found[finding.code] = found.get(finding.code, 0) + finding.count
    return found


def seconds(batch: Batch) -> list[float | None]:
    return [end and (end - start).total_seconds() for start, end in batch.records.select("start", "end").iter_rows()]


def test_a_job_is_a_record_and_its_node_is_accounted_for(tmp_path: Path) -> None:
    batch = read(tmp_path, answer(accounted(nodes="n[1-2]", tres={"allocated": tres(gpu=4, gpu_a100=4)})))
    start, end = datetime(2026, 10, 5, tzinfo=UTC), datetime(2026, 10, 5, 1, tzinfo=UTC)
    assert batch.records.schema == RECORD
    assert batch.accounting.schema == ACCOUNTING
    (record,) = batch.records.rows(named=True)
    assert (record["workload"], record["labelled_as"], record["kind"], record["cluster"]) == ("1", "1", "slurm", "hpc")
    assert (record["start"], record["end"], record["ended"]) == (start, end, True)
    assert (record["gpus"], record["model"], record["nodes"]) == ("4", "a100", ["n1", "n2"])
    assert [record[key] for key in ("slurm_account", "slurm_user", "slurm_partition", "slurm_qos", "user")] == [
        *("vision", "u1", "gpu", "normal", "u1"),
    ]
    assert batch.accounting.rows() == [("hpc", "n1", start, end), ("hpc", "n2", start, end)]
    assert batch.findings == []


SACCT_HEADER = "JobID|JobIDRaw|Cluster|Account|User|Partition|QOS|State|Start|End|ElapsedRaw|NodeList|AllocTRES|ReqTRES"
ASKED = "gres/gpu=1"
TOLD_TWICE = {
    "a job that ended": (
        [accounted()],
        [f"1|1|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1|cpu=4,gres/gpu=1|{ASKED}"],
    ),
    "two models": (
        [accounted(nodes="n", tres={"allocated": tres(gpu=3, gpu_a=2, gpu_v=1)})],
        ["1|1|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n|gres/gpu=3,gres/gpu:a=2,gres/gpu:v=1|"],
    ),
    "a task of an array": (
        [accounted(job_id=9, array={"job_id": 7, "task_id": number(0)})],
        [f"7_0|9|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1|gres/gpu=1|{ASKED}"],
    ),
    "a component of a heterogeneous job": (
        [accounted(job_id=8, het={"job_id": 7, "job_offset": number(1)})],
        [f"7+1|8|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1|gres/gpu=1|{ASKED}"],
    ),
    "requeued, then running": (
        [
            accounted(state={"current": ["REQUEUED"]}),
            accounted(state={"current": ["RUNNING"]}, **times(start=START + 2 * HOUR, end=0, elapsed=600)),
        ],
        [f"1|1|c1|vision|u1|gpu|normal|REQUEUED|T00:00:00|T01:00:00|3600|n1|gres/gpu=1|{ASKED}",
         f"1|1|c1|vision|u1|gpu|normal|RUNNING|T02:00:00|Unknown|600|n1|gres/gpu=1|{ASKED}"],
    ),
    "told running and ended": (
        [accounted(state={"current": ["RUNNING"]}, **times(end=0, elapsed=9000)), accounted()],
        [f"1|1|c1|vision|u1|gpu|normal|RUNNING|T00:00:00|Unknown|9000|n1|gres/gpu=1|{ASKED}",
         f"1|1|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1|gres/gpu=1|{ASKED}"],
    ),
    "never started": (
        [
            accounted(state={"current": ["CANCELLED"]}, nodes="None assigned", **times(start=0, end=START, elapsed=0)),
            accounted(job_id=2, state={"current": ["PENDING"]}, **times(end=0, elapsed=1)),
        ],
        ["1|1|c1|vision|u1|gpu|normal|CANCELLED by 1000|None|T00:00:00|0|None assigned||",
         "2|2|c1|vision|u1|gpu|normal|PENDING|T00:00:00|Unknown|1|n1||"],
    ),
    "only asked for": (
        [accounted(tres={"allocated": [], "requested": tres(gpu=3)})],
        ["1|1|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1||cpu=4,gres/gpu=3"],
    ),
    "a cluster that does not account for GPUs": (
        [accounted(tres={"allocated": tres()})],
        ["1|1|c1|vision|u1|gpu|normal|COMPLETED|T00:00:00|T01:00:00|3600|n1|cpu=4|"],
    ),
    "no account and no QOS": (
        [accounted(account="", qos="", association={})],
        ["1|1|c1||u1|gpu||COMPLETED|T00:00:00|T01:00:00|3600|n1|gres/gpu=1|"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "rows"), TOLD_TWICE.values(), ids=TOLD_TWICE)
def test_json_and_text_tell_the_same(tmp_path: Path, jobs: list[Any], rows: list[str]) -> None:
    path = tmp_path / "jobs.json"  # one name, so that findings are the same as well
    path.write_text("\n".join([SACCT_HEADER, *rows]).replace("|T", "|2026-10-05T"))
    text = read_sacct(path, cluster="hpc", zone=ZoneInfo("UTC"))
    batch = read(tmp_path, answer(*jobs))
    assert batch.records.equals(text.records)
    assert batch.accounting.equals(text.accounting)
    assert codes(batch) == codes(text)


@pytest.mark.parametrize(
    "job",
    [
        accounted(state={"current": "COMPLETED", "reason": None}),
        accounted(state="COMPLETED"),
        accounted(**times(start=number(START), end=number(START + HOUR), elapsed=number(HOUR))),
        accounted(**times(start=float(START))),
        accounted(**times(start=str(START))),
        accounted(array={"job_id": 0, "task_id": 0}, het={"job_id": 0, "job_offset": 0}),
        accounted(array={"job_id": 0, "task": None, "task_id": None}, het={"job_id": 0, "job_offset": None}),
        accounted(array={"job_id": 5, "task_id": 4294967294}),
        accounted(array=None, het=None),
        accounted(account=None, user=None),
        accounted(job_id=number(1)),
        accounted(nodes=["n1"]),
        accounted(tres={"allocated": "cpu=4,gres/gpu=1"}),
        accounted(tres={"allocated": [{"type": "gres", "name": "gpu", "count": number(1)}]}),
        accounted(**times(suspended=600)),
        controlled(job_state=["COMPLETED"], end_time=number(START + HOUR)),
        controlled(job_state="COMPLETED", start_time=START, end_time=START + HOUR, array_job_id=0, array_task_id=None),
        controlled(job_state="COMPLETING", end_time=START + HOUR),
        controlled(job_state=["CANCELLED", "COMPLETING"], end_time=number(START + HOUR)),
    ],
)
def test_each_version_writes_the_same_job_in_its_own_way(tmp_path: Path, job: dict[str, Any]) -> None:
    batch = read(tmp_path, answer(job))
    assert batch.records.equals(read(tmp_path, answer(accounted())).records)
    assert batch.findings == []


@pytest.mark.parametrize("end", [0, None, UNSET, INFINITE, 4294967294, 18446744073709551614])
def test_a_running_job_is_held_to_start_plus_elapsed(tmp_path: Path, end: Any) -> None:
    batch = read(tmp_path, answer(accounted(state={"current": ["RUNNING"]}, **times(end=end, elapsed=600))))
    assert seconds(batch) == [600]
    assert batch.records["ended"].to_list() == [False]


@pytest.mark.parametrize(
    ("last_update", "held"),
    [
        (number(START + 900), 900),
        (START + 900, 900),
        (UNSET, None),
        (number(0), None),
        (START - 5, None),
        (10**30, None),
    ],
)
@pytest.mark.parametrize("state", ["RUNNING", ["RUNNING"], ["SUSPENDED"], ["CONFIGURING", "RUNNING"], ["NEWSTATE"]])
def test_a_time_limit_is_no_end(tmp_path: Path, state: Any, last_update: Any, held: int | None) -> None:
    batch = read(tmp_path, answer(controlled(job_state=state), last_update=last_update))
    assert seconds(batch) == [held]
    assert batch.records["ended"].to_list() == [False]
    assert batch.findings == []


def test_each_answer_in_a_file_has_its_own_time(tmp_path: Path) -> None:
    answers = [answer(controlled(job_id=n), last_update=START + n) for n in (60, 120)]
    batch = read(tmp_path, "\n".join([*answers, answer(controlled(job_id=3))]))
    assert dict(zip(batch.records["workload"], seconds(batch), strict=True)) == {"60": 60, "120": 120, "3": None}


@pytest.mark.parametrize(
    "state", ["PENDING", ["PENDING"], ["PENDING", "REQUEUED"], ["COMPLETING", "PENDING"], "REQUEUED"]
)
def test_what_waits_in_the_queue_holds_nothing(tmp_path: Path, state: Any) -> None:
    batch = read(tmp_path, answer(controlled(job_state=state)))
    assert (batch.records.height, batch.accounting.height, batch.findings) == (0, 0, [])


@pytest.mark.parametrize(
    ("tres_text", "detail", "gpus"),
    [
        ("cpu=2,gres/gpu=8,gres/gpu:h100=8", ["gpu:h100:4(IDX:0-3)", "gpu:h100:4(IDX:0-3)"], [("h100", "8")]),
        ("cpu=2", ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:0,3)"], [("h100", "6")]),
        ("cpu=2", ["gpu:a100:1(IDX:0)", "gpu:2(IDX:1-2),shard:h100:4(0/16)"], [(None, "2"), ("a100", "1")]),
        ("", ["gpu:h100:4"], [("h100", "4")]),
    ],
)
def test_the_controller_names_gpus_where_accounting_does_not_track_them(
    tmp_path: Path, tres_text: str, detail: list[str], gpus: list[Any]
) -> None:
    cpu_only = controlled(job_id=2, tres_alloc_str="cpu=2")
    batch = read(tmp_path, answer(controlled(tres_alloc_str=tres_text, gres_detail=detail), cpu_only))
    assert batch.records.sort("model").select("model", "gpus").rows() == gpus
    assert batch.findings == []


BAD_ENTRIES = {
    "no object": ("5", "no JSON object"),
    "null": ("null", "no JSON object"),
    "no id": (json.dumps(accounted(job_id=None)), "job id"),
    "an id that is none": (json.dumps(accounted(job_id={"set": True, "number": [1]})), "job id"),
    "no times": (json.dumps({"job_id": 2}), "without its times"),
    "times that are none": (json.dumps(accounted(job_id=2, time=5)), "without its times"),
    "a start that is no time": (json.dumps(accounted(job_id=2, **times(start="soon"))), "no time"),
    "a start that is a list": (json.dumps(accounted(job_id=2, **times(start=[]))), "no time"),
    "a start before 1970": (json.dumps(accounted(job_id=2, **times(start=-5))), "no time"),
    "an end that is no time": (json.dumps(accounted(job_id=2, **times(end=True))), "no time"),
    "an end beyond 2100": (json.dumps(accounted(job_id=2, **times(end=10**20))), "no time"),
    "an end before its start": (json.dumps(accounted(job_id=2, **times(end=START - 1))), "ends before"),
    "a GPU count that is none": (
        json.dumps(accounted(job_id=2, tres={"allocated": [{"type": "gres", "name": "gpu", "count": "many"}]})),
        "GPU count",
    ),
    "a negative GPU count": (json.dumps(accounted(job_id=2, tres={"allocated": tres(gpu=-2)})), "GPU count"),
    "GRES without a count": (
        json.dumps(controlled(job_id=2, gres_detail=["gpu:h100:"], tres_alloc_str="")),
        "GPU count",
    ),
    "no JSON": ('{"job_id": 2, "name": }', "no JSON"),
    "a word that is no JSON": ("nothing", "no JSON"),
    "a stray bracket": ("}", "no JSON"),
    "a stray colon": (":", "no JSON"),
    "an escape that is none": (r'{"job_id": 2, "name": "a\q]}\""}', "no JSON"),
    "a number of 5000 digits": ('{"job_id": ' + "9" * 5000 + "}", "no JSON"),
    "nested without end": ("[" * 100_000 + "]" * 100_000, "no JSON"),
}


@pytest.mark.parametrize(("entry", "why"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_a_bad_entry_is_counted_with_its_line_and_the_rest_kept(tmp_path: Path, entry: str, why: str) -> None:
    first, last = (json.dumps(accounted(job_id=n)) for n in (1, 3))
    batch = read(tmp_path, f'{{"jobs": [\n{first},\n{entry},\n{last}\n], "errors": []}}')
    assert batch.records["workload"].to_list() == ["1", "3"]
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 1)
    assert why in finding.detail
    assert "line 3" in finding.detail


def test_a_nodelist_that_is_none_is_counted_and_the_hours_kept(tmp_path: Path) -> None:
    batch = read(tmp_path, answer(accounted(nodes="gpu[1-")))
    assert batch.records["nodes"].to_list() == [[]]
    assert codes(batch) == {"bad_line": 1}


@pytest.mark.parametrize("cut", [1, 5, 40, 300, 700])
def test_what_stands_before_a_break_is_kept_and_the_break_is_said(tmp_path: Path, cut: int) -> None:
    text = answer(accounted(job_id=1), accounted(job_id=2)).partition('"warnings"')[0]
    batch = read(tmp_path, text[:-cut])
    assert batch.records["workload"].to_list()[0] == "1"
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 1)


def test_an_answer_of_errors_is_said(tmp_path: Path) -> None:
    batch = read(tmp_path, json.dumps({"jobs": [], "errors": [{"error_number": 2017}, {"error_number": 1}]}))
    assert batch.records.height == 0
    assert codes(batch) == {"bad_line": 2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no `jobs`"),
        ("{}", "has no `jobs`"),
        ('{"nodes": [], "meta": {"jobs": []}}', "has no `jobs`"),
        ('{"jobs": {"1": {}}}', "has no `jobs`"),
        ("[]", "line 1: expected a JSON object"),
        ("JobID|State\n1|COMPLETED\n", "is no JSON"),
        ("<html>502 Bad Gateway</html>", "is no JSON"),
        ('\n\n{"meta": {"a"', "line 3: the text breaks off"),
        ("{5: 6}", "expected a key"),
        (bytes(range(256)) * 50, "is no JSON"),
    ],
)
def test_what_is_no_answer_about_jobs_is_an_error_with_its_mend(tmp_path: Path, text: str | bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why) as caught:
        read(tmp_path, text)
    assert "sacct --json" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        answer(accounted(name='a "quoted" {name}]\\')),
        answer(accounted(name="line\nbreak\ttab é 日本")).replace("\\n", "\n").replace("\\t", "\t"),
        json.dumps({"jobs": [accounted()]}, separators=(",", ":")),
        json.dumps({"jobs": [accounted()]}, ensure_ascii=False),
        "\ufeff" + answer(accounted()),
        answer(accounted()).replace("/", "\\/"),
        answer(accounted()).replace("\n", "\r\n"),
        gzip.compress(answer(accounted()).encode()),
        answer(accounted(name="x")).encode().replace(b'"x"', b'"caf\xe9"'),
    ],
)
def test_any_json_is_read(tmp_path: Path, text: str | bytes) -> None:
    batch = read(tmp_path, text)
    assert batch.records.equals(read(tmp_path, answer(accounted())).records)
    assert batch.findings == []


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    batch = read(tmp_path, answer(accounted(account="a\ud800b", qos="日本")))
    assert batch.records.select("slurm_account", "slurm_qos").rows() == [("a?b", "日本")]


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 1000])
def test_jobs_are_read_alike_however_the_text_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    jobs = [accounted(job_id=n, name='日本 \\"{[', account=f"a{n}") for n in range(1, 6)]
    text = answer(*jobs, 12345, controlled(job_id=77), last_update=START + 60)
    whole = read(tmp_path, text)
    monkeypatch.setattr(json_members, "CHUNK_BYTES", chunk)
    pieces = read(tmp_path, text)
    assert pieces.records.equals(whole.records)
    assert pieces.records.height == 6
    assert pieces.findings == whole.findings


def test_a_value_too_long_to_hold_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_members, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(json_members, "MAX_VALUE_CHARS", 10_000)
    batch = read(tmp_path, answer(accounted(), accounted(job_id=2, name="x" * 50_000), accounted(job_id=3)))
    assert batch.records["workload"].to_list() == ["1"]
    assert codes(batch) == {"bad_line": 1}


@pytest.mark.skipif(not RECORDINGS, reason="the public recordings are not beside the checkout")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_recording_of_slurm_is_read(path: Path) -> None:
    batch = read_slurm_json(path, cluster="c")
    answered = json.loads(path.read_text())
    assert batch.records.schema == RECORD
    unfit = [f for f in batch.findings if f.code != "gpus_not_tracked"]
    assert sum(f.count for f in unfit) == len(answered["errors"])
    # Jobs whose GPUs only the controller names (`gres_detail`); accounting of that cluster tracks none.
    gpus = {str(job["job_id"]) for job in answered["jobs"] if job.get("gres_detail")}
    assert set(batch.records["workload"]) == gpus


@pytest.mark.skipif(not OTHER_ANSWERS, reason="the public recordings are not beside the checkout")
@pytest.mark.parametrize("path", OTHER_ANSWERS, ids=lambda path: path.name)
def test_answers_about_nodes_and_the_like_are_refused(path: Path) -> None:
    with pytest.raises(SourceError, match="has no `jobs`"):
        read_slurm_json(path, cluster="c")


@pytest.mark.skipif(not RECORDINGS, reason="the public recordings are not beside the checkout")
def test_a_recorded_job_on_two_nodes_holds_the_gpus_of_both() -> None:
    path = next(path for path in RECORDINGS if path.name == "slurm-job-gpus-multi-nodes.json")
    (record,) = read_slurm_json(path, cluster="c").records.rows(named=True)
    assert (record["gpus"], record["model"], record["nodes"]) == ("8", "h100", ["gpu1", "gpu2"])
    assert record["ended"] is False
