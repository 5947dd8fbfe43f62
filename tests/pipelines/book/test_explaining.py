"""A line explains itself: what is below it adds up to it, on every step."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from exporter.errors import UsageError
from gpuledger import cli
from pipelines.book import adjusting, journal
from pipelines.book.closing import close
from pipelines.book.entries import Entry
from pipelines.book.explaining import Explanation, explain
from pipelines.book.statements import statement
from pipelines.config import Config, load
from pipelines.operations import run_once
from tests.pipelines.book.conftest import CONFIG, Book
from tests.pipelines.scene import Scene, seen

NOW = datetime(2027, 1, 15, tzinfo=UTC)


def of_kind(config: Config, tenant: str, kind: str) -> Explanation:
    found = statement(config, tenant, "2026-10").statement
    line = next(x for x in found.lines if x.kind == kind)
    return explain(config, f"{tenant}/2026-10", line.number)


def adds_up(found: Explanation) -> None:
    assert sum(Decimal(part.amount) for part in found.leases) == Decimal(found.line.amount)
    assert sum(part.gpu_hours for part in found.leases) == pytest.approx(found.line.quantity, abs=1e-5)
    for part in found.leases:
        assert sum(hour.gpu_hours for hour in part.hours) == pytest.approx(part.gpu_hours, abs=1e-5)
        assert float(part.amount) == pytest.approx(part.gpu_hours * float(part.rate or 0), abs=0.01)


@pytest.mark.parametrize("tenant", ["astro", "bio"])
def test_usage_goes_back_to_leases_hours_and_the_rate_entry(book: Book, tenant: str) -> None:
    found = of_kind(book(), tenant, "usage")
    assert found.leases
    adds_up(found)
    assert {part.origin for part in found.leases} == {"an allocations file"}
    assert all("rates: model *H100* from 2026-10-01" in part.rate_entry for part in found.leases)


def test_the_other_lines_say_how_they_come_about(book: Book) -> None:
    config = book()
    assert "r1: 2 × *H100*: 48.0 GPU-hours × USD 1.50 = USD 72.00" in of_kind(config, "astro", "reservation").steps
    steps = of_kind(config, "astro", "overhead").steps
    assert steps[0] == "storage: USD 100.00 a month, split even; this tenant's part is USD 50.00"
    assert "USD -3.00" in of_kind(config, "astro", "credit").steps[0]


def test_a_share_of_idle_capacity_names_policy_and_pool(tmp_path: Path) -> None:
    series = [seen("GPU-1", (0, 60), "astro/run"), seen("GPU-1", (60, 180))]
    start = datetime(2026, 10, 5, 9, tzinfo=UTC)
    Scene(series=series, start=start, config={"idle": {"policy": "proportional"}}).write(tmp_path)
    config = load(tmp_path / "gpuledger.yaml")
    run_once(config)
    found = of_kind(config, "astro", "idle")
    assert found.line.amount == "6.00"  # 2 h × 3.00
    assert found.steps[0].startswith("policy proportional")
    assert found.steps[1] == "held by nobody: USD 6.00, of 2.0 GPU-hours in all"
    assert found.steps[2] == "of USD 6.00 that tenants share, this tenant's part is USD 6.00"


def test_a_pool_in_a_part_of_a_month_says_what_of_it_is_this_periods(book: Book) -> None:
    config = book()
    lines = {x.kind: x for x in statement(config, "astro", "2026-10-01").statement.lines}
    found = explain(config, "astro/2026-10-01", lines["overhead"].number)
    # A day of October's 31: 100.00 / 31 = 3.23; astro alone is there.
    assert found.steps[0] == (
        "storage: USD 100.00 a month, of which USD 3.23 is this period's, split even; this tenant's part is USD 3.23"
    )


def test_a_step_says_which_currency_it_is_in(book: Book) -> None:
    euros = CONFIG.replace("{id: bio}", "{id: bio, currency: EUR}").replace(
        "reservations:\n", 'exchange: [{currency: EUR, rate: "0.50"}]\nreservations:\n'
    )
    steps = of_kind(book(config=euros), "bio", "overhead").steps
    assert steps[0] == "storage: USD 100.00 a month, split even; this tenant's part is EUR 25.00"
    assert steps[1] == "of USD 100.00 that tenants share, this tenant's part is USD 50.00"


def test_late_hours_name_the_leases_that_they_are_of(book: Book) -> None:
    close(book(), "2026-09", now=NOW, by="ada")
    config = book("2026-09-20T00:00:00Z,2026-09-20T06:00:00Z,1,,H100,astro,late,\n")
    found = of_kind(config, "astro", "adjustment")
    assert found.line.amount == "12.00"
    (named,) = (step for step in found.steps if step.startswith("late (lease "))
    assert named.endswith("on demand: +6.000000 GPU-hours")


def test_a_closed_line_is_explained_by_what_was_closed(book: Book) -> None:
    config = book()
    number = close(config, "2026-09", now=datetime(2027, 1, 1, tzinfo=UTC), by="ada").numbers["astro"]
    before = explain(config, number, 1)
    adds_up(before)
    config = book(config=CONFIG.replace('"2.00"', '"7.00"'))
    assert explain(config, number, 1) == before


def test_coverage_is_that_of_the_samples_hour_by_hour(tmp_path: Path) -> None:
    series = [seen("GPU-1", (0, 90), "astro/run"), seen("GPU-1", (90, 120), "astro/run", util=None, power="NaN")]
    Scene(series=series, start=datetime(2026, 10, 5, 9, tzinfo=UTC)).write(tmp_path)
    config = load(tmp_path / "gpuledger.yaml")
    run_once(config)
    found = of_kind(config, "astro", "usage")
    adds_up(found)
    (part,) = found.leases
    assert [hour.observed_gpu_hours for hour in part.hours] == [1.0, 0.5]
    assert part.coverage == 0.75


def test_a_reprice_goes_back_to_the_entry_of_then_and_the_one_recorded_later(
    book: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    card = '  - {model: "*H100*", to: 2026-10-01, recorded: 2026-11-20, on_demand: "2.30", reserved: "1.50"}\n'
    dearer = card.replace("2026-11-20", "2026-11-25").replace('"2.30"', '"2.35"')
    config = book(config=CONFIG.replace("reservations:\n", card + "reservations:\n"))
    adjusting.reprice(config, config, "2026-09", reason="agreed", now=NOW, by="ada")
    config = book(config=CONFIG.replace("reservations:\n", card + dearer + "reservations:\n"))
    adjusting.reprice(config, config, "2026-09", reason="agreed again", now=NOW, by="ada")
    config = book()  # what the card says now changes nothing of what was booked by it
    lines = statement(config, "astro", "2026-10").statement.lines
    first, second = (x for x in lines if x.description.startswith("Repriced: usage"))
    walk = explain(config, "astro/2026-10", first.number).repriced
    assert walk is not None
    (then,), (now,) = walk.then, walk.now
    assert (then.gpu_hours, then.rate, then.amount) == (10.0, "2", "20.00")
    assert then.rate_entry == "rates: model *H100* to 2026-10-01, on_demand 2.00 per GPU-hour"
    assert (now.gpu_hours, now.rate, now.amount) == (10.0, "2.3", "23.00")
    assert now.rate_entry == "rates: model *H100* to 2026-10-01, recorded 2026-11-20, on_demand 2.30 per GPU-hour"
    assert (first.amount, walk.booked_before) == ("3.00", "0.00")
    found = explain(config, "astro/2026-10", second.number)
    assert found.repriced is not None
    assert (second.amount, found.repriced.now_amount, found.repriced.booked_before) == ("0.50", "23.50", "3.00")
    assert any("the difference, less 3.00 that was booked before is 0.50" in step for step in found.steps)
    assert cli.main(["explain", "astro/2026-10", str(second.number), "--config", str(config.path)]) == 0
    assert "recorded 2026-11-25, on_demand 2.35 per GPU-hour" in capsys.readouterr().out
    close(config, "2026-10", now=NOW, by="ada")
    assert explain(config, "astro/2026-10", second.number).repriced == found.repriced


def test_a_reprice_that_was_booked_without_its_walk_says_by_which_configuration(book: Book) -> None:
    config = book()
    close(config, "2026-09", now=NOW, by="ada")
    entry = Entry("2026-10/1", "2026-10", "2026-09", "astro", "reprice", "usage", Decimal("3.00"), reason="agreed")
    journal.book(config.ledger / "books", [entry], at=NOW, by="ada", note={"prices": "0123456789abcdef"})
    line = next(x for x in statement(config, "astro", "2026-10").statement.lines if x.reference == "2026-10/1")
    found = explain(config, "astro/2026-10", line.number)
    assert found.repriced is None
    assert any("configuration 0123456789ab; it was booked by a release that" in step for step in found.steps)


def test_a_repriced_reservation_names_its_entry(book: Book) -> None:
    config = book()
    for month in ("2026-09", "2026-10"):
        close(config, month, now=NOW, by="ada")
    config = book(config=CONFIG.replace('reserved: "1.50", spot', 'reserved: "1.25", spot'))
    adjusting.reprice(config, config, "2026-10", reason="agreed", now=NOW, by="ada")
    line = next(
        x
        for x in statement(config, "astro", "2026-11").statement.lines
        if x.description.startswith("Repriced: reservation")
    )
    walk = explain(config, "astro/2026-11", line.number).repriced
    assert walk is not None
    assert line.amount == "-12.00"  # 48 h × (1.25 − 1.50)
    assert [(p.what, p.gpu_hours, p.rate, p.amount) for p in walk.now] == [("r1: 2 × *H100*", 48.0, "1.25", "60.00")]
    assert walk.now[0].rate_entry == "rates: model *H100* from 2026-10-01, reserved 1.25 per GPU-hour"


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("2026-000099", 1, "no statement has this number"),
        ("astro/2026-10", 99, "has no line 99"),
        ("nobody/2026-10", 1, "no such tenant"),
    ],
)
def test_what_is_not_there_is_said(book: Book, name: str, line: int, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        explain(book(), name, line)


def test_the_command_shows_the_sum(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    config = book()
    assert cli.main(["explain", "astro/2026-10", "1", "--hours", "--config", str(config.path)]) == 0
    out = capsys.readouterr().out
    assert "this line" in out
    assert "30.00" in out
    assert "10-01 11:00" in out
