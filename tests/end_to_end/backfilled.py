"""A real Prometheus with days of samples that are already stored."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx

from tests.end_to_end.test_prometheus import free_port

START: Final = datetime(2026, 10, 5, 18, tzinfo=UTC)
EVERY: Final = timedelta(minutes=2)
DEADLINE_S: Final = 60
CONFIG: Final = """\
currency: USD
sources:
  - {{prometheus: "{url}", cluster: prod}}
tenants:
  - {{id: vision, match: [{{namespace: "vision"}}]}}
  - {{id: nlp, match: [{{namespace: "nlp"}}]}}
rates:
  - {{model: "*", on_demand: "3.60"}}
energy: {{price_per_kwh: "10.00", charge: true}}
"""


def backfill(folder: Path, *, days: float, cards: int = 3) -> Path:
    """Write a Prometheus's data folder with samples of some cards, which change hands; returns it."""
    lines = []
    for name, kind in (("DCGM_FI_DEV_GPU_UTIL", "gauge"), ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gauge")):
        lines.append(f"# TYPE {name} {kind}")
        for card in range(cards):
            for nth in range(int(timedelta(days=days) / EVERY)):
                at = (START + nth * EVERY).timestamp()
                holder = ("vision", "nlp", "")[(nth // 400 + card) % 3]
                pod = f'namespace="{holder}",pod="job-{card}-{nth // 400}"' if holder else 'namespace=""'
                value = (nth * 37 + card * 11) % 100 if kind == "gauge" and "UTIL" in name else nth * 30_000_000
                labels = f'UUID="GPU-{card}",Hostname="n1",modelName="H100",{pod}'
                lines.append(f"{name}{{{labels}}} {value} {at:.0f}")
    lines.append("# EOF")
    text = folder / "backfill.om"
    text.write_text("\n".join(lines) + "\n")
    tsdb = folder / "tsdb"
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", str(text), str(tsdb)],
        check=True,
        capture_output=True,
    )
    return tsdb


@contextmanager
def prometheus_over(folder: Path, tsdb: Path, port: int | None = None) -> Iterator[str]:
    """A real Prometheus over a data folder; yields its URL once it answers."""
    port = port or free_port()
    settings = folder / "prometheus.yml"
    settings.write_text("scrape_configs: []\n")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={settings}",
            f"--storage.tsdb.path={tsdb}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not _answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def configured(folder: Path, url: str) -> Path:
    """Write a configuration that reads it; returns the folder."""
    folder.mkdir()
    (folder / "gpuledger.yaml").write_text(CONFIG.format(url=url))
    return folder
