"""A calendar of maintenance and repairs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.facts import Facts
from pipelines.sources.calendar import read_calendar


def test_rows_say_what_is_out_and_when(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(
        "node,device,state,reason,from,to\n"
        "n1,,,new fans,2026-10-05T08:00,2026-10-05T12:00\n"
        "n2,GPU-a,down,lost,2026-10-05T08:00Z,\n"
    )
    batch = read_calendar(tmp_path / "c.csv", cluster=None, zone=ZoneInfo("Europe/Berlin"))
    rows = Facts(batch.facts)["condition"].select("node", "device", "state", "reason", "from", "to").rows()
    assert rows == [
        ("n1", None, "repair", "new fans", datetime(2026, 10, 5, 6, tzinfo=UTC), datetime(2026, 10, 5, 10, tzinfo=UTC)),
        ("n2", "GPU-a", "down", "lost", datetime(2026, 10, 5, 8, tzinfo=UTC), None),
    ]


@pytest.mark.parametrize(
    "row",
    ["n1,,broken,,2026-10-05,", "n1,,,,soon,", "n1,,,,2026-10-05,2026-10-04", ",,,,2026-10-05,", "n1,,,,2026-10-05,x"],
)
def test_a_bad_row_is_counted_and_left_out(tmp_path: Path, row: str) -> None:
    (tmp_path / "c.csv").write_text(f"node,device,state,reason,from,to\n{row}\n")
    batch = read_calendar(tmp_path / "c.csv", cluster=None, zone=ZoneInfo("UTC"))
    assert batch.facts == {}
    assert [(f.code, f.count) for f in batch.findings] == [("bad_line", 1)]


def test_a_file_without_its_columns_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("machine,since\n")
    with pytest.raises(SourceError, match="no column node, from"):
        read_calendar(tmp_path / "c.csv", cluster=None, zone=ZoneInfo("UTC"))
