"""Prices have two times: when they hold, and when they were recorded. Closed months keep what was known then."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from gpuledger import cli
from pipelines.book import adjusting
from pipelines.book.closing import close
from pipelines.book.conversion import exchange_of
from pipelines.book.verifying import verify
from pipelines.book.whatif import whatif
from pipelines.config import Config, load
from pipelines.operations import report
from tests.pipelines.book.conftest import CONFIG, Book

NOW = datetime(2027, 1, 15, tzinfo=UTC)
LAST_RATE = 'on_demand: "2.50", reserved: "1.50", spot: "1.00"}\n'
AFTERWARDS = (
    '  - {model: "*", on_demand: "9.00"}\n'
    '  - {model: "*h100*", to: 2026-10-01, recorded: 2026-11-20, on_demand: "2.30", reserved: "1.50"}\n'
)
RECHARGED = CONFIG.replace(LAST_RATE, LAST_RATE + AFTERWARDS)


def usage(config: Config, period: str, tenant: str = "astro") -> str:
    return next(t.charges.usage for t in report(config, period=period).tenants if t.tenant == tenant)


def loaded(folder: Path, text: str) -> Config:
    (folder / "gpuledger.yaml").write_text(text)
    return load(folder / "gpuledger.yaml")


def test_in_an_open_month_the_price_recorded_last_counts_from_the_place_of_the_one_it_replaces(book: Book) -> None:
    config = book(config=RECHARGED)
    assert usage(config, "2026-09") == "23.00"  # 10 h × 2.30: before "*", which stands before it in the file
    assert usage(config, "2026-10") == "30.00"  # 12 h × 2.50: it doesn't hold there


def test_a_closed_month_stays_and_the_difference_is_shown_then_booked_in_the_open_one(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    before = report(config, period="2026-09").to_json()
    config = book(config=RECHARGED)
    assert report(config, period="2026-09").to_json() == before
    shown = next(t for t in adjusting.repriced(config, config, "2026-09").tenants if t.tenant == "astro")
    assert (shown.difference.usage, shown.now, shown.then) == ("3.00", shown.now, shown.then)
    assert Decimal(shown.then) - Decimal(shown.now) == Decimal(shown.difference.total)
    entries = adjusting.reprice(config, config, "2026-09", reason="agreed in November", now=NOW, by="ada")
    assert next(e.amount for e in entries if (e.tenant, e.charge) == ("astro", "usage")) == Decimal("3.00")
    booked = next(t for t in report(config, period="2026-10").tenants if t.tenant == "astro")
    assert booked.charges.adjustment == shown.difference.total
    close(config, "2026-10", now=NOW, by="ada")
    assert verify(config).problems == []


def test_the_card_as_it_was_known_then_changes_nothing(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    config = book(config=RECHARGED)
    then, later = (config.as_recorded_on(datetime(2026, 11, day, tzinfo=UTC)) for day in (19, 20))
    assert {t.difference.total for t in adjusting.repriced(config, then, "2026-09").tenants} == {"0.00"}
    assert [r.on_demand for r in then.rates_in_force] == [Decimal("2.00"), Decimal("2.50"), Decimal("9.00")]
    # The replacement stands once where it replaces, and once in its own place, where it changes nothing.
    assert next(r.on_demand for r in later.rates_in_force) == Decimal("2.30")
    assert later.config_hash == config.config_hash != then.config_hash
    found = whatif(config, then, "2026-09")
    assert {t.difference.total for t in found.tenants} == {"0.00"}


def test_tenants_added_since_move_nothing_of_a_closed_month(book: Book) -> None:
    there = CONFIG.replace("{allocations: allocations.csv}", "{allocations: allocations.csv, cluster: hpc}")
    nobodys = "2026-09-11T00:00:00Z,2026-09-11T03:00:00Z,1,,H100,,nobodys,\n"
    config = book(nobodys, config=there)
    close(config, "2026-09", now=NOW, by="ada")
    config = book(nobodys, config=there.replace("rates:\n", "  - {id: newcomer, match: [{cluster: hpc}]}\nrates:\n"))
    assert {t.difference.total for t in whatif(config, config, "2026-09").tenants} != {"0.00"}
    assert {t.difference.total for t in adjusting.repriced(config, config, "2026-09").tenants} == {"0.00"}


def test_what_is_cut_in_two_by_a_replacement_is_still_one_entry_to_its_tiers(book: Book) -> None:
    tiers = 'tiers: [{above: "15", price: "8.00"}], tiering: all_units}\n'
    card = (
        '  - {model: "*H100*", on_demand: "10.00", reserved: "1.50", '
        + tiers
        + '  - {model: "*H100*", from: 2026-11-10, to: 2026-11-11, recorded: 2026-12-01, on_demand: "1.00"}\n'
    )
    head, rest = CONFIG.split("rates:\n")
    text = head + "rates:\n" + card + "reservations:" + rest.split("reservations:")[1]
    config = book(
        "2026-11-05T00:00:00Z,2026-11-05T02:00:00Z,1,,H100,bio,a,\n",
        "2026-11-10T00:00:00Z,2026-11-10T03:00:00Z,1,,H100,bio,b,\n",
        "2026-11-20T00:00:00Z,2026-11-20T06:00:00Z,1,,H100,bio,c,\n",
        config=text,
    )
    # 8 + 2 before and 6 after are 16 h at 8.00; 3 h in between at 1.00.
    assert usage(config, "2026-11", "bio") == "131.00"


def test_overheads_discounts_commitments_and_exchange_are_replaced_the_same_way(tmp_path: Path) -> None:
    text = """\
