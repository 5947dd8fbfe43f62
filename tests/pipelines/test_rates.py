"""Which entry of the rate card prices what, and when."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.config import Config, load
from pipelines.instants import to_ms
from pipelines.periods import parse_time
from pipelines.rates import RateCard
from tests.pipelines.scene import Scene

RATES = [
    {"model": "*h100*", "to": "2026-03-01", "on_demand": "2.00", "spot": "0.50"},
    {"model": "*h100*", "from": "2026-03-01", "to": "2026-05-01", "on_demand": "3.00", "reserved": "1.75"},
    {"model": "NVIDIA*", "on_demand": "9.00"},
]
RESERVATIONS = [
    {"id": "own", "tenant": "astro", "model": "*", "gpus": 1, "from": "2026-03-01", "to": "2026-04-01", "rate": "1.10"},
    {"id": "card", "tenant": "astro", "model": "*H100*", "gpus": 1, "from": "2026-02-01", "to": "2026-04-01"},
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    scene = Scene(config={"timezone": "Europe/Berlin", "rates": RATES, "reservations": RESERVATIONS})
    return load(scene.write(tmp_path) / "gpuledger.yaml")


def ms(config: Config, text: str) -> int:
    return to_ms(parse_time(text, config.timezone))


@pytest.mark.parametrize(
    ("model", "class_", "at", "price"),
    [
        ("NVIDIA H100 80GB", "on_demand", "2026-02-28T23:59:59", "2.00"),
        ("NVIDIA H100 80GB", "on_demand", "2026-03-01", "3.00"),
        ("NVIDIA H100 80GB", "on_demand", "2026-05-01", "9.00"),
        ("nvidia h100", "spot", "2026-02-01", "0.50"),
        ("nvidia h100", "spot", "2026-03-01", "3.00"),
        ("NVIDIA H100", "reserved", "2026-03-01", "1.75"),
        ("NVIDIA L40S", "overflow", "2026-03-01", "9.00"),
        ("Tesla T4", "on_demand", "2026-03-01", None),
        (None, "on_demand", "2026-03-01", None),
    ],
)
def test_the_first_entry_that_matches_model_and_time_prices_a_class(
    model: str | None, class_: str, at: str, price: str | None, config: Config
) -> None:
    found = RateCard(config).price(model, class_, ms(config, at))
    assert found == (None if price is None else Fraction(price))


def test_prices_change_at_local_midnights(config: Config) -> None:
    assert RateCard(config).edges == [ms(config, "2026-02-28T23:00:00Z"), ms(config, "2026-04-30T22:00:00Z")]


def test_a_reservation_has_its_own_rate_or_that_of_the_entry_for_its_model_text(config: Config) -> None:
    own, by_card = config.reservations
    card, february, march = RateCard(config), ms(config, "2026-02-10"), ms(config, "2026-03-10")
    assert card.reserved(own, march) == Fraction("1.10")
    assert card.reserved(by_card, february) == 2
    assert card.reserved(by_card, march) == Fraction("1.75")
    assert card.on_demand_of(by_card, march) == 3
    assert card.on_demand_of(own, march) is None, "no entry's pattern matches the text *"
