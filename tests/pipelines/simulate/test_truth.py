"""The truth is independent of what it judges, adds up, and is right where a person can reckon it."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pipelines.simulate
from pipelines.simulate.cards import A100, H100, LAYOUTS, layout_weights
from pipelines.simulate.fleet import Device, Fleet, Node, Unit
from pipelines.simulate.scenario import Incident, Lease, Scenario, Window, make_window
from pipelines.simulate.story import build_scenario
from pipelines.simulate.terms import Rate, Reservation, Terms
from pipelines.simulate.truth import truth
from pipelines.simulate.truth_money import share_out, to_cents

HOUR = 3600
START = make_window(date(2026, 10, 5), 1, 60).start


@pytest.mark.parametrize("path", sorted(Path(pipelines.simulate.__file__).parent.rglob("*.py")), ids=lambda p: p.name)
def test_no_module_imports_the_pipeline_that_it_judges(path: Path) -> None:
    """Of the pipeline only the sample table's schema, which only the writer of samples needs."""
    allowed = {"pipelines.tables"} if path.name in ("labels.py", "signals.py", "scenes.py") else set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            ours = name.startswith("pipelines.simulate")
            assert ours or name.partition(".")[0] != "pipelines" or name in allowed, f"{path.name} imports {name}"
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name} imports relatively"


