"""A closed month's hours that turn out to be another's, or of another class, are booked over in the open month."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

from pipelines.book.adjusting import reprice
from pipelines.book.closing import close
from pipelines.book.reckoning import Reckoning
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.operations import run_once
from pipelines.publish import published_fleet
from tests.pipelines.book.test_spans import HEAD, LATER

CONFIG = """\
currency: USD
timezone: UTC
sources: [{allocations: allocations.csv}]
tenants: [{id: a}, {id: b}]
rates: [{model: "*", on_demand: "2.00", spot: "0.50"}]
closing: {formats: []}
"""
NOVEMBER = "2026-11-03T00:00:00Z,2026-11-03T05:00:00Z,1,,H100,a,w,\n"


def known(folder: Path, tenant: str = "a", class_: str = "") -> Config:
    """Ten hours of October, as somebody says that they were."""
    (folder / "gpuledger.yaml").write_text(CONFIG)
    row = f"2026-10-01T00:00:00Z,2026-10-01T10:00:00Z,1,,H100,{tenant},w,{class_}\n"
    (folder / "allocations.csv").write_text(HEAD + row + NOVEMBER)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return config


def corrections(config: Config) -> dict[str, tuple[str, str, Decimal, float | None]]:
    metered, as_of = published_fleet(config.ledger)
    return {
        e.tenant: (e.charge_period, e.charge, e.amount, e.gpu_hours)
        for e in Reckoning(config, metered, as_of).entries
        if e.kind == "late_data"
    }


def test_hours_of_another_tenant_are_given_back_and_charged(tmp_path: Path) -> None:
    say = partial(known, tmp_path)
    close(say(), "2026-10", now=LATER, by="ada")
    assert corrections(say()) == {}
    moved = {
        "a": ("2026-10", "usage", Decimal("-20.00"), -10.0),
        "b": ("2026-10", "usage", Decimal("20.00"), 10.0),
    }
    assert corrections(say("b")) == moved
    assert corrections(say("b")) == moved
    assert corrections(say("a")) == {}

    close(say("b"), "2026-11", now=LATER, by="ada")
    assert corrections(say("b")) == {}
    assert verify(say("b")).problems == []
    back = corrections(say("a"))
    assert {tenant: amount for tenant, (_, _, amount, _) in back.items()} == {"a": Decimal(20), "b": Decimal(-20)}


def test_hours_of_another_class_are_charged_at_its_price(tmp_path: Path) -> None:
    say = partial(known, tmp_path)
    close(say(), "2026-10", now=LATER, by="ada")
    assert corrections(say("a", "spot")) == {"a": ("2026-10", "usage", Decimal("-15.00"), 0.0)}


def test_a_reprice_counts_late_hours_whatever_came_first(tmp_path: Path) -> None:
    dearer = tmp_path / "prices.yaml"
    dearer.write_text(CONFIG.replace('"2.00"', '"3.00"'))
    same = tmp_path / "same.yaml"
    same.write_text(CONFIG)
    late = "2026-10-20T00:00:00Z,2026-10-20T06:00:00Z,1,,H100,a,late,\n"
    config = known(tmp_path)
    close(config, "2026-10", now=LATER, by="ada")

    def booked(prices: Path, period: str = "2026-10") -> Decimal:
        entries = reprice(config, load(prices), period, reason="agreed on", now=LATER, by="ada")
        return sum((e.amount for e in entries), Decimal(0))

    assert booked(dearer) == Decimal(10)  # 10 h × 1.00
    with (tmp_path / "allocations.csv").open("a") as rows:
        rows.write(late)
    run_once(config)
    assert corrections(config)["a"][2] == Decimal(12)  # 6 h × 2.00, the price of then
    assert booked(dearer) == Decimal(6)
    assert booked(dearer) == 0
    assert booked(same) == Decimal(-16)
    assert booked(dearer) == Decimal(16)
    close(config, "2026-11", now=LATER, by="ada")
    assert booked(dearer) == 0
    assert verify(config).problems == []
