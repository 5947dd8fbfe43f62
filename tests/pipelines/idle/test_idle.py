"""Each idle GPU-hour has one cause, an owner where there is one, its worth, and what would free it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.idle.notice import notice
from pipelines.instants import to_ms
from tests.pipelines.idle.scenes import idle_of, one
from tests.pipelines.scene import A100, START, Allocation, Listed, Scene, at, seen

BEGIN = to_ms(START)
MINUTE = 60_000
BUSY = {"engine": 0.9, "util": 90}
QUIET = {"engine": 0.0, "util": 0}


def hours(idle: object, cause: str) -> Fraction:
    return sum((i.gpu_hours for i in idle.items if i.cause == cause), Fraction(0))  # type: ignore[attr-defined]


def test_a_free_node_is_unallocated_and_a_partly_taken_one_fragmented(tmp_path: Path) -> None:
    scene = Scene(
        [seen(f"GPU-{n}", (0, 120), "astro/a" if n == 0 else "", node="rack1", **BUSY) for n in range(4)]
        + [seen(f"GPU-{n}", (0, 120), node="rack2", **BUSY) for n in range(4, 6)]
    )
    idle, _, _ = idle_of(scene, tmp_path)
    fragmented, free = one(idle, "fragmented"), one(idle, "unallocated")
    assert (fragmented.subject, fragmented.gpu_hours, fragmented.gpus) == ("rack1", 6, 3)
    assert fragmented.evidence == {"gpus_of_node": 4, "held_by": ["astro/a"]}
    assert (free.subject, free.gpu_hours, free.money, free.since) == ("rack2", 4, Decimal("12.00"), BEGIN)
    assert "pack" in fragmented.remedy


def test_fragmentation_lasts_as_long_as_the_neighbour_is_held(tmp_path: Path) -> None:
    scene = Scene(
        [
            seen("GPU-0", (0, 30), "astro/a", **BUSY),
            seen("GPU-0", (30, 60), **QUIET),
            seen("GPU-1", (0, 60), **QUIET),
        ]
    )
    idle, _, _ = idle_of(scene, tmp_path)
    assert hours(idle, "fragmented") == Fraction(1, 2)
    assert hours(idle, "unallocated") == Fraction(1)
    assert one(idle, "fragmented").since is None


def test_the_free_part_of_a_shared_card_is_open_to_who_wants_a_part(tmp_path: Path) -> None:
    scene = Scene(
        [seen("GPU-0", (0, 60), "astro/a", **BUSY)], inventory=[Listed(device="GPU-0", slots="4", minutes=(0, 60))]
    )
    idle, _, _ = idle_of(scene, tmp_path)
    assert hours(idle, "unallocated") == Fraction(3, 4)
    assert hours(idle, "fragmented") == 0


def test_mig_strands_what_its_layout_leaves(tmp_path: Path) -> None:
    scene = Scene([seen("GPU-0", (0, 60), "astro/a", instance="1", profile="4g.20gb", model=A100, engine=0.5)])
    idle, _, _ = idle_of(scene, tmp_path)
    stranded = one(idle, "stranded")
    assert stranded.evidence == {"layouts": ["GPU-0: 4g.20gb"]}
    assert stranded.gpu_hours == Fraction(3, 7)


def test_what_is_down_is_nobodys_idleness(tmp_path: Path) -> None:
    scene = Scene(
        [seen("GPU-0", (0, 60), **QUIET), seen("GPU-1", (0, 60), **QUIET)],
        allocations=[Allocation((0, 30), device="GPU-0", class_="down")],
    )
    idle, _, _ = idle_of(scene, tmp_path)
    assert hours(idle, "down") == Fraction(1, 2)
    assert one(idle, "down").evidence == {"cards": ["GPU-0"]}
    assert hours(idle, "fragmented") == Fraction(1, 2)  # its neighbour, meanwhile


def test_reserved_and_not_used_is_its_tenants(tmp_path: Path) -> None:
    reservation = {
        "id": "r1",
        "tenant": "bio",
        "model": "*h100*",
        "gpus": 1,
        "from": at(0),
        "to": at(60),
        "rate": "2.00",
    }
    scene = Scene([seen(f"GPU-{n}", (0, 60), **QUIET) for n in range(3)], config={"reservations": [reservation]})
    idle, _, _ = idle_of(scene, tmp_path)
    reserved = one(idle, "reserved_unused")
    assert (reserved.owner, reserved.subject, reserved.gpu_hours, reserved.money) == ("bio", "r1", 1, Decimal("3.00"))
    assert hours(idle, "unallocated") == 2
    assert reserved.evidence["mean_unused_gpus"] == 1.0


def test_a_reservation_is_unused_since_its_gpus_were_given_back(tmp_path: Path) -> None:
    reservation = {"id": "r1", "tenant": "bio", "model": "*", "gpus": 2, "from": at(0), "to": at(120), "rate": "2.00"}
    scene = Scene(
        [
            seen("GPU-0", (0, 120), "bio/a", **BUSY),
            seen("GPU-1", (0, 30), "bio/b", **BUSY),
            seen("GPU-1", (30, 120), **QUIET),
        ],
        config={"reservations": [reservation]},
    )
    idle, _, _ = idle_of(scene, tmp_path)
    reserved = one(idle, "reserved_unused")
    assert (reserved.gpu_hours, reserved.gpus, reserved.since) == (Fraction(3, 2), 1, BEGIN + 30 * MINUTE)


def test_a_reservation_whose_gpus_others_use_leaves_nothing_idle(tmp_path: Path) -> None:
    reservation = {"id": "r1", "tenant": "bio", "model": "*", "gpus": 1, "from": at(0), "to": at(60), "rate": "2.00"}
    scene = Scene([seen("GPU-0", (0, 60), "astro/a", **BUSY)], config={"reservations": [reservation]})
    idle, _, _ = idle_of(scene, tmp_path)
    assert [item for item in idle.items if item.cause == "reserved_unused"] == []


def test_only_the_idle_gpus_of_a_job_count_and_since_when(tmp_path: Path) -> None:
    scene = Scene(
        [
            seen("GPU-0", (0, 240), "astro/a", **BUSY),
            seen("GPU-1", (0, 120), "astro/a", **BUSY),
            seen("GPU-1", (120, 240), "astro/a", **QUIET),
        ]
    )
    idle, rated, _ = idle_of(scene, tmp_path)
    held = one(idle, "held_idle")
    assert (held.subject, held.owner, held.gpus) == ("astro/a", "astro", 1)
    assert float(held.gpu_hours) == pytest.approx(2.0)
    assert held.money == Decimal("6.00")
    assert held.since == BEGIN + 120 * MINUTE
    assert list(held.evidence["idle_gpus"]) == ["GPU-1"]
    assert held.evidence["longest_minutes"] == 120
    waste = rated.tenants["astro"].held.waste
    assert held.worth is not None
    assert held.worth <= waste


def test_an_episode_begins_and_ends_within_hours(tmp_path: Path) -> None:
    def engine(minute: float) -> float:
        return 0.0 if 40 <= minute < 130 else 0.9

    idle, _, _ = idle_of(Scene([seen("GPU-0", (0, 180), "astro/a", engine=engine)]), tmp_path)
    held = one(idle, "held_idle")
    assert (held.first, held.last) == (BEGIN + 40 * MINUTE, BEGIN + 130 * MINUTE)
    assert held.since is None
    assert held.evidence["longest_minutes"] == 90


def test_a_time_without_samples_is_not_idle(tmp_path: Path) -> None:
    scene = Scene(
        [seen("GPU-0", (0, 60), "astro/a", uid="u", **BUSY), seen("GPU-0", (180, 240), "astro/a", uid="u", **BUSY)]
    )
    idle, _, _ = idle_of(scene, tmp_path)
    assert [i for i in idle.items if i.cause.startswith("held")] == []
    idle, _, _ = idle_of(
        Scene(
            [
                seen("GPU-0", (0, 60), "astro/a", uid="u", **QUIET),
                seen("GPU-0", (180, 240), "astro/a", uid="u", **QUIET),
            ]
        ),
        tmp_path,
    )
    held = one(idle, "held_idle")
    assert float(held.gpu_hours) == pytest.approx(2.0, abs=0.05)  # not the two hours between
    assert held.evidence["episodes"] == 2


def test_little_use_is_told_from_none(tmp_path: Path) -> None:
    idle, _, _ = idle_of(Scene([seen("GPU-0", (0, 120), "astro/a", engine=0.15, util=15)]), tmp_path)
    barely = one(idle, "held_barely_used")
    assert barely.gpu_hours == 2
    assert barely.money == Decimal("5.10")
    assert barely.evidence["utilization_outside_idle"] == 0.15
    busy, _, _ = idle_of(Scene([seen("GPU-0", (0, 120), "astro/a", engine=0.3, util=30)]), tmp_path)
    assert busy.items == []


def test_what_no_tenant_owns_is_listed_without_one(tmp_path: Path) -> None:
    idle, _, _ = idle_of(Scene([seen("GPU-0", (0, 120), "stray/x", **QUIET)]), tmp_path)
    held = one(idle, "held_idle")
    assert (held.owner, held.money) == (None, Decimal("6.00"))
    assert idle.by_owner()[0]["owner"] is None


def test_without_a_price_the_worth_is_unknown_and_stands_last(tmp_path: Path) -> None:
    scene = Scene(
        [seen("GPU-0", (0, 60), node="rack1"), seen("GPU-1", (0, 60), node="rack2", model=A100)],
        config={"rates": [{"model": "*h100*", "on_demand": "3.00"}]},
    )
    idle, _, _ = idle_of(scene, tmp_path)
    assert [item.money for item in idle.items] == [Decimal("3.00"), None]
    (unallocated,) = [c for c in idle.by_cause() if c["cause"] == "unallocated"]
    assert unallocated["worth"] is None
    assert unallocated["gpu_hours"] == 2


def test_what_was_held_unseen_is_unknown_and_never_zero(tmp_path: Path) -> None:
    unseen = Allocation((0, 60), device="GPU-0", tenant="astro", workload="blind")
    listed = [Listed(device="GPU-0", minutes=(0, 60))]
    idle, _, stages = idle_of(Scene(allocations=[unseen], inventory=listed), tmp_path)
    held = {c["cause"]: c["gpu_hours"] for c in idle.by_cause() if c["cause"].startswith("held")}
    assert held == {"held_idle": None, "held_barely_used": None}
    assert "Nothing of what you held was observed" in notice(idle, "astro", stages.config)


def test_a_tenant_sees_its_own_alone(tmp_path: Path) -> None:
    scene = Scene([seen("GPU-0", (0, 60), "astro/a", **QUIET), seen("GPU-1", (0, 60), "bio/b", **QUIET)])
    idle, _, _ = idle_of(scene, tmp_path)
    assert {item.owner for item in idle.of("bio").items} == {"bio"}
    assert {row["owner"] for row in idle.of("bio").json()["owners"]} == {"bio"}
