"""Sources as the configuration names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import SourceError
from pipelines.config import load
from pipelines.sources import read

HEAD = "currency: USD\ntimezone: America/New_York\nsources:\n"
SACCT_FIELDS = "JobID,State,Start,End,AllocTRES"
JOB = "1|COMPLETED|2026-10-05T12:00:00|2026-10-05T13:00:00|gres/gpu=1\n"
JOB_JSON = (
    '{"jobs": [{"job_id": 1, "state": {"current": ["COMPLETED"]}, "time": {"start": 1791216000, "end": 1791219600}, '
    '"tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 1}]}}]}'
)


def write(tmp_path: Path, entry: str) -> Path:
    path = tmp_path / "gpuledger.yaml"
    path.write_text(f"{HEAD}  - {{{entry}}}\n")
    return path


@pytest.mark.parametrize(
    ("entry", "content", "table", "start"),
    [
        ("metrics: f, at: 2026-10-05T12:00:00", 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} 40\n', "samples", "16:00"),
        (f"sacct: f, fields: [{SACCT_FIELDS}]", JOB, "records", "16:00"),
        (f"sacct: f, timezone: UTC, fields: [{SACCT_FIELDS}]", JOB, "records", "12:00"),
        ("slurm_json: f", JOB_JSON, "records", "16:00"),
        ("allocations: f", "start,end,gpus\n2026-10-05T12:00,2026-10-05T13:00,1\n", "records", "16:00"),
        ("allocations: f, timezone: UTC", "start,end,gpus\n2026-10-05T12:00,2026-10-05T13:00,1\n", "records", "12:00"),
        ("inventory: f", "node,gpus,from\nn1,8,2026-10-05T12:00\n", "inventory", "16:00"),
    ],
)  # fmt: skip
def test_a_source_is_read_by_its_kind_with_its_own_zone_before_the_files(
    tmp_path: Path, entry: str, content: str, table: str, start: str
) -> None:
    (tmp_path / "f").write_text(content)
    config = load(write(tmp_path, entry))
    rows = getattr(read(config.sources[0], config), table)
    column = {"samples": "time", "records": "start", "inventory": "from"}[table]
    assert rows[column].dt.strftime("%H:%M").to_list() == [start]


@pytest.mark.parametrize(("entry", "cluster"), [("metrics: f, cluster: prod", "prod"), ("metrics: f", "default")])
def test_the_cluster_is_named_by_the_source_or_default(tmp_path: Path, entry: str, cluster: str) -> None:
    (tmp_path / "f").write_text('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} 40 1791201600000\n')
    config = load(write(tmp_path, entry))
    assert read(config.sources[0], config).samples["cluster"].to_list() == [cluster]


@pytest.mark.parametrize(
    "kind",
    [
        "metrics",
        "samples",
        "sacct",
        "slurm_json",
        "slurm_state",
        "kube_state",
        "allocations",
        "inventory",
        "calendar",
        "acceptance",
    ],
)
def test_a_file_that_is_missing_is_one_line_that_names_it(tmp_path: Path, kind: str) -> None:
    config = load(write(tmp_path, f"{kind}: absent"))
    with pytest.raises(SourceError, match="absent: no such file; correct the path") as caught:
        read(config.sources[0], config)
    assert str(tmp_path / "absent") in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        "metrics",
        "sacct",
        "slurm_json",
        "slurm_state",
        "kube_state",
        "allocations",
        "inventory",
        "calendar",
        "acceptance",
    ],
)
def test_a_folder_where_a_file_belongs_is_an_error(tmp_path: Path, kind: str) -> None:
    (tmp_path / "f").mkdir()
    config = load(write(tmp_path, f"{kind}: f"))
    with pytest.raises(SourceError, match="is a directory"):
        read(config.sources[0], config)


def test_findings_call_a_file_what_the_configuration_calls_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_text("garbage\n")
    config = load(write(tmp_path, "metrics: sub/f"))
    (finding,) = read(config.sources[0], config).findings
    assert finding.detail.startswith("sub/f: ")
