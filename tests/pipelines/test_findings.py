"""Findings: each has its time, and a period's report says its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from exporter.errors import WorkError
from pipelines.book.closing import close
from pipelines.config import Config, load
from pipelines.findings import counted, finding_table, findings_of, merge_findings, over_cards, summed, within
from pipelines.operations import report, run_once
from pipelines.tables import Finding

SEPTEMBER, OCTOBER = datetime(2026, 9, 10, 12, tzinfo=UTC), datetime(2026, 10, 10, 12, tzinfo=UTC)
NOW = datetime(2026, 11, 20, tzinfo=UTC)
CONFIG = """
currency: EUR
timezone: UTC
scrape_interval: 60s
sources:
  - metrics: september.prom
  - metrics: october.prom
tenants:
  - {id: bio, match: [{namespace: "*"}]}
rates:
  - {model: "*", on_demand: "2.00"}
closing: {findings: [invalid_sample, bad_line], coverage: "0"}
"""


def text(begins: datetime, values: list[object]) -> str:
    """One sample a minute of one card."""
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-1",modelName="H100",Hostname="n1",exported_namespace="bio",exported_pod="p"}}'
        f" {value} {round((begins + timedelta(minutes=minute)).timestamp() * 1000)}\n"
        for minute, value in enumerate(values)
        if value is not None
    )


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "september.prom").write_text(text(SEPTEMBER, [50, 150, 50, "nonsense", 50]))
    (tmp_path / "october.prom").write_text(text(OCTOBER, [50, 50, None, None, None, 50]))
    (tmp_path / "gpuledger.yaml").write_text(CONFIG)
    config = load(tmp_path / "gpuledger.yaml")
    run_once(config)
    return config


def codes(config: Config, period: str) -> dict[str, int]:
    return {f.code: f.count for f in report(config, period=period).findings}


def test_a_periods_report_says_what_was_found_in_it(config: Config) -> None:
    assert codes(config, "2026-09") == {"bad_line": 1, "invalid_sample": 1, "gap": 2}  # up to October's first sample
    assert codes(config, "2026-10") == {"gap": 1}
    assert codes(config, "2026-09-11") == {}
    assert codes(config, "2026") == {"bad_line": 1, "invalid_sample": 1, "gap": 3}


def test_a_month_is_held_open_by_its_own_findings_alone(config: Config) -> None:
    with pytest.raises(WorkError, match="bad_line") as refused:
        close(config, "2026-09", now=NOW, by="us")
    assert "invalid_sample (1)" in str(refused.value)
    close(config, "2026-09", force=True, reason="looked at", now=NOW, by="us")
    close(config, "2026-10", now=NOW, by="us")


def test_what_happened_is_counted_per_quarter_of_an_hour() -> None:
    times = pl.DataFrame(
        {"card": [0, 1, 0, 0], "t": [0, 899_999, 900_000, 5_000_000]}, schema_overrides={"card": pl.Int32}
    )
    by_card = counted(times, "gap", "holes").sort("start")
    assert by_card.select("card", "count", "start", "end").rows() == [
        (0, 1, 0, 1),
        (1, 1, 899_999, 900_000),
        (0, 1, 900_000, 900_001),
        (0, 1, 5_000_000, 5_000_001),
    ]
    assert [(f.count, f.start, f.end) for f in summed(over_cards(by_card))] == [
        (2, 0, 900_000),
        (1, 900_000, 900_001),
        (1, 5_000_000, 5_000_001),
    ]
    assert over_cards(counted(times.clear(), "gap", "holes")) == []


def test_a_finding_is_in_each_period_that_it_touches() -> None:
    always, timed = Finding("gap", 1, "a"), Finding("gap", 1, "b", start=10, end=20)
    assert within([always, timed], (0, 10)) == [always]
    assert within([always, timed], (0, 11)) == [always, timed]
    assert within([always, timed], (19, 30)) == [always, timed]
    assert within([always, timed], (20, 30)) == [always]


def test_a_report_has_one_finding_per_code_and_names_the_first() -> None:
    found = [Finding("gap", 2, "hole", f"GPU-{n}", n, n + 1) for n in range(5)] + [Finding("bad_line", 0, "none")]
    assert merge_findings([*found, Finding("gap", 1, "other")]) == [
        Finding("gap", 11, "hole: GPU-0, GPU-1, GPU-2, and 2 more; other")
    ]


def test_findings_survive_being_stored() -> None:
    found = [Finding("gap", 2, "hole", "GPU-1", 1, 2), Finding("gap", 1, "hole")]
    assert findings_of(finding_table(found)) == found
    assert summed([*found, *found]) == [Finding("gap", 2, "hole"), Finding("gap", 4, "hole", "GPU-1", 1, 2)]
