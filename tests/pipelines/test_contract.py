"""What is agreed with a tenant: volume tiers, discounts, commitments and availability, by hand-computed values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.config import Rate, Sla, Threshold, Tier, load
from pipelines.contract import blended, credit
from pipelines.operations import replay
from pipelines.report import Report, TenantReport
from tests.pipelines.scene import H100, Allocation, Listed, Scene

HOUR = 60
MONTH = (0, 31 * 24 * HOUR)  # March 2026 from the scene's start, which these tests put at midnight


def tiered(tiering: str) -> Rate:
    return Rate.model_validate(
        {
            "model": "*",
            "on_demand": "10.00",
            "tiering": tiering,
            "tiers": [{"above": "15", "price": "8.00"}, {"above": "40", "price": "5.00"}],
        }
    )


@pytest.mark.parametrize(
    ("tiering", "volume", "amount"),
    [
        ("all_units", 15, 150),
        ("all_units", 16, 128),
        ("all_units", 50, 250),
        ("graduated", 15, 150),
        ("graduated", 16, 158),
        ("graduated", 50, 15 * 10 + 25 * 8 + 10 * 5),
    ],
)
def test_a_volume_comes_to_its_tiers(tiering: str, volume: int, amount: int) -> None:
    assert blended(tiered(tiering), Fraction(volume)) * volume == amount


@pytest.mark.parametrize(
    ("availability", "given_back"),
    [("1", 0), ("0.999", 0), ("0.9989", 100), ("0.99", 100), ("0.98", 250), ("0.9", 250)],
)
def test_the_lowest_threshold_missed_credits(availability: str, given_back: int) -> None:
    sla = Sla(
        thresholds=(
            Threshold(below=Decimal("99.9"), percent=Decimal(10)),
            Threshold(below=Decimal(99), percent=Decimal(25)),
        )
    )
    assert credit(sla, Fraction(availability), Fraction(1000), Fraction(7)) == given_back


def test_a_threshold_without_a_percentage_credits_the_time() -> None:
    sla = Sla(thresholds=(Threshold(below=Decimal("99.9")),))
    assert credit(sla, Fraction("0.9989"), Fraction(1000), Fraction(7)) == 7
    assert credit(sla, Fraction("0.9995"), Fraction(1000), Fraction(7)) == 0


def test_tiers_rise() -> None:
    with pytest.raises(ValueError, match="follows one above"):
        Rate(
            model="*",
            on_demand=Decimal(1),
            tiers=(Tier(above=Decimal(5), price=Decimal(1)), Tier(above=Decimal(5), price=Decimal(1))),
        )


def report(tmp_path: Path, *allocations: Allocation, window: str = "2026-03", **config: Any) -> Report:
    from datetime import UTC, datetime

    scene = Scene(
        allocations=allocations,
        inventory=[Listed(gpus="8", minutes=MONTH)],
        config={"period": window, **config},
        start=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return replay(scene.write(tmp_path))


def held(hours: float, *, gpus: str = "1", day: int = 1, tenant: str = "astro", class_: str = "") -> Allocation:
    start = (day - 1) * 24 * HOUR
    return Allocation((start, start + hours * HOUR), gpus, tenant=tenant, workload=f"w{day}-{class_}", class_=class_)


def of(found: Report, tenant: str) -> TenantReport:
    return next(t for t in found.tenants if t.tenant == tenant)


TIERS: Mapping[str, Any] = {
    "rates": [
        {
            "model": "*",
            "on_demand": "10.00",
            "overflow": "12.00",
            "tiering": "all_units",
            "tiers": [{"above": "15", "price": "8.00"}],
        }
    ]
}


def test_sixteen_hours_of_a_month_are_eight_each_and_fifteen_ten(tmp_path: Path) -> None:
    sixteen = report(tmp_path / "a", held(15), held(1, day=20), **TIERS)
    fifteen = report(tmp_path / "b", held(15), **TIERS)
    assert (of(sixteen, "astro").charges.usage, of(fifteen, "astro").charges.usage) == ("128.00", "150.00")


def test_days_add_up_to_their_month_since_the_month_decides_the_price(tmp_path: Path) -> None:
    usage = [held(15), held(1, day=20)]
    days = [report(tmp_path / day, *usage, window=day, **TIERS) for day in ("2026-03-01", "2026-03-20")]
    assert [of(found, "astro").charges.usage for found in days] == ["120.00", "8.00"]


def test_a_class_with_a_price_of_its_own_is_outside_the_volume(tmp_path: Path) -> None:
    found = report(tmp_path, held(15), held(2, day=3, class_="overflow"), **TIERS)
    assert of(found, "astro").charges.usage == "174.00"  # 15 × 10.00 + 2 × 12.00


def test_each_tenant_has_a_volume_of_its_own(tmp_path: Path) -> None:
    found = report(tmp_path, held(15), held(15, tenant="bio"), **TIERS)
    assert [t.charges.usage for t in found.tenants] == ["150.00", "150.00"]


def test_a_discount_is_the_tenants_and_ends_where_it_says(tmp_path: Path) -> None:
    tenants = [{"id": "astro", "discounts": [{"percent": "10", "to": "2026-03-20"}]}, {"id": "bio"}]
    found = report(tmp_path, held(10), held(10, day=20), held(10, tenant="bio"), tenants=tenants)
    assert of(found, "astro").charges.usage == "57.00"  # 10 × 3.00 × 0.9 + 10 × 3.00
    assert of(found, "bio").charges.usage == "30.00"
    assert of(found, "astro").waste is None


RESERVED: Mapping[str, Any] = {
    "rates": [{"model": "*", "on_demand": "3.00", "reserved": "2.00"}],
    "reservations": [
        {"id": "r1", "tenant": "astro", "model": "*", "gpus": 2, "from": "2026-03-01", "to": "2026-04-01"}
    ],
}


def test_a_discount_on_reservations_comes_off_the_fee_used_or_not(tmp_path: Path) -> None:
    tenants = [{"id": "astro", "discounts": [{"percent": "25", "classes": ["reserved"]}]}]
    found = of(report(tmp_path, held(10), tenants=tenants, **RESERVED), "astro")
    assert found.charges.reservation == "2232.00"  # 2 × 744 h × 2.00 × 0.75
    assert found.workloads[0].cost == "15.00"


@pytest.mark.parametrize(("hours", "shortfall"), [(10, "70.00"), (40, "0.00")])
def test_what_is_missing_to_the_commitment_is_a_line(tmp_path: Path, hours: int, shortfall: str) -> None:
    tenants = [{"id": "astro", "commitment": [{"monthly": "100.00"}]}]
    charges = of(report(tmp_path, held(hours), tenants=tenants), "astro").charges
    assert charges.commitment == shortfall
    assert Decimal(charges.total) == max(Decimal(100), Decimal(3 * hours))


def test_a_commitment_is_a_months_and_of_a_part_its_part(tmp_path: Path) -> None:
    tenants = [{"id": "astro", "commitment": [{"monthly": "310.00", "from": "2026-03-22"}]}, {"id": "bio"}]
    found = report(tmp_path / "month", held(10, tenant="bio"), tenants=tenants)
    assert of(found, "astro").charges.commitment == "100.00"  # 10 of 31 days
    day = report(tmp_path / "day", held(10, tenant="bio"), tenants=tenants, window="2026-03-22")
    assert "astro" not in {t.tenant for t in day.tenants}


def outage(hours: float, gpus: str = "1") -> Allocation:
    return Allocation((0, hours * HOUR), gpus, model=H100, tenant="astro", workload="out", class_="down")


@pytest.mark.parametrize(
    ("down", "credited"),
    [
        (1, "0.00"),  # 1 of 1,488 GPU-hours: 99.93 %
        (2, "-297.60"),  # 99.87 %: a tenth of 2 × 744 × 2.00
        (15, "-744.00"),  # 98.99 %: a quarter
    ],
)
def test_downtime_is_credited_by_threshold(tmp_path: Path, down: int, credited: str) -> None:
    sla = {"thresholds": [{"below": "99.9", "percent": "10"}, {"below": "99.0", "percent": "25"}]}
    found = of(report(tmp_path, outage(down), sla=sla, **RESERVED), "astro")
    assert found.charges.credit == credited
    hours = found.gpu_hours
    assert hours.reserved + hours.reserved_unused == 1488 - down


def test_a_days_credit_follows_from_the_whole_month(tmp_path: Path) -> None:
    sla = {"thresholds": [{"below": "99.9"}]}
    found = report(tmp_path, outage(2), sla=sla, window="2026-03-01", **RESERVED)
    assert of(found, "astro").charges.credit == "-4.00"
    other = report(tmp_path / "other", outage(2), sla=sla, window="2026-03-02", **RESERVED)
    assert of(other, "astro").charges.credit == "0.00"


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"overheads": [{"name": "x", "monthly": "1", "split": "fixed"}]}, "go together"),
        ({"overheads": [{"name": "x", "monthly": "1", "split": "fixed", "shares": {"zoo": "5"}}]}, "no tenant 'zoo'"),
        (
            {"overheads": [{"name": "x", "monthly": "1", "split": "fixed", "shares": {"astro": "60", "bio": "41"}}]},
            "at most 100",
        ),
        ({"tenants": [{"id": "astro", "currency": "EUR"}]}, "no rate of exchange for EUR"),
        ({"exchange": [{"currency": "USD", "rate": "1"}]}, "own currency"),
        ({"exchange": [{"currency": "EUR", "rate": "0.9"}, {"currency": "EUR", "rate": "0.8"}]}, "overlaps"),
        ({"exchange": [{"currency": "EUR", "rate": "0"}]}, "rate of 0"),
        ({"tenants": [{"id": "astro", "discounts": [{"percent": "101"}]}]}, "above 100"),
        ({"sla": {"credit_downtime": False, "thresholds": [{"below": "99"}]}}, "credit nothing"),
    ],
)
def test_what_does_not_fit_is_said_at_once(tmp_path: Path, more: Mapping[str, Any], fault: str) -> None:
    path = Scene(config=more).write(tmp_path) / "gpuledger.yaml"
    from exporter.errors import ConfigError

    with pytest.raises(ConfigError, match=fault):
        load(path)
