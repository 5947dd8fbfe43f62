"""Real cards, idle and under load, as nvidia_gpu_exporter showed them: what can be told without profiling fields.

Looked at by hand: each idle capture is a card at 0 % GPU_UTIL and its idle power; each load capture is a card on which
GPU_UTIL says 7 to 100 %, and nothing says with what. A capture is one scrape; here a card shows it for an hour.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from pipelines.analysis.hours import analyse
from pipelines.config import load
from pipelines.instants import HOUR_MS
from pipelines.metering import LEASE
from pipelines.rollup import USAGE
from pipelines.sources import read

CAPTURES: Final = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "nvidia_gpu_exporter" / "metrics"
CONFIG: Final = """\
currency: USD
sources: [{metrics: capture.prom, cluster: c, at: 2026-03-02T09:00:00Z}]
tenants: [{id: a, match: [{namespace: x}]}]
rates: [{model: "*", on_demand: "1.00"}]
"""

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="needs the public captures beside the repository")


def told(capture: Path, folder: Path) -> set[str]:
    (folder / "capture.prom").write_text(capture.read_text())
    (folder / "gpuledger.yaml").write_text(CONFIG)
    config = load(folder / "gpuledger.yaml")
    scrape = read(config.sources[0], config).samples
    start = int(scrape["time"][0].timestamp() * 1000)
    hour = pl.concat([scrape.with_columns(pl.col("time") + timedelta(minutes=m)) for m in range(60)])
    usage, leases = [], []
    for device, instance, model in scrape.select("device", "instance", "model").unique().iter_rows():
        held: dict[str, Any] = dict.fromkeys(USAGE)
        held |= {"cluster": "c", "device": device, "instance": instance, "model": model, "state": "allocated"}
        held |= {"lease": f"{device}/{instance}", "start": start, "end": start + HOUR_MS}
        usage.append(held | {"weight_num": 1, "weight_den": 1})
        lease: dict[str, Any] = dict.fromkeys(LEASE)
        leases.append(
            lease
            | {"id": f"{device}/{instance}", "cluster": "c", "workload": "w", "guessed": False}
            | {"start": start, "end": start + HOUR_MS}
        )
    found = analyse(hour, pl.DataFrame(usage, schema=USAGE), pl.DataFrame(leases, schema=LEASE), [start])
    return set(found.windows["cause"])


def captures(pattern: str) -> list[Any]:
    files = sorted(CAPTURES.glob(pattern)) if CAPTURES.is_dir() else []
    return [pytest.param(file, id=file.stem.removeprefix("linux-x86_64__")) for file in files]


@pytest.mark.parametrize("capture", [c for c in captures("*__idle.metrics") if "mig" not in str(c.id)])
def test_an_idle_card_is_idle(capture: Path, tmp_path: Path) -> None:
    assert told(capture, tmp_path) == {"idle"}


@pytest.mark.parametrize("capture", captures("*__load.metrics"))
def test_of_a_card_under_load_nobody_knows_what_limits_it_and_nobody_is_accused(capture: Path, tmp_path: Path) -> None:
    assert told(capture, tmp_path) == {"unknown"}


@pytest.mark.parametrize("capture", captures("*mig*__idle.metrics"))
def test_a_card_in_mig_mode_shows_no_utilisation_so_nobody_knows(capture: Path, tmp_path: Path) -> None:
    assert told(capture, tmp_path) == {"unknown"}
