"""Who shares idle and overheads, and how much."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from pipelines.config import Overhead
from pipelines.config.money import Driver
from pipelines.periods import Period, parse_period
from pipelines.sharing import UNATTRIBUTED, Keys, beyond_unused, overhead_amount

THREE = Keys(["astro", "bio", "chem"], {"astro": Fraction(3), "bio": Fraction(2), "chem": Fraction(1)})


def test_even_parts_add_up_to_the_cent_and_ties_go_by_id() -> None:
    parts = THREE.share(Fraction(100), "even", "USD")
    assert parts == {"astro": Decimal("33.34"), "bio": Decimal("33.33"), "chem": Decimal("33.33")}


def test_proportional_parts_follow_the_weights() -> None:
    parts = THREE.share(Fraction(1), "proportional", "USD")
    assert parts == {"astro": Decimal("0.50"), "bio": Decimal("0.33"), "chem": Decimal("0.17")}


def test_what_nobody_owns_weighs_and_its_part_stays_out() -> None:
    keys = Keys(["astro"], {"astro": Fraction(1), UNATTRIBUTED: Fraction(3)})
    assert keys.share(Fraction(10), "proportional", "USD") == {"astro": Decimal("2.50")}
    assert keys.share(Fraction(10), "even", "USD") == {"astro": Decimal("10.00")}


@pytest.mark.parametrize("split", ["even", "proportional"])
def test_with_nobody_there_nothing_is_shared(split: str) -> None:
    assert Keys([], {}).share(Fraction(10), split, "USD") == {}  # type: ignore[arg-type]


def test_the_amount_is_rounded_once_before_it_is_split() -> None:
    parts = Keys(["astro", "bio"], {}).share(Fraction("0.995"), "even", "USD")
    assert sum(parts.values()) == Decimal("1.00")


@pytest.mark.parametrize(
    ("period", "zone", "amount"),
    [
        ("2026-02", "UTC", Fraction(8400)),
        ("2026-02-14", "UTC", Fraction(300)),
        ("2026", "UTC", Fraction(8400 * 12)),
        ("2026-11-01", "America/New_York", Fraction(8400 * 25, 721)),
        ("2026-11-02", "America/New_York", Fraction(8400 * 24, 721)),
    ],
)
def test_an_overhead_is_of_each_local_month_by_its_length(period: str, zone: str, amount: Fraction) -> None:
    local = ZoneInfo(zone)
    overhead = Overhead(name="storage", monthly=Decimal("8400.00"))
    assert overhead_amount(overhead, parse_period(period, local), local) == amount


def test_an_overhead_of_a_window_over_two_months_is_a_part_of_each() -> None:
    window = Period(datetime(2026, 2, 28, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))
    overhead = Overhead(name="storage", monthly=Decimal("868.00"))
    assert overhead_amount(overhead, window, ZoneInfo("UTC")) == 31 + 28


def test_unused_reservations_pay_for_idle_of_the_models_that_they_take() -> None:
    idle: dict[str | None, Fraction] = {"A": Fraction(5), "B": Fraction(3), None: Fraction(1)}
    left = beyond_unused(idle, [(Fraction(4), ["A"]), (Fraction(3), ["A", "B"]), (Fraction(9), ["C"])])
    assert left == {"A": 0, "B": 1, None: 1}
    assert idle["A"] == 5


POOLS = Keys(
    ["astro", "bio"],
    {},
    {"astro": Fraction(30), "bio": Fraction(10), UNATTRIBUTED: Fraction(10)},
    {"astro": Fraction(1), "bio": Fraction(3)},
)


@pytest.mark.parametrize(
    ("driver", "fixed", "parts"),
    [
        ("gpu_hours", {}, {"astro": "60.00", "bio": "20.00"}),
        ("energy", {}, {"astro": "25.00", "bio": "75.00"}),
        ("fixed", {"astro": "70", "bio": "20"}, {"astro": "70.00", "bio": "20.00"}),
        ("fixed", {"chem": "100"}, {"chem": "100.00"}),
    ],
)
def test_a_pool_goes_by_what_drives_it(driver: Driver, fixed: dict[str, str], parts: dict[str, str]) -> None:
    shares = POOLS.share(Fraction(100), driver, "USD", {t: Decimal(p) for t, p in fixed.items()})
    assert {t: str(amount) for t, amount in shares.items()} == parts


def test_a_pool_costs_only_while_it_is_there() -> None:
    overhead = Overhead.model_validate({"name": "x", "monthly": "310.00", "from": datetime(2026, 3, 22, tzinfo=UTC)})
    utc = ZoneInfo("UTC")
    assert [overhead_amount(overhead, parse_period(p, utc), utc) for p in ("2026-02", "2026-03", "2026-03-31")] == [
        0, 100, 10,
    ]  # fmt: skip
