"""What must always be true holds in the oracle's own answers to random cases, and a case is its seed's alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import replay
from tests.oracle.random_cases import make_case

PARTS = ("allocated", "idle", "stranded", "down", "unobserved")


@pytest.fixture(params=range(12), ids=lambda seed: f"seed{seed}")
def report(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    make_case(request.param, tmp_path)
    return replay(tmp_path)


def test_every_device_second_and_every_cent_is_in_one_place(report: dict[str, Any]) -> None:
    fleet, tenants = report["fleet"], report["tenants"]
    assert sum(fleet[f"{part}_gpu_hours"] for part in PARTS) == pytest.approx(fleet["capacity_gpu_hours"], abs=1e-5)
    held = sum(t["gpu_hours"]["allocated"] for t in tenants) + report["unattributed_gpu_hours"]
    assert held == pytest.approx(fleet["allocated_gpu_hours"], abs=1e-5)
    assert min(value for key, value in fleet.items() if key.endswith("_hours")) >= 0
    assert Decimal(fleet["billed"]) == sum(Decimal(t["charges"]["total"]) for t in tenants)
    assert Decimal(fleet["cost"]) - Decimal(fleet["billed"]) == Decimal(fleet["unbilled"])
    for tenant in tenants:
        lines = [Decimal(value) for key, value in tenant["charges"].items() if key != "total"]
        assert sum(lines) == Decimal(tenant["charges"]["total"])
        hours = tenant["gpu_hours"]
        classes = sum(hours[name] for name in ("reserved", "on_demand", "overflow", "spot"))
        assert classes == pytest.approx(hours["allocated"], abs=1e-5)
        assert sum(w["gpu_hours"] for w in tenant["workloads"]) == pytest.approx(hours["allocated"], abs=1e-5)
        if not hours["reserved"]:
            assert sum(Decimal(w["cost"]) for w in tenant["workloads"]) == Decimal(tenant["charges"]["usage"])


def test_a_case_is_its_seeds_alone(tmp_path: Path) -> None:
    make_case(7, tmp_path / "one")
    make_case(7, tmp_path / "two")
    one, two = ({f.name: f.read_text() for f in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
