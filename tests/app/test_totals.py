"""However bills are split and filtered, they add up to what the ledger reports."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from app.accounts import places, totals
from app.ledger_files import LedgerFiles
from app.scope import Scope, contents
from app.shares import SPLITS, By, elsewhere, leases_of, lines, split, workloads
from app.spans import parse
from app.uses import Use, by_tenant
from pipelines.config import load
from pipelines.operations import report


def scope_of(config: Path, tenant: str | None, time: str) -> Scope:
    loaded = load(config)
    files = LedgerFiles(loaded.ledger)
    reader = files.fleet()
    as_of = files.publication().as_of
    known = contents(reader, whole_fleet=True, as_of=as_of)
    days = parse(time)
    span = known.span(days) if days else None
    assert span is not None, time
    return Scope(loaded, reader, True, known.currency, known.zone, as_of, span, None, tenant, known.tenants)


TIMES: Final = ("2026-10", "2026-11", "2026-W45", "2026-11-05", "2026-Q4", "2026-10-07..2026-11-06", "2026")


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
def test_places_add_up_to_the_reported_totals(published: Path, month: str) -> None:
    scope = scope_of(published, None, month)
    found, whole = places(scope, scope.span), totals(scope, scope.span)
    reported = report(load(published), period=month).fleet
    assert sum(p.cost for p in found) == whole.cost == Decimal(reported.cost)
    assert sum(p.billed for p in found) == whole.billed == Decimal(reported.billed)
    assert sum(p.unbilled for p in found) == whole.unbilled == Decimal(reported.unbilled)
    assert sum(p.gpu_hours or 0 for p in found) == pytest.approx(reported.capacity_gpu_hours)


SCOPES: Final = [
    *((time, tenant) for time in TIMES[:2] for tenant in (None, "vision", "speech", "secret", "research")),
    *((time, tenant) for time in TIMES[2:] for tenant in (None, "vision")),
]


@pytest.mark.parametrize(("time", "tenant"), SCOPES)
@pytest.mark.parametrize("by", SPLITS)
def test_no_split_moves_the_total(published: Path, by: By, tenant: str | None, time: str) -> None:
    scope = scope_of(published, tenant, time)
    unbilled = sum(p.unbilled for p in places(scope, scope.span))
    above = sum(share.amount for share in split(scope, by))
    assert above + elsewhere(scope) + unbilled == totals(scope, scope.span).cost


def test_ranges_that_tile_a_month_add_up_to_it(published: Path) -> None:
    parts = ("2026-11-01..2026-11-04", "2026-11-05", "2026-11-06..2026-11-20", "2026-11-21..2026-11-30")
    scopes = [scope_of(published, "vision", time) for time in parts]
    month = scope_of(published, "vision", "2026-11")
    whole = totals(month, month.span)
    for name in ("cost", "billed", "unbilled"):
        assert sum(getattr(totals(s, s.span), name) for s in scopes) == getattr(whole, name), name
    assert sum(totals(s, s.span).capacity_gpu_hours for s in scopes) == pytest.approx(whole.capacity_gpu_hours)
    for line, amount in lines(month, month.span)["vision"].items():
        assert sum(lines(s, s.span)["vision"][line] for s in scopes) == amount, line
    waste = [by_tenant(s, s.span).get("vision", Use()).waste or 0 for s in scopes]
    assert sum(waste) == by_tenant(month, month.span)["vision"].waste


def test_a_year_is_its_months(published: Path) -> None:
    year, *months = (scope_of(published, None, time) for time in ("2026", "2026-10", "2026-11"))
    assert totals(year, year.span).cost == sum(totals(m, m.span).cost for m in months)
    works = {(w.tenant, w.workload): w.cost for w in workloads(year, year.span)}
    assert sum(works.values()) == sum(w.cost for m in months for w in workloads(m, m.span))


@pytest.mark.parametrize("time", TIMES)
def test_leases_add_up_to_their_workload(published: Path, time: str) -> None:
    scope = scope_of(published, "secret", time)
    (work,) = workloads(scope, scope.span)
    assert sum(row["amount"] for row in leases_of(scope, work.workload)) == work.cost
    assert sum(row["gpu_hours"] for row in leases_of(scope, work.workload)) == pytest.approx(work.gpu_hours)


@pytest.mark.parametrize("tenant", ["vision", "speech", "secret"])
def test_a_tenant_s_lines_are_those_of_its_report(published: Path, tenant: str) -> None:
    scope = scope_of(published, tenant, "2026-11")
    own = lines(scope, scope.span)[tenant]
    found = report(load(published), period="2026-11", tenant=tenant).tenants[0]
    assert own["reserved"] + own["unused"] == Decimal(found.charges.reservation)
    for name in ("usage", "idle", "energy", "overhead", "commitment", "credit", "adjustment"):
        assert own[name] == Decimal(getattr(found.charges, name))
    for workload in found.workloads:
        assert sum(row["amount"] for row in leases_of(scope, workload.workload)) == Decimal(workload.cost)
