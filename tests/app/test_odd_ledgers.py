"""Ledgers whose tenants are called as nobody should call them, and days of which there is nothing yet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from app.accounts import PLACE_OF, places
from app.flows import COLOURS
from app.ledger_files import LedgerFiles
from app.scope import Contents, Month
from app.spans import parse
from pipelines.book.closing import close
from pipelines.config import load
from pipelines.operations import report, run_once
from pipelines.report import Charges
from tests.app.conftest import opened, shown, write
from tests.app.test_totals import scope_of

SAME: Final = [
    {"id": "all", "name": "The All Team"},
    {"id": "vision", "name": "Same"},
    {"id": "speech", "name": "Same"},
]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("named"), tenants=SAME)
    run_once(load(path))
    return path


def test_a_tenant_of_the_id_all_is_one_among_others(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, named)
    assert app.selectbox(key="tenant").options == ["All tenants", "The All Team", "Same (vision)", "Same (speech)"]
    assert "the fleet cost" in app.title[0].value
    assert "The All Team" in opened(monkeypatch, named, tenant="all").title[0].value


def test_tenants_of_one_name_are_two_bars(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(opened(monkeypatch, named, "cost"))
    assert "Same (vision)" in said
    assert "Same (speech)" in said


def test_what_the_report_finds_stands_on_the_page_of_the_data(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = {f.code: f.count for f in report(load(named), period="2026-11").findings}
    assert reported["unresolved_owner"] > 0
    (frame,) = (f.value for f in opened(monkeypatch, named, "data", time="2026-11").dataframe if "code" in f.value)
    assert dict(zip(frame["code"], frame["count"], strict=True)) == reported


def test_days_that_are_all_ahead_are_not_there() -> None:
    months = tuple(
        Month(f"2026-{n:02}", datetime(2026, n, 1, tzinfo=UTC), datetime(2026 + n // 12, n % 12 + 1, 1, tzinfo=UTC))
        for n in (11, 12)
    )
    known = Contents("USD", ZoneInfo("UTC"), months, (months[0].start, datetime(2026, 12, 1, 2, tzinfo=UTC)), {})
    found = {key: known.span(days) is not None for key in TIMES if (days := parse(key))}
    assert found == TIMES


TIMES: Final = {"2026-12": True, "2026-12-01": True, "2026-W49": True, "2026-W51": False, "2026-12-02": False}


def test_every_kind_of_charge_has_a_place_and_its_colour() -> None:
    kinds = {"reserved", "unused", *Charges.model_fields} - {"reservation", "total", "energy", "overhead"}
    assert set(PLACE_OF) == kinds
    assert set(PLACE_OF.values()) <= set(COLOURS)


def test_corrections_of_closed_months_are_no_overheads(tmp_path: Path) -> None:
    path = write(tmp_path, overheads=[])
    config = load(path)
    run_once(config)
    close(config, "2026-10", now=datetime(2026, 11, 15, tzinfo=UTC), by="test", force=True, reason="tried")
    with (tmp_path / "allocations.csv").open("a") as stream:
        stream.write("2026-10-20T00:00:00Z,2026-10-20T10:00:00Z,1,,NVIDIA H100 80GB HBM3,secret,late,\n")
    run_once(load(path))
    found = {p.key: p for p in places(scope_of(path, None, "2026-11"), scope_of(path, None, "2026-11").span)}
    booked = sum(float(t.charges.adjustment) for t in report(load(path), period="2026-11").tenants)
    assert booked != 0
    assert (float(found["adjustment"].billed), float(found["adjustment"].cost)) == (pytest.approx(booked), 0)
    assert "overhead" not in found


def test_what_is_summed_has_no_noise(published: Path) -> None:
    reader = LedgerFiles(load(published).ledger).fleet()
    answer = reader.ask("SELECT 0.1::DOUBLE + 0.2::DOUBLE AS a, 4351.7499999999995::DOUBLE AS b, 'x' AS c, 1 / 3 AS d")
    assert answer.equals(pl.DataFrame({"a": 0.3, "b": 4351.75, "c": "x", "d": 0.333333333}))
