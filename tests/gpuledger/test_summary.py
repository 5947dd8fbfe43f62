"""The summary for people says what the report says, and its sums can be checked by eye."""

from __future__ import annotations

import copy
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.summary import render
from gpuledger.tables import align, spread


def tenant(name: str, hours: float, **charges: str) -> dict[str, Any]:
    kinds = ("usage", "reservation", "idle", "energy", "overhead", "commitment", "credit", "adjustment")
    amounts = {kind: charges.get(kind, "0.00") for kind in kinds}
    total = sum((Decimal(amount) for amount in amounts.values()), Decimal(0))
    return {
        "tenant": name,
        "gpu_hours": {"allocated": hours},
        "utilization": 0.8,
        "coverage": 1.0,
        "charges": amounts | {"total": str(total)},
        "waste": "10.00",
        "workloads": [],
    }


def workload(name: str, cost: str) -> dict[str, Any]:
    return {"workload": name, "gpu_hours": 1.0, "utilization": None, "coverage": 0.0, "cost": cost}


REPORT: dict[str, Any] = {
    "period": {"from": "2026-11-01T04:00:00Z", "to": "2026-12-01T05:00:00Z", "timezone": "America/New_York"},
    "currency": "USD",
    "as_of": "2026-12-02T12:00:00Z",
    "fleet": {
        "capacity_gpu_hours": 100.0,
        "allocated_gpu_hours": 60.04,
        "idle_gpu_hours": 39.56,
        "stranded_gpu_hours": 0.14,
        "down_gpu_hours": 0.13,
        "unobserved_gpu_hours": 0.13,
        "devices": 1,
        "cost": "320.00",
        "billed": "250.00",
        "unbilled": "70.00",
    },
    "tenants": [
        tenant("nlp", 10.0, usage="50.00"),
        tenant("vision", 50.0, usage="150.00", reservation="60.00", credit="-10.00"),
    ],
    "unattributed_gpu_hours": 0.04,
    "findings": [{"code": "gap", "count": 1200, "detail": "no sample of GPU-1\nfor 3 h"}],
}


def changed(**parts: Any) -> dict[str, Any]:
    return copy.deepcopy(REPORT) | parts


def test_the_period_is_told_in_its_own_time_zone() -> None:
    head = render(REPORT, width=120).splitlines()[:2]
    assert head == ["2026-11-01 00:00 to 2026-12-01 00:00 (America/New_York)", "as of 2026-12-02 07:00"]


def test_money_and_its_shares_are_there() -> None:
    text = render(REPORT, width=120)
    assert re.search(r"billed to tenants +250\.00 +78\.1%", text)
    assert re.search(r"unbilled +70\.00 +21\.9%", text)
    assert re.search(r"fleet cost +320\.00 +100\.0%", text)


def test_the_hours_shown_add_up_to_the_capacity_shown() -> None:
    text = render(REPORT, width=120)
    places = ("allocated", "idle", "stranded", "down", "unobserved")
    shown = [Decimal(re.search(rf"^  {place} +([\d.,]+) ", text, re.MULTILINE)[1]) for place in places]  # type: ignore[index]
    assert sum(shown) == Decimal("100.0")
    assert shown[0] == Decimal("60.0")


def test_tenants_come_dearest_first_with_their_kinds_of_charge() -> None:
    lines = render(REPORT, width=120).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Tenants"))
    table = [" ".join(line.split()) for line in lines[at:]]
    assert table[0] == "Tenants GPU-hours busy coverage usage reservation credit total USD waste"
    assert table[1] == "vision 50.0 80.0% 100.0% 150.00 60.00 -10.00 200.00 10.00"
    assert table[2] == "nlp 10.0 80.0% 100.0% 50.00 0.00 0.00 50.00 10.00"
    assert table[3] == "unattributed 0.0"
    assert table[5] == "allocated; billed 60.0 200.00 60.00 -10.00 250.00"


@pytest.mark.parametrize("width", [130, 84, 70])
def test_a_narrow_terminal_folds_charges_and_loses_none(width: int) -> None:
    everything = tenant("vision", 50.0, usage="1.00", reservation="2.00", idle="3.00", energy="4.00", overhead="5.00")
    lines = render(changed(tenants=[everything]), width=width).splitlines()
    assert max(map(len, lines)) <= width
    (row,) = (line.split() for line in lines if line.startswith("  vision"))
    *kinds, total, _waste = (Decimal(cell) for cell in row[4:])
    assert total == 15
    assert not kinds or sum(kinds) == total


def test_unknown_is_not_zero() -> None:
    unseen = tenant("vision", 50.0) | {"utilization": None, "coverage": None, "workloads": [workload("v/a", "1.00")]}
    text = render(changed(tenants=[unseen]), width=120)
    assert re.search(r"  vision +50\.0 +n/a +n/a ", text)
    assert re.search(r"  v/a +vision +1\.0 +n/a +1\.00", text)


def test_the_five_dearest_workloads_are_named() -> None:
    many = tenant("vision", 50.0) | {"workloads": [workload(f"v/{i}", f"{i}.00") for i in range(9)]}
    text = render(changed(tenants=[many]), width=120)
    assert re.findall(r"^  v/(\d)", text, re.MULTILINE) == ["8", "7", "6", "5", "4"]


def test_findings_stand_on_a_line_each_or_are_said_to_be_none() -> None:
    assert render(REPORT, width=120).endswith("Findings\n  gap  1,200  no sample of GPU-1 for 3 h")
    assert render(changed(findings=[]), width=120).endswith("Findings: none")


def test_a_currency_without_minor_unit_has_no_decimals() -> None:
    yen = changed(
        currency="JPY", tenants=[], fleet=REPORT["fleet"] | {"cost": "320", "billed": "250", "unbilled": "70"}
    )
    assert re.search(r"fleet cost +320 ", render(yen, width=120))


@given(st.lists(st.floats(0, 1e7, allow_nan=False), min_size=1, max_size=8), st.integers(0, 3))
def test_spread_parts_add_up_and_each_is_off_by_less_than_a_unit(parts: list[float], places: int) -> None:
    shown, total = spread(parts, places=places)
    values = [Decimal(text.replace(",", "")) for text in shown]
    unit = Decimal(1).scaleb(-places)
    assert sum(values) == Decimal(total.replace(",", ""))
    assert all(abs(value - Decimal(repr(part))) < unit for value, part in zip(values, parts, strict=True))


def test_columns_are_aligned() -> None:
    assert align([["a", "1.0"], [], ["total", "10.0"]]) == ["a       1.0", "───────────", "total  10.0"]


@pytest.mark.parametrize(("as_of", "said"), [("2026-11-30T12:00:00Z", True), ("2026-12-01T05:00:00Z", False)])
def test_a_period_that_runs_says_so(as_of: str, said: bool) -> None:
    shown = render(REPORT | {"as_of": as_of}, width=100)
    assert ("it isn't over yet" in shown) is said