@pytest.mark.parametrize("module", ["truth", "truth_money", "segments", "scenario", "story", "placement", "demand"])
def test_the_truth_reads_no_sample(module: str) -> None:
    tree = ast.parse((Path(pipelines.simulate.__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not imported & {"pipelines.simulate.signals", "pipelines.simulate.board", "pipelines.simulate.behaviours"}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("gpus", "days", "start"), [(8, 1, date(2026, 3, 8)), (64, 9, date(2026, 10, 28))])
def test_every_gpu_second_and_every_cent_is_in_one_place(gpus: int, days: int, start: date, seed: int) -> None:
    told = truth(build_scenario(gpus=gpus, days=days, seed=seed, start=start, interval=60))
    fleet, tenants = told["fleet"], told["tenants"]
    states = [fleet[f"{state}_gpu_hours"] for state in ("allocated", "idle", "stranded", "down", "unobserved")]
    assert min(states) >= 0
    assert sum(states) == pytest.approx(fleet["capacity_gpu_hours"], abs=1e-5)
    held = sum(t["gpu_hours"]["allocated"] for t in tenants) + told["unattributed_gpu_hours"]
    assert held == pytest.approx(fleet["allocated_gpu_hours"], abs=1e-5)
    assert sum(Decimal(t["charges"]["total"]) for t in tenants) == Decimal(fleet["billed"])
    assert Decimal(fleet["cost"]) - Decimal(fleet["billed"]) == Decimal(fleet["unbilled"])
    for tenant in tenants:
        hours, charges = tenant["gpu_hours"], tenant["charges"]
        classes = sum(hours[kind] for kind in ("reserved", "on_demand", "overflow", "spot"))
        assert classes == pytest.approx(hours["allocated"], abs=1e-5)
        assert sum(w["gpu_hours"] for w in tenant["workloads"]) == pytest.approx(hours["allocated"], abs=1e-2)
        assert sum(Decimal(v) for k, v in charges.items() if k != "total") == Decimal(charges["total"])
        if tenant["workloads"] and not hours["reserved"]:
            assert sum(Decimal(w["cost"]) for w in tenant["workloads"]) == Decimal(charges["usage"])


def test_the_demo_fleet_shows_every_kind_of_charge(demo: Scenario) -> None:
    tenants = {t["tenant"]: t for t in truth(demo)["tenants"]}
    assert tenants["vision"]["gpu_hours"]["overflow"] > 100  # more than it reserved
    assert tenants["nlp"]["gpu_hours"]["reserved_unused"] > tenants["nlp"]["gpu_hours"]["reserved"] / 2
    assert Decimal(tenants["nlp"]["charges"]["credit"]) < 0
    assert tenants["speech"]["gpu_hours"]["overflow"] > 0  # beyond its quota
    assert tenants["sandbox"]["gpu_hours"]["spot"] == tenants["sandbox"]["gpu_hours"]["allocated"] > 0
    assert all(Decimal(t["charges"]["idle"]) > 0 for t in tenants.values())


def one_node(
    leases: list[Lease],
    *,
    cards: int = 4,
    terms: Terms | None = None,
    incidents: tuple[Incident, ...] = (),
    units: tuple[Unit, ...] | None = None,
) -> Scenario:
    """A day of one node of H100s (or what ``units`` says) at 2.00 an hour and no overhead."""
    card = A100 if units else H100
    whole = tuple(Unit(device, 0, Fraction(1)) for device in range(cards))
    fleet = Fleet(
        nodes=(Node("n", "h100-k8s", tuple(range(cards))),),
        devices=tuple(Device(f"GPU-{index}", 0, index, card) for index in range(cards)),
        units=units or whole,
        quanta=420,
    )
    window = Window(START, START + 24 * HOUR, START - HOUR, START + 25 * HOUR, 60, 60, None)
    return Scenario(window, fleet, terms or terms_of(), tuple(leases), (), incidents, 1)


def terms_of(*, reservations: list[Reservation] | None = None, quotas: dict[str, int] | None = None) -> Terms:
    prices = {"on_demand": "2.00", "reserved": "1.00", "overflow": "3.00", "spot": "0.50"}
    return Terms([], [Rate("*", "", prices)], reservations or [], quotas or {}, overhead_monthly="0.00")


def lease(unit: int, begin: int, finish: int, tenant: str = "a", **changed: Any) -> Lease:
    """``tenant`` holds a unit from one hour of the day to another."""
    start, end = START + begin * HOUR, START + finish * HOUR
    made = Lease(
        unit=unit, start=start, end=end, workload=f"{tenant}/{unit}-{begin}", tenant=tenant, run=unit, rank=0, ranks=1,
        behaviour="training", character=(0.0, 0.0, 0.0, 0.0), label_start=start, label_end=end, namespace=tenant,
        pod=f"{unit}-{begin}",
    )  # fmt: skip
    return replace(made, **changed)


def reservation(gpus: int, begin: int, finish: int) -> Reservation:
    return Reservation("r", "a", "*H100*", H100.model, gpus, START + begin * HOUR, START + finish * HOUR)


def of(told: dict[str, Any], tenant: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = next(t for t in told["tenants"] if t["tenant"] == tenant)
    return found


def test_a_reservation_is_paid_used_or_not_and_what_exceeds_it_is_overflow() -> None:
    terms = terms_of(reservations=[reservation(2, 0, 10)])
    told = of(truth(one_node([lease(0, 0, 5), lease(1, 0, 5), lease(2, 0, 5)], terms=terms)))
    assert told["gpu_hours"] == {
        "allocated": 15, "reserved": 10, "on_demand": 0, "overflow": 5, "spot": 0, "reserved_unused": 10,
    }  # fmt: skip
    assert (told["charges"]["reservation"], told["charges"]["usage"]) == ("20.00", "15.00")


def test_after_the_reservation_the_same_lease_is_on_demand() -> None:
    told = of(truth(one_node([lease(0, 0, 8)], terms=terms_of(reservations=[reservation(1, 0, 6)]))))
    assert (told["gpu_hours"]["reserved"], told["gpu_hours"]["on_demand"]) == (6, 2)


def test_the_lease_that_began_first_has_the_reservation() -> None:
    terms = terms_of(reservations=[reservation(1, 0, 24)])
    told = of(truth(one_node([lease(0, 2, 6), lease(1, 0, 4)], terms=terms)))
    assert told["gpu_hours"]["reserved"] == 6
    assert told["gpu_hours"]["overflow"] == 2


def test_reserved_gpus_count_towards_the_quota() -> None:
    terms = terms_of(reservations=[reservation(1, 0, 24)], quotas={"a": 2})
    told = of(truth(one_node([lease(0, 0, 1), lease(1, 0, 1), lease(2, 0, 1)], terms=terms)))
    assert [told["gpu_hours"][kind] for kind in ("reserved", "on_demand", "overflow")] == [1, 1, 1]


def test_spot_uses_neither_reservation_nor_quota() -> None:
    terms = terms_of(reservations=[reservation(1, 0, 24)], quotas={"a": 1})
    told = of(truth(one_node([lease(0, 0, 4, spot=True)], terms=terms)))
    assert told["gpu_hours"]["spot"] == 4
    assert told["gpu_hours"]["reserved_unused"] == 24
    assert told["charges"]["usage"] == "2.00"


def test_down_gpus_of_a_reservation_that_is_not_full_are_credited() -> None:
    down = Incident("repair", START, START + 3 * HOUR, node=0, device=3, tenant="a")
    scenario = one_node([lease(0, 0, 1), lease(1, 0, 1)], terms=terms_of(reservations=[reservation(2, 0, 24)]))
    told = truth(replace(scenario, incidents=(down,)))
    assert told["fleet"]["down_gpu_hours"] == 3
    assert of(told)["charges"]["credit"] == "-2.00"  # in the first hour both were in use
    hours = of(told)["gpu_hours"]
    assert hours["reserved"] + hours["reserved_unused"] + 2 == 48


def test_a_lease_is_cut_where_its_device_goes_down() -> None:
    down = Incident("repair", START + HOUR, START + 3 * HOUR, node=0, device=0)
    told = truth(one_node([lease(0, 0, 2, cut=START + HOUR)], incidents=(down,)))
    assert (told["fleet"]["allocated_gpu_hours"], told["fleet"]["down_gpu_hours"]) == (1, 2)


def test_only_what_nobody_holds_is_unobserved_in_an_outage() -> None:
    outage = Incident("outage", START + HOUR, START + 2 * HOUR, node=0)
    fleet = truth(one_node([lease(0, 0, 4)], incidents=(outage,)))["fleet"]
    assert (fleet["allocated_gpu_hours"], fleet["unobserved_gpu_hours"], fleet["idle_gpu_hours"]) == (4, 3, 89)


def test_idle_beyond_unused_reservations_is_shared_by_list_price_and_nobodys_part_stays_unbilled() -> None:
    terms = terms_of(reservations=[reservation(1, 0, 24)])
    leases = [lease(0, 0, 24, "b"), replace(lease(1, 0, 24, "c"), tenant=None)]
    told = truth(one_node(leases, terms=terms))
    # Idle are 48 hours, 24 of them reserved and unused; 24 × 2.00 go by thirds to a (unused), b and nobody.
    assert [of(told, tenant)["charges"]["idle"] for tenant in "ab"] == ["16.00", "16.00"]
    assert told["fleet"]["cost"] == "192.00"
    assert told["fleet"]["billed"] == "104.00"  # 24 reserved, 48 used, 32 idle
    assert told["fleet"]["unbilled"] == "88.00"


@pytest.mark.parametrize(
    ("layout", "stranded"), list(zip(LAYOUTS, [Fraction(0), Fraction(1, 14), 0, Fraction(1, 7), 0, 0], strict=True))
)
def test_what_a_layout_leaves_over_is_stranded(layout: Any, stranded: Fraction) -> None:
    weights = layout_weights(layout)
    units = tuple(Unit(0, n, w, instance=i) for n, (i, w) in enumerate(zip(layout, weights, strict=True)))
    told = truth(one_node([lease(0, 0, 24)], cards=1, units=units))
    assert told["fleet"]["stranded_gpu_hours"] == pytest.approx(float(24 * stranded), abs=1e-6)
    assert told["fleet"]["allocated_gpu_hours"] == pytest.approx(float(24 * weights[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("amount", "cents"),
    [("0.005", 1), ("0.0049", 0), ("-0.005", -1), ("1.015", 102), ("0", 0), ("2.675", 268)],
)
def test_money_is_rounded_half_away_from_zero(amount: str, cents: int) -> None:
    assert to_cents(Fraction(amount)) == cents


def test_shares_are_largest_remainder_parts_with_ties_by_id() -> None:
    assert share_out(10_000, dict.fromkeys("cab", Fraction(1))) == {"a": 3334, "b": 3333, "c": 3333}
    assert share_out(7, {"a": Fraction(0), "b": Fraction(0)}) == {"a": 0, "b": 0}


def test_a_device_that_is_held_twice_is_refused() -> None:
    with pytest.raises(AssertionError, match="held more than once"):
        truth(one_node([lease(0, 0, 2), lease(0, 1, 3)]))
