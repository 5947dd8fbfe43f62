"""A small book: two tenants over three months, a rate that changes, a reservation half used, an outage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from pipelines.config import Config, load
from pipelines.operations import run_once

CONFIG: Final = """\
currency: USD
timezone: UTC
sources:
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}
tenants:
  - {id: astro, name: "Astro & Co", cost_center: "4711", tags: {programme: sky}, budget: {monthly: "1000.00"}}
  - {id: bio}
rates:
  - {model: "*H100*", to: 2026-10-01, on_demand: "2.00", reserved: "1.50"}
  - {model: "*H100*", from: 2026-10-01, on_demand: "2.50", reserved: "1.50", spot: "1.00"}
reservations:
  - {id: r1, tenant: astro, model: "*H100*", gpus: 2, from: 2026-10-01, to: 2026-10-02}
overheads:
  - {name: storage, monthly: "100.00", split: even}
idle: {policy: proportional}
energy: {pue: "1.3", carbon_g_per_kwh: "400"}
closing: {issuer: Research Computing}
"""
HEAD: Final = "start,end,gpus,device,model,tenant,workload,class\n"
SEPTEMBER: Final = "2026-09-10T00:00:00Z,2026-09-10T10:00:00Z,1,,H100,astro,sept,\n"
OCTOBER: Final = (
    "2026-10-01T00:00:00Z,2026-10-01T12:00:00Z,3,,H100,astro,train,\n"  # 24 h reserved, 12 h overflow
    "2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,1,,H100,bio,=cmd(),spot\n"
    "2026-10-05T02:00:00Z,2026-10-05T02:20:00Z,1,,H100,bio,short,\n"
    "2026-10-01T20:00:00Z,2026-10-01T22:00:00Z,1,,H100,astro,,down\n"
)
NOVEMBER: Final = "2026-11-02T00:00:00Z,2026-11-02T04:00:00Z,2,,H100,bio,later,\n"
INVENTORY: Final = "node,device,model,gpus,slots,owner,from,to\nn1,,H100,4,,,2026-09-01,2026-12-01\n"

Book = Callable[..., Config]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """Write the folder (again, with more or other rows), bring its ledger up to date, return its configuration."""

    def written(*extra: str, config: str = CONFIG) -> Config:
        (tmp_path / "gpuledger.yaml").write_text(config)
        rows = HEAD + SEPTEMBER + OCTOBER + NOVEMBER + "".join(extra)
        (tmp_path / "allocations.csv").write_text(rows)
        (tmp_path / "inventory.csv").write_text(INVENTORY)
        loaded = load(tmp_path / "gpuledger.yaml")
        run_once(loaded)
        return loaded

    return written
