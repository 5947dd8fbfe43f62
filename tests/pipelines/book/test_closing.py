"""Closing: refused for cause, numbered without gaps, never changed again; late data is booked once, in its place."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.errors import LedgerError, UsageError, WorkError
from pipelines.book.closing import Closed, close
from pipelines.book.statements import FORMATS, statement
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.operations import report, run_once
from pipelines.report import Report, TenantReport
from tests.pipelines.book.conftest import CONFIG, Book

LATER = datetime(2027, 1, 15, tzinfo=UTC)
LATE = "2026-09-11T00:00:00Z,2026-09-11T03:00:00Z,1,,H100,bio,late,\n"


def closed(config: Config, *periods: str) -> list[Closed]:
    return [close(config, period, now=LATER, by="ada") for period in periods]


def row(found: Report, tenant: str) -> TenantReport:
    return next(t for t in found.tenants if t.tenant == tenant)


def all_bytes(config: Config, period: str) -> dict[str, bytes]:
    tenants = [t.tenant for t in report(config, period=period).tenants]
    return {f"{t}.{f}": statement(config, t, period).rendered(f) for t in tenants for f in FORMATS} | {
        "report": report(config, period=period).to_json().encode()
    }


def test_numbers_have_no_gap_within_a_year_and_start_again_with_the_next(book: Book) -> None:
    config = book("2027-01-02T00:00:00Z,2027-01-02T01:00:00Z,1,,H100,bio,x,\n")
    done = [close(config, p, now=datetime(2027, 3, 1, tzinfo=UTC), by="ada") for p in (
        "2026-09", "2026-10", "2026-11", "2026-12", "2027-01")]  # fmt: skip
    numbers = [number for one in done for _, number in sorted(one.numbers.items())]
    per_year = {year: [n for n in numbers if n.startswith(year)] for year in ("2026", "2027")}
    for year, found in per_year.items():
        assert found == [f"{year}-{nth:06d}" for nth in range(1, len(found) + 1)]
    assert verify(config).problems == []


def test_closed_it_keeps_its_report_and_every_format_of_every_statement(book: Book) -> None:
    config = book()
    closed(config, "2026-09", "2026-10")
    before = all_bytes(config, "2026-10")
    assert statement(config, "astro", "2026-10").statement.number is not None
    dearer = CONFIG.replace('on_demand: "2.50"', 'on_demand: "9.99"').replace("storage", "disks")
    late = "2026-10-06T00:00:00Z,2026-10-06T03:00:00Z,1,,H100,bio,late,\n"
    after = all_bytes(book(late, config=dearer), "2026-10")
    assert after == before


def test_what_is_published_of_it_is_what_was_closed(book: Book) -> None:
    config = book()
    closed(config, "2026-09", "2026-10")
    changed = book(config=CONFIG.replace('on_demand: "2.50"', 'on_demand: "9.99"'))
    trend = statement(changed, "astro", "2026-11").statement.trend
    assert [p.total for p in trend] == [row(report(config, period=p.period), "astro").charges.total for p in trend]


def test_late_data_is_one_correction_at_the_rate_of_then_and_a_repeat_adds_nothing(book: Book) -> None:
    config = book(config=CONFIG.replace("proportional", "platform").replace('"100.00"', '"0.00"'))
    closed(config, "2026-09")
    plain = CONFIG.replace("proportional", "platform").replace('"100.00"', '"0.00"')
    config = book(LATE, config=plain)
    bio = statement(config, "bio", "2026-10").statement
    corrections = [line for line in bio.lines if line.kind == "adjustment"]
    assert [(c.charge_period, c.amount, c.quantity) for c in corrections] == [("2026-09", "6.00", 3.0)]  # 3 h × 2.00
    assert row(report(config, period="2026-10"), "bio").charges.adjustment == "6.00"
    assert "late_data" in {f.code for f in report(config, period="2026-10").findings}
    closed(config, "2026-10")
    config = book(LATE, config=plain + "# the same again\n")
    assert run_once(config).rebuilt is False
    assert "adjustment" not in {line.kind for line in statement(config, "bio", "2026-11").statement.lines}
    assert verify(config).problems == []


def test_late_data_that_goes_away_again_is_given_back(book: Book) -> None:
    plain = CONFIG.replace("proportional", "platform").replace('"100.00"', '"0.00"')
    closed(book(config=plain), "2026-09")
    config = book(LATE, config=plain)
    closed(config, "2026-10")
    config = book(config=plain)
    assert row(report(config, period="2026-11"), "bio").charges.adjustment == "-6.00"


def test_corrections_conserve_money_whoever_shares_the_costs(book: Book) -> None:
    config = book()
    closed(config, "2026-09")
    before = report(config, period="2026-09")
    config = book(LATE)
    found = report(config, period="2026-10")
    # bio now shares the overheads of September: what it takes over, astro gets back.
    adjustments = {t.tenant: Decimal(t.charges.adjustment) for t in found.tenants}
    assert adjustments["astro"] < 0 < adjustments["bio"]
    fresh = load(config.path)
    whole = sum(adjustments.values()) + Decimal(before.fleet.billed)
    again = report_without_books(fresh)
    assert whole == Decimal(again.fleet.billed)


def report_without_books(config: Config) -> Report:
    """What September comes to with all data, had it never been closed."""
    from pipelines.instants import to_ms
    from pipelines.operations import report_on
    from pipelines.publish import published_fleet

    metered, as_of = published_fleet(config.ledger)
    within = to_ms(datetime(2026, 9, 1, tzinfo=UTC)), to_ms(datetime(2026, 10, 1, tzinfo=UTC))
    return report_on(metered, config, within, as_of=as_of)


def test_a_configuration_that_meters_otherwise_books_no_correction_and_says_so(book: Book) -> None:
    closed(book(), "2026-09")
    config = book(LATE, config=CONFIG + "mig: {weight: compute}\n")
    found = report(config, period="2026-10")
    assert row(found, "bio").charges.adjustment == "0.00"
    assert any("another mig" in f.detail for f in found.findings if f.code == "late_data")


def test_hours_without_a_price_hold_a_month_open_whatever_is_forced(book: Book) -> None:
    config = book("2026-09-12T00:00:00Z,2026-09-12T01:00:00Z,1,,B200,bio,x,\n")
    with pytest.raises(WorkError, match=r"2026-09 can't be closed: no rate for .* from 2026-09"):
        close(config, "2026-09", now=LATER, by="ada", force=True, reason="hurry")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('coverage: "0.9"', r"coverage is 0.0%, below closing.coverage of 90.0%"),
        ("grace: 3650d", r"late data is awaited until 2036"),
        ("findings: [conflicting_owner]", r"conflicting_owner"),
    ],
)
def test_low_coverage_open_findings_and_the_grace_hold_it_open_until_forced(book: Book, more: str, why: str) -> None:
    crowded = "2026-09-13T00:00:00Z,2026-09-13T01:00:00Z,9,,H100,bio,crowd,\n"
    text = CONFIG.replace("issuer: Research Computing", f"issuer: Research Computing, {more}")
    config = book(crowded, config=text)
    with pytest.raises(WorkError, match=why):
        closed(config, "2026-09")
    with pytest.raises(UsageError, match="--reason"):
        close(config, "2026-09", now=LATER, by="ada", force=True)
    close(config, "2026-09", now=LATER, by="ada", force=True, reason="the node is gone")
    manifest = (config.ledger / "books" / "2026-09" / "manifest.json").read_text()
    assert '"forced":"the node is gone"' in manifest
    assert verify(config).problems == []


@pytest.mark.parametrize(
    ("period", "why"),
    [
        ("2026-11", "2026-10 comes next"),
        ("2026-09", "is closed already"),
        ("2026", "only months"),
        ("2026-10-03", "only months"),
    ],
)
def test_months_are_closed_once_in_turn_and_whole(book: Book, period: str, why: str) -> None:
    config = book()
    closed(config, "2026-09")
    with pytest.raises((WorkError, UsageError), match=why):
        close(config, period, now=LATER, by="ada")


def test_a_month_that_is_not_over_is_not_closed_by_force_either(book: Book) -> None:
    now = datetime(2026, 9, 30, 23, 59, tzinfo=UTC)
    with pytest.raises(WorkError, match="it ends only on 2026-10-01 00:00"):
        close(book(), "2026-09", now=now, by="ada", force=True, reason="hurry")


def test_a_ledger_that_is_behind_its_configuration_is_not_closed(book: Book) -> None:
    config = book()
    config.path.write_text(CONFIG.replace("2.50", "2.75"))
    with pytest.raises(LedgerError, match="run `gpuledger run --once` first"):
        closed(load(config.path), "2026-09")


@pytest.mark.parametrize("lost", ["line", "folder"])
def test_an_interrupted_closing_is_finished_or_done_again(book: Book, lost: str) -> None:
    config = book()
    closed(config, "2026-09")
    books = config.ledger / "books"
    (books / "2026-09").rename(books / ".2026-09.draft")  # the disk as it was before the last step
    if lost == "line":
        (books / "chain.jsonl").unlink()
    assert verify(config).problems != []
    closed(config, *(("2026-10",) if lost == "folder" else ("2026-09", "2026-10")))
    assert verify(config).problems == []


@pytest.fixture(scope="module")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two closed months, of which nothing is left as it is for long."""
    from tests.pipelines.book import conftest

    folder = tmp_path_factory.mktemp("shelved")
    (folder / "gpuledger.yaml").write_text(CONFIG)
    rows = conftest.HEAD + conftest.SEPTEMBER + conftest.OCTOBER + conftest.NOVEMBER
    (folder / "allocations.csv").write_text(rows)
    (folder / "inventory.csv").write_text(conftest.INVENTORY)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    closed(config, "2026-09", "2026-10")
    return config


