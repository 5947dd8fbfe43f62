"""Who pays for a lease and from when: selectors, their dates, retired tenants, names that a source gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from pipelines.config import load
from pipelines.instants import from_ms, to_ms
from pipelines.metering import LEASE
from pipelines.periods import parse_time
from pipelines.tenancy import tenancy
from tests.pipelines.scene import Scene

TENANTS: Final = [
    {"id": "old", "match": [{"namespace": "lab"}], "retired": "2026-03-10"},
    {"id": "moved", "match": [{"namespace": "group", "to": "2026-03-05T12:00:00Z"}]},
    {"id": "slurm", "match": [{"slurm_account": "phys*", "slurm_partition": "gpu*"}, {"slurm_user": "root"}]},
    {"id": "cluster", "match": [{"cluster": "hall", "node": "rack[12]"}]},
    {"id": "rest", "match": [{"namespace": "*"}]},
]

Stretch = tuple[str, str, str | None]


def paid(tmp_path: Path, **labels: Any) -> list[Stretch]:
    """From, to (days of March) and tenant, of a lease from the 1st to the 20th."""
    config = load(
        Scene(config={"tenants": TENANTS, "spot": [{"slurm_qos": "scav*"}]}).write(tmp_path) / "gpuledger.yaml"
    )
    start, end = (to_ms(parse_time(t, config.timezone)) for t in ("2026-03-01", "2026-03-20"))
    row = dict.fromkeys(LEASE) | {"id": "a", "start": start, "end": end} | labels
    found = tenancy(pl.DataFrame([row], schema=LEASE), config)
    stretches: list[Stretch] = []
    for begin, until, tenant in found.select("from", "to", "tenant").iter_rows():
        bounds = f"{from_ms(begin):%d %H}", f"{from_ms(until):%d %H}"
        if stretches and stretches[-1][2] == tenant:
            stretches[-1] = (stretches[-1][0], bounds[1], tenant)
        else:
            stretches.append((*bounds, tenant))
    return stretches


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"namespace": "other"}, [("01 00", "20 00", "rest")]),
        ({"namespace": "lab"}, [("01 00", "10 00", "old"), ("10 00", "20 00", "rest")]),
        ({"namespace": "group"}, [("01 00", "05 12", "moved"), ("05 12", "20 00", "rest")]),
        ({"slurm_account": "physics", "slurm_partition": "gpu-a"}, [("01 00", "20 00", "slurm")]),
        ({"slurm_account": "physics", "slurm_partition": "cpu"}, [("01 00", "20 00", None)]),
        ({"slurm_account": "physics"}, [("01 00", "20 00", None)]),
        ({"slurm_account": "physics", "slurm_user": "root"}, [("01 00", "20 00", "slurm")]),
        ({"cluster": "hall", "node": "rack2"}, [("01 00", "20 00", "cluster")]),
        ({"cluster": "hall", "node": "rack3"}, [("01 00", "20 00", None)]),
        ({"cluster": "HALL", "node": "Rack1"}, [("01 00", "20 00", "cluster")]),
        ({}, [("01 00", "20 00", None)]),
        ({"tenant": "moved", "namespace": "other"}, [("01 00", "20 00", "moved")]),
        ({"tenant": "unknown", "namespace": "other"}, [("01 00", "20 00", None)]),
    ],
)
def test_the_first_selector_that_matches_at_the_time_pays(
    labels: dict[str, str], expected: list[Stretch], tmp_path: Path
) -> None:
    assert paid(tmp_path, **labels) == expected
