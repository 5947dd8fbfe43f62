"""Zones that shift by half an hour or skip a midnight, and names that try to be something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import duckdb
import pytest
import yaml

from exporter.exposition import labels
from gpuledger import cli
from pipelines.config import load
from pipelines.operations import replay, report, run_once
from tests.end_to_end.folders import NOON_MS

ALLOCATIONS: Final = "start,end,gpus,device,model,tenant,workload,class\n"
CONFIG: Final = """\
currency: USD
timezone: {zone}
period: {month}
sources:
  - {{allocations: held.csv}}
tenants:
  - {{id: vision, match: [{{namespace: "vision-*"}}]}}
rates:
  - {{model: "*", on_demand: "1.00"}}
"""


@pytest.mark.parametrize(
    ("zone", "month", "following", "start_utc", "hours", "odd_days"),
    [
        # UTC+5:45, and no summer time.
        ("Asia/Kathmandu", "2026-10", "2026-11-01", "2026-09-30T18:15:00Z", 744, {}),
        # UTC+10:30, in summer +11: on the first Sunday of October 2:00 is 2:30, of April 2:00 is 1:30.
        ("Australia/Lord_Howe", "2026-10", "2026-11-01", "2026-09-30T13:30:00Z", 743.5, {"2026-10-04": 23.5}),
        ("Australia/Lord_Howe", "2026-04", "2026-05-01", "2026-03-31T13:00:00Z", 720.5, {"2026-04-05": 24.5}),
        # Until 2019 the clock was set at midnight: a day that starts at 1:00, and one whose last hour comes twice.
        ("America/Sao_Paulo", "2018-11", "2018-12-01", "2018-11-01T03:00:00Z", 719, {"2018-11-04": 23}),
        ("America/Sao_Paulo", "2018-02", "2018-03-01", "2018-02-01T02:00:00Z", 673, {"2018-02-17": 25}),
        # UTC+14: the day begins before anywhere else.
        ("Pacific/Kiritimati", "2026-10", "2026-11-01", "2026-09-30T10:00:00Z", 744, {}),
        # In 2011 Samoa crossed the date line, and 30 December never was.
        ("Pacific/Apia", "2011-12", "2012-01-01", "2011-12-01T10:00:00Z", 720, {"2011-12-30": None}),
    ],
)
def test_a_local_month_has_the_hours_that_its_clock_gave_it(
    tmp_path: Path,
    zone: str,
    month: str,
    following: str,
    start_utc: str,
    hours: float,
    odd_days: dict[str, float | None],
) -> None:
    (tmp_path / "gpuledger.yaml").write_text(CONFIG.format(zone=zone, month=month))
    (tmp_path / "held.csv").write_text(f"{ALLOCATIONS}{month}-01,{following},1,,H100,vision,w,\n")
    run_once(load(tmp_path / "gpuledger.yaml"))
    found = report(load(tmp_path / "gpuledger.yaml"))
    assert json.loads(found.to_json())["period"]["from"] == start_utc
    assert found.fleet.capacity_gpu_hours == hours
    assert str(found.tenants[0].charges.total) == f"{hours:.2f}"

    (file,) = (tmp_path / "ledger" / "published").glob("tenant-vision-*.duckdb")
    with duckdb.connect(str(file), read_only=True) as connection:
        days = dict(connection.execute("SELECT day::VARCHAR, sum(gpu_hours) FROM charge GROUP BY day").fetchall())
    expected = {f"{month}-{day:02}": 24.0 for day in range(1, 32) if f"{month}-{day:02}" in days or day <= 28}
    expected |= {day: length for day, length in odd_days.items() if length is not None}
    assert days == pytest.approx(expected)
    assert sum(days.values()) == pytest.approx(hours)
    assert all(day not in days for day, length in odd_days.items() if length is None)


VISION: Final = {
    "currency": "USD",
    "tenants": [{"id": "vision", "match": [{"namespace": "vision-*"}]}],
    "rates": [{"model": "*", "on_demand": "6.00"}],
}
NAMES: Final = {
    "quotes": """it's "quoted" `so` \\ and \\n so""",
    "newlines": "first\nsecond\r\nthird",
    "emoji": "🚀👩‍🔬 train",
    "right to left": "تدريب\u202etxt.exe\u202c",
    "long": "x" * 300,
    "a path": "../../etc/passwd",
    "SQL": "'; DROP TABLE usage; --",
    "markup": "<script>alert(1)</script> $${{jinja}} %s %(x)d",
    "a NUL": "before\0after",
    "an escape sequence": "\x1b[31mred\x9b0m",
    "spaces": "  padded\t",
    "what looks like null": "null",
    "what looks like a number": "1e309",
    "a glob": "*[!a]?{x}",
    "a spreadsheet formula": '=HYPERLINK("http://x","y")',
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_is_text_and_nothing_else(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "gpuledger.yaml").write_text(
        yaml.safe_dump({**VISION, "sources": [{"metrics": "a.prom", "cluster": name}]})
    )
    where = {
        "UUID": "GPU-a",
        "Hostname": name,
        "modelName": name,
        "namespace": f"vision-{name}",
        "pod": name,
        "container": name,
    }
    lines = [f"DCGM_FI_DEV_GPU_UTIL{labels(where)} 50 {NOON_MS + 60_000 * minute}" for minute in range(10)]
    (site / "a.prom").write_text("\n".join(lines) + "\n", newline="")

    workload = f"vision-{name}/{name}"
    config = site / "gpuledger.yaml"
    run_once(load(config))
    for found in (replay(site), report(load(config))):
        (vision,) = json.loads(found.to_json())["tenants"]
        assert [w["workload"] for w in vision["workloads"]] == [workload]
        assert vision["charges"]["total"] == "1.00"
    published = sorted((site / "ledger" / "published").glob("*.duckdb"))
    assert len(published) == 2
    for file in published:
        with duckdb.connect(str(file), read_only=True) as connection:
            assert connection.execute("SELECT DISTINCT workload FROM lease").fetchall() == [(workload,)]
            assert connection.execute("SELECT DISTINCT model, node FROM usage").fetchall() == [(name, name)]
    # Nothing was written anywhere but in the ledger, and a terminal is told no more lines than there are.
    assert {path.name for path in tmp_path.iterdir()} == {"site"}
    assert {path.name for path in site.iterdir()} == {"gpuledger.yaml", "a.prom", "ledger"}
    assert cli.main(["report", "--config", str(config)]) == 0
    plain = capsys.readouterr().out
    assert not set("\x1b\x9b\0\u202e\r") & set(plain)
