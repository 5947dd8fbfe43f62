"""A device whose samples reach a real Prometheus late, while those of the others came in time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest

from pipelines import lake
from pipelines.config import load
from pipelines.ingest import Ingested, ingest
from pipelines.ledger import LAKE_NAME, open_ledger
from tests.end_to_end.backfilled import CONFIG, DEADLINE_S
from tests.end_to_end.test_prometheus import free_port
from tests.pipelines.sources.test_prometheus_servers import write

MINUTE = timedelta(minutes=1)


@contextmanager
def receiving(folder: Path) -> Iterator[str]:
    """A Prometheus that is written to, and takes what is an hour late."""
    (folder / "prometheus.yml").write_text(
        json.dumps({"storage": {"tsdb": {"out_of_order_time_window": "3h"}}, "scrape_configs": []})
    )
    port = free_port()
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
               "--web.enable-remote-write-receiver", f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                if httpx.get(f"{url}/-/ready").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.mark.needs_program("prometheus")
def test_a_device_that_is_written_an_hour_late_is_found_once(tmp_path: Path) -> None:
    start = datetime.now(UTC).replace(second=0, microsecond=0) - 2 * timedelta(hours=1)

    def samples(first: int, last: int) -> list[tuple[int, float]]:
        return [(round((start + nth * MINUTE).timestamp() * 1000), float(nth)) for nth in range(first, last)]

    with receiving(tmp_path) as url, httpx.Client() as client:
        path = tmp_path / "gpuledger.yaml"
        path.write_text(CONFIG.format(url=url))
        config = load(path)

        def passed(minutes: int) -> Ingested:
            with open_ledger(config.ledger, "a test") as ledger:
                return ingest(ledger, config.sources, config, configured=True, now=start + minutes * MINUTE)

        write(client, url, {"GPU-a": samples(0, 60), "GPU-b": samples(0, 20)})
        passed(60)
        write(client, url, {"GPU-a": samples(60, 70), "GPU-b": samples(60, 70)})
        assert passed(70).samples == 20
        write(client, url, {"GPU-b": samples(20, 60)})
        found = [passed(minutes) for minutes in range(75, 120, 5)]
        with open_ledger(config.ledger, "a test") as ledger:
            paths = sorted({part.path for part in ledger.parts()})
            held = pl.concat(lake.read(ledger.folder / LAKE_NAME, paths), how="diagonal")

    assert sum(one.samples for one in found) == 40
    assert sum(one.findings.get("late_data", 0) for one in found) == 40  # slice by slice, as each is counted again
    assert dict(held.group_by("device").len().iter_rows()) == {"GPU-a": 70, "GPU-b": 70}
    assert held.select("device", "time").is_unique().all()
