from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from exporter.errors import SourceError
from pipelines.sources.inventory import read_inventory
from pipelines.tables import INVENTORY, Batch

HEADER = "node,device,model,gpus,slots,owner,from,to"


def read(tmp_path: Path, text: str, cluster: str | None = None) -> Batch:
    path = tmp_path / "i.csv"
    path.write_text(text)
    return read_inventory(path, cluster=cluster, zone=ZoneInfo("Europe/Berlin"))


def test_a_row_is_a_card_or_the_cards_of_a_node(tmp_path: Path) -> None:
    batch = read(
        tmp_path,
        f"{HEADER}\nn1,GPU-a,NVIDIA H100,1,4,vision,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z\nn2,,,8,,,2026-11-01,\n"
        "n3,GPU-b,,,,,,\n",
    )
    assert batch.inventory.schema == INVENTORY
    start = datetime(2026, 11, 1, tzinfo=UTC)
    assert batch.inventory.rows() == [
        (None, "n1", "GPU-a", "NVIDIA H100", 1, 4, "vision", start, datetime(2026, 12, 1, tzinfo=UTC)),
        (None, "n2", None, None, 8, None, None, datetime(2026, 10, 31, 23, tzinfo=UTC), None),
        (None, "n3", "GPU-b", None, 1, None, None, None, None),
    ]
    assert batch.findings == []


def test_the_cluster_is_the_rows_then_the_sources(tmp_path: Path) -> None:
    batch = read(tmp_path, "cluster,node,gpus\na,n1,1\n,n2,1\n", cluster="b")
    assert batch.inventory["cluster"].to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("n1,,,,,,,", "count of gpus"),
        (",,,8,,,,", "without a node"),
        ("n1,,,-8,,,,", "gpus is no whole number"),
        ("n1,,,1.5,,,,", "gpus is no whole number"),
        ("n1,,,1,x,,,", "slots is no whole number"),
        ("n1,,,1,0,,,", "0 slots"),
        ("n1,GPU-a,,2,,,,", "one named device"),
        ("n1,GPU-a,,1,,,2026-12-01,2026-11-01", "not after"),
        ("n1,GPU-a,,1,,,2026-11-01,2026-11-01", "not after"),
        ("n1,GPU-a,,1,,,soon,", "ISO 8601"),
        ("n1,GPU-a", "columns of the header"),
    ],
)
def test_a_bad_row_is_counted_and_the_rest_kept(tmp_path: Path, row: str, why: str) -> None:
    batch = read(tmp_path, f"{HEADER}\n{row}\nn9,GPU-z,,1,,,,\n")
    assert batch.inventory["node"].to_list() == ["n9"]
    (finding,) = batch.findings
    assert (finding.code, finding.count) == ("bad_line", 1)
    assert why in finding.detail
    assert "line 2" in finding.detail


def test_a_node_without_gpus_has_none(tmp_path: Path) -> None:
    batch = read(tmp_path, "node,gpus\nlogin1,0\n")
    assert batch.inventory.height == 0
    assert batch.findings == []


def test_an_empty_file_yields_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "").inventory.schema == INVENTORY


def test_a_header_without_node_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no column node"):
        read(tmp_path, "host,gpus\nn1,8\n")