def shelf_files(config: Config) -> list[Path]:
    return sorted(p for p in (config.ledger / "books").rglob("*") if p.is_file())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pick=st.data())
def test_a_changed_byte_is_found_and_its_file_named(shelved: Config, pick: st.DataObject) -> None:
    files = shelf_files(shelved)
    path = pick.draw(st.sampled_from(files))
    content = path.read_bytes()
    place = pick.draw(st.integers(0, len(content) - 1))
    flip = pick.draw(st.integers(1, 255))
    path.chmod(0o644)
    try:
        path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
        problems = verify(shelved).problems
        assert problems
        assert str(path) in problems[0]
    finally:
        path.write_bytes(content)
    assert verify_hashes_only(shelved) == []


def verify_hashes_only(config: Config) -> list[str]:
    from pipelines.book import chain

    return chain.examined(config.ledger / "books" / "chain.jsonl")[1]


@pytest.mark.parametrize("what", ["gone", "added", "cut"])
def test_a_file_or_line_that_goes_or_comes_is_found(shelved: Config, what: str) -> None:
    books = shelved.ledger / "books"
    path = books / ("chain.jsonl" if what == "cut" else "2026-09/report.json")
    content = path.read_bytes()
    stranger = books / "2026-09" / "statements" / "guest.json"
    path.chmod(0o644)
    try:
        if what == "gone":
            path.unlink()
        elif what == "added":
            stranger.write_text("{}")
        else:
            path.write_bytes(content[: content.index(b"\n") + 1])
        problems = verify(shelved).problems
        named = {"gone": path, "added": stranger, "cut": books / "2026-10"}[what]
        assert any(str(named) in problem for problem in problems)
    finally:
        stranger.unlink(missing_ok=True)
        path.write_bytes(content)
    assert verify(shelved).problems == []


def test_figures_that_the_usage_does_not_give_are_found_though_every_hash_is_right(book: Book) -> None:
    """Whoever rewrites a report and all hashes above it is still caught by the usage."""
    from pipelines.book import chain

    config = book()
    closed(config, "2026-09")
    folder = config.ledger / "books" / "2026-09"
    path, manifest = folder / "report.json", folder / "manifest.json"
    old = path.read_bytes()
    forged = old.replace(b'"usage": "20.00"', b'"usage": "19.00"')
    assert forged != old
    for file in (path, manifest):
        file.chmod(0o644)
    path.write_bytes(forged)
    text = manifest.read_text().replace(chain.sha256(old), chain.sha256(forged))
    manifest.write_text(text)
    chain_path = config.ledger / "books" / "chain.jsonl"
    chain_path.unlink()
    chain.append(
        chain_path,
        chain.linked(
            {"period": "2026-09", "issuer": "Research Computing", "manifest": chain.sha256(text.encode())}, []
        ),
    )
    assert any("report.json: the usage gives other figures" in problem for problem in verify(config).problems)