currency: USD
tenants:
  - id: bio
    currency: EUR
    discounts: [{percent: "10"}, {percent: "20", from: 2026-10-16, recorded: 2026-11-02}]
    commitment: [{monthly: "50.00"}, {monthly: "80.00", to: 2026-10-01, recorded: 2026-11-02}]
overheads:
  - {name: storage, monthly: "100.00"}
  - {name: storage, monthly: "160.00", from: 2026-10-16, recorded: 2026-11-02, split: gpu_hours}
exchange:
  - {currency: EUR, rate: "0.90"}
  - {currency: EUR, rate: "0.95", from: 2026-10-20, to: 2026-11-01, recorded: 2026-11-02}
"""
    config = loaded(tmp_path, text)
    (tenant,) = config.tenants
    october, middle = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 16, tzinfo=UTC)
    assert [(p.monthly, p.from_, p.to) for p in config.overheads_in_force] == [
        (Decimal(100), None, middle),
        (Decimal(160), middle, None),
    ]
    assert [(c.monthly, c.from_, c.to) for c in tenant.commitment_in_force] == [
        (Decimal(50), october, None),
        (Decimal(80), None, october),
    ]
    assert next(d.percent for d in tenant.discounts_in_force if d.holds(middle)) == 20
    assert next(d.percent for d in tenant.discounts_in_force if d.holds(october)) == 10
    end = datetime(2026, 11, 1, tzinfo=UTC)
    known = config.as_recorded_on(datetime(2026, 11, 1, tzinfo=UTC))
    rates = [exchange_of(c, "bio", end) for c in (config, known)]
    assert [r and r.rate for r in rates] == [Decimal("0.95"), Decimal("0.90")]
    assert len(known.overheads) == len(known.tenants[0].discounts) == len(known.tenants[0].commitment) == 1


def test_two_that_were_recorded_together_are_still_a_conflict(tmp_path: Path) -> None:
    twice = '  - {model: "*h100*", to: 2026-10-01, recorded: 2026-11-20, on_demand: "2.40"}\n'
    with pytest.raises(ConfigError, match="overlaps rates"):
        loaded(tmp_path, RECHARGED.replace(AFTERWARDS, AFTERWARDS + twice))


def test_a_reservation_without_a_price_at_that_time_is_said(tmp_path: Path) -> None:
    text = CONFIG.replace('"2.50", reserved', '"2.50", recorded: 2026-11-20, reserved')
    with pytest.raises(ConfigError, match="as recorded on 2026-11-01 00:00Z: reservation r1 has no rate"):
        loaded(tmp_path, text).as_recorded_on(datetime(2026, 11, 1, tzinfo=UTC))


def test_the_commands(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    config = book(config=RECHARGED)
    named = ["--config", str(config.path)]

    def said(*argv: str) -> str:
        assert cli.main([*argv, *named]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    rows = json.loads(said("rates", "--json", "--as-recorded-on", "2026-11-01"))
    assert [(r["on_demand"], r["recorded"]) for r in rows] == [("2.00", None), ("2.50", None), ("9.00", None)]
    assert "2026-11-20T00:00+00:00" in said("rates")
    shown = json.loads(
        said("whatif", "2026-09", "--base", str(config.path), "--as-recorded-on", "2026-11-01", "--json")
    )
    assert next(t["difference"]["usage"] for t in shown["tenants"] if t["tenant"] == "astro") == "-3.00"
