"""However bills are split and filtered, they add up to what the ledger reports."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.accounts import places, totals
from app.ledger_files import LedgerFiles
from app.scope import Scope, contents
from app.shares import SPLITS, By, elsewhere, leases_of, lines, split
from pipelines.config import load
from pipelines.operations import report


def scope_of(config: Path, tenant: str | None, month: str) -> Scope:
    loaded = load(config)
    files = LedgerFiles(loaded.ledger)
    reader = files.fleet()
    known = contents(reader, whole_fleet=True)
    chosen = next(m for m in known.months if m.name == month)
    as_of = files.publication().as_of
    return Scope(loaded, reader, True, known.currency, known.zone, as_of, chosen, None, tenant, known.tenants)


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
def test_places_add_up_to_the_reported_totals(published: Path, month: str) -> None:
    scope = scope_of(published, None, month)
    found, whole = places(scope, scope.month), totals(scope, scope.month)
    reported = report(load(published), period=month).fleet
    assert sum(p.cost for p in found) == whole.cost == Decimal(reported.cost)
    assert sum(p.billed for p in found) == whole.billed == Decimal(reported.billed)
    assert sum(p.unbilled for p in found) == whole.unbilled == Decimal(reported.unbilled)
    assert sum(p.gpu_hours or 0 for p in found) == pytest.approx(reported.capacity_gpu_hours)


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
@pytest.mark.parametrize("tenant", [None, "vision", "speech", "secret", "research"])
@pytest.mark.parametrize("by", SPLITS)
def test_no_split_moves_the_total(published: Path, by: By, tenant: str | None, month: str) -> None:
    scope = scope_of(published, tenant, month)
    unbilled = sum(p.unbilled for p in places(scope, scope.month))
    above = sum(share.amount for share in split(scope, by))
    assert above + elsewhere(scope) + unbilled == totals(scope, scope.month).cost


@pytest.mark.parametrize("tenant", ["vision", "speech", "secret"])
def test_a_tenant_s_lines_are_those_of_its_report(published: Path, tenant: str) -> None:
    scope = scope_of(published, tenant, "2026-11")
    own = lines(scope, scope.month)[tenant]
    found = report(load(published), period="2026-11", tenant=tenant).tenants[0]
    assert own["reserved"] + own["unused"] == Decimal(found.charges.reservation)
    for name in ("usage", "idle", "energy", "overhead", "commitment", "credit", "adjustment"):
        assert own[name] == Decimal(getattr(found.charges, name))
    for workload in found.workloads:
        assert sum(row["amount"] for row in leases_of(scope, workload.workload)) == Decimal(workload.cost)
