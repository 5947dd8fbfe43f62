"""Who pays for capacity that nobody used, by what it was lost to; by hand, on four H100 for a day at 3.00."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipelines.operations import replay
from pipelines.report import Report
from tests.pipelines.scene import Allocation, Listed, Scene

DAY = 24 * 60
OWNED = [Listed(gpus="2", owner="astro", minutes=(0, DAY)), Listed(node="rack2", gpus="2", minutes=(0, DAY))]


def held(hours: float, tenant: str) -> Allocation:
    return Allocation((0, hours * 60), "1", tenant=tenant, workload=f"of-{tenant}")


def out(hours: float, class_: str, gpus: str = "1") -> Allocation:
    return Allocation((0, hours * 60), gpus, workload="out", class_=class_)


def report(tmp_path: Path, *allocations: Allocation, **config: Any) -> Report:
    scene = Scene(allocations=allocations, inventory=OWNED, config=config)
    return replay(scene.write(tmp_path))


def idle(found: Report) -> dict[str, str]:
    return {t.tenant: t.charges.idle for t in found.tenants}


USE = (held(12, "astro"), held(4, "bio"))


def test_by_default_the_platform_bears_all_of_it(tmp_path: Path) -> None:
    found = report(tmp_path, *USE, out(6, "down"), out(2, "repair"))
    assert set(idle(found).values()) == {"0.00"}
    assert found.fleet.down_gpu_hours == 8.0


@pytest.mark.parametrize(
    ("policies", "shares"),
    [
        ({"down": "even"}, {"astro": "9.00", "bio": "9.00"}),  # 6 h × 3.00
        ({"repair": "proportional"}, {"astro": "4.50", "bio": "1.50"}),  # 2 h × 3.00 by 12 : 4
        ({"down": "even", "repair": "even"}, {"astro": "12.00", "bio": "12.00"}),
    ],
)
def test_down_and_repair_go_by_policies_of_their_own(
    tmp_path: Path, policies: dict[str, str], shares: dict[str, str]
) -> None:
    found = report(tmp_path, *USE, out(6, "down"), out(2, "repair"), idle=policies)
    assert idle(found) == shares


def test_an_owner_pays_for_its_own_devices_that_are_down(tmp_path: Path) -> None:
    all_out = Allocation((0, 60), "4", workload="out", class_="down")
    found = report(tmp_path, Allocation((60, 120), "1", tenant="bio", workload="w"), all_out, idle={"down": "owner"})
    assert idle(found) == {"astro": "6.00", "bio": "0.00"}  # two of the four are astro's


def test_a_card_that_is_down_and_then_under_repair_is_both_in_turn(tmp_path: Path) -> None:
    device = "GPU-1"
    inventory = [Listed(device=device, gpus="", minutes=(0, DAY)), Listed(node="rack2", gpus="1", minutes=(0, DAY))]
    rows = (
        Allocation((0, 5 * 60), "", device=device, workload="out", class_="down"),
        Allocation((2 * 60, 3 * 60), "", device=device, workload="mend", class_="repair"),
        Allocation((0, 10 * 60), "1", tenant="bio", workload="w"),
    )

    def shared(**policies: str) -> str:
        scene = Scene(allocations=rows, inventory=inventory, config={"idle": policies})
        return idle(replay(scene.write(tmp_path / "-".join(policies))))["bio"]

    assert shared(down="even") == "12.00"
    assert shared(repair="even") == "3.00"
    assert shared(down="even", repair="even") == "15.00"


RESERVED: Mapping[str, Any] = {
    "window": {"from": "2026-03-02T09:00:00Z", "to": "2026-03-03T09:00:00Z"},
    "rates": [{"model": "*", "on_demand": "3.00", "reserved": "2.00"}],
    "reservations": [
        {"id": "r1", "tenant": "astro", "model": "*", "gpus": 1, "from": "2026-03-02T09:00:00Z",
         "to": "2026-03-03T09:00:00Z"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "shares"),
    [
        ("owner", {"astro": "0.00", "bio": "0.00"}),
        ("platform", {"astro": "-24.00", "bio": "0.00"}),  # 12 of 24 h unused, at 2.00
        ("even", {"astro": "-12.00", "bio": "12.00"}),
    ],
)
def test_reserved_and_unused_is_the_fee_given_back_and_shared(
    tmp_path: Path, policy: str, shares: dict[str, str]
) -> None:
    found = report(tmp_path, *USE, idle={"reserved_unused": policy}, **RESERVED)
    assert idle(found) == shares
    assert found.tenants[0].charges.reservation == "48.00"


def test_cost_stays_whole_whoever_bears_it(tmp_path: Path) -> None:
    everything = dict.fromkeys(("policy", "reserved_unused", "stranded", "down", "repair"), "even")
    before = report(tmp_path / "a", *USE, out(6, "down"), out(2, "repair"), **RESERVED)
    after = report(tmp_path / "b", *USE, out(6, "down"), out(2, "repair"), idle=everything, **RESERVED)
    assert before.fleet.cost == after.fleet.cost
    assert Decimal(after.fleet.billed) + Decimal(after.fleet.unbilled) == Decimal(after.fleet.cost)
    assert before.fleet.down_gpu_hours == after.fleet.down_gpu_hours
